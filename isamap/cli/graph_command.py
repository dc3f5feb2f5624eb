"""`isamap graph show`: a model's kernels in their order, what each costs, and where tensors lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.compile_command import FusionName, WorkspaceLimit
from isamap.cli.import_command import ConstantWords, OpenSizes, imported
from isamap.cli.model_files import FUSION, FUSIONS, GRAPH, MOST_WORKSPACE, read_graph
from isamap.cli.options import AsJson, LimitSeconds, NoCache
from isamap.cli.terminal import Progress
from isamap.cli.words import read_choice, read_count, read_number
from isamap.driver.request import MAX_LIMIT_S, MIN_LIMIT_S
from isamap.source import Diagnostic, UsageProblem

ENDS = (".svg", ".html")


def show_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="The path of an .onnx file, or of a graph.json.", show_default=False
        ),
    ],
    hw: Annotated[
        str, typer.Option("--hw", metavar="NAME", help="The machine whose prices count.", show_default=True)
    ] = "host",
    sizes: OpenSizes = None,
    constant: ConstantWords = None,
    fusion: FusionName = FUSION,
    workspace: WorkspaceLimit = "",
    limit: LimitSeconds = "10",
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write a picture (.svg) or a page (.html).",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> Answer:  # fmt: skip
    """Show how a model's operations become kernels, what these cost, and where tensors lie."""
    from isamap.onnx.compiling import How, partition_of
    from isamap.onnx.shown import parted_view, program_view
    from isamap.report.graph_picture import graph_json, graph_page, graph_picture, graph_text

    if output is not None and not output.endswith(ENDS):
        said = f"`{output}` is neither a picture (.svg) nor a page (.html)"
        raise UsageProblem(Diagnostic("option-value", said, help="write -o graph.svg"))
    method = read_choice(fusion, "--fusion", FUSIONS)
    room = read_count(workspace, "--workspace", 1, MOST_WORKSPACE) if workspace else 0
    how = How(hw, limit_s=read_number(limit, "--limit", MIN_LIMIT_S, MAX_LIMIT_S), cache=not no_cache)
    with Progress() as progress:
        part = partition_of(method, how, room, progress)
        if Path(model).name == GRAPH:
            program = read_graph(model, sizes, constant, is_fused=fusion != FUSION)
            view = program_view(program, part.prices)
        else:
            view = parted_view(imported(model, sizes, constant, part).whole().name, part)
    payload = {"machine": part.prices.machine.name, "fusion": method, **graph_json(view)}
    findings = tuple(Finding.of(warning) for warning in view.plan.warnings)
    if output is None:
        return Answer(payload, graph_text(view), findings)
    text = graph_page(view) if output.endswith(ENDS[1]) else graph_picture(view).svg()
    write_text(Path(output), text, overwrite=overwrite)
    return Answer({**payload, "files": [output]}, f"wrote {output}", findings)
