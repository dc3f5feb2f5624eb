"""`isamap graph show`: a model's kernels in order, their costs, and the memories of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.import_command import CONSTANTS, SIZES, import_file
from isamap.cli.model_files import FUSION, FUSION_RULE, GRAPH, WORKSPACE, read_graph
from isamap.cli.option_parser import CommandOptions, argument, flag, one_word
from isamap.driver.request import Choices
from isamap.source import UsageProblem, dataclass, field
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.graph.partition import Method

ENDS = (".svg", ".html")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions(CommandOptions):
    """The options of `graph show`."""

    model: str = argument("MODEL", "The path of an .onnx file, or of a graph.json.")
    hw: str = one_word("--hw", "NAME", "The machine whose prices count.", "host")
    sizes: tuple[str, ...] = SIZES.field()
    constant: tuple[str, ...] = CONSTANTS.field()
    fusion: Method = FUSION_RULE.field()
    workspace: int = WORKSPACE.field()
    choices: Choices = field(default_factory=Choices)
    output: str | None = one_word("-o, --output", "FILE", "Write a picture (.svg) or a page (.html).")
    overwrite: bool = flag("--overwrite", "Replace the file that is there.")


def show_command(asked: ShowOptions) -> Answer:
    """Show how a model's operations become kernels, what these cost, and where tensors lie."""
    from isamap.graph.model_library import ModelOptions, partition_of
    from isamap.graph.partition import parted_view, program_view
    from isamap.report.graph_picture import graph_json, graph_page, graph_picture, graph_text

    output = asked.output
    if output is not None and not output.endswith(ENDS):
        said = f"`{output}` is neither a picture (.svg) nor a page (.html)"
        raise UsageProblem.of("option-value", said, help="write -o graph.svg")
    method, choices = asked.fusion, asked.choices
    how = ModelOptions(asked.hw, limit_s=choices.limit_s, cache=choices.cache)
    with Progress() as progress:
        part = partition_of(method, how, asked.workspace, progress)
        if Path(asked.model).name == GRAPH:
            is_fused = method != FUSION
            program = read_graph(asked.model, asked.sizes, asked.constant, is_fused=is_fused)
            view = program_view(program, part.prices)
        else:
            view = parted_view(import_file(asked.model, asked.sizes, asked.constant, part).whole().name, part)
    payload = {"machine": part.prices.machine.name, "fusion": method, **graph_json(view)}
    findings = tuple(Finding.of(warning) for warning in view.plan.warnings)
    if output is None:
        return Answer(payload, graph_text(view), findings)
    text = graph_page(view) if output.endswith(ENDS[1]) else graph_picture(view).svg()
    write_text(Path(output), text, overwrite=asked.overwrite)
    return Answer({**payload, "files": [output]}, f"wrote {output}", findings)
