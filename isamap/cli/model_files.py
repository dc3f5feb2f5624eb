"""`isamap compile model.onnx`: a whole model as one library in C, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.cli.answers import Answer, Finding, check_new, write_text
from isamap.cli.import_command import CONSTANTS, import_file
from isamap.cli.option_parser import CommandOptions, one_word, refuse
from isamap.driver.options import WORD, Option, count, flags_of, given_flags, one_of, option, read_count
from isamap.driver.request import BEST_FORM, Choices
from isamap.source import Diagnostic, UsageProblem, dataclass
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.graph.device_assignment import DeviceAssignment
    from isamap.graph.importing import Imported
    from isamap.graph.layers import Layer
    from isamap.graph.model_library import ModelOptions, ModelSource
    from isamap.graph.model_program import ModelProgram
    from isamap.graph.partition import Method
    from isamap.graph.sizes import OpenSize

FUSION = "greedy"
FUSIONS = ("none", "greedy", "cpsat")
MOST_WORKSPACE = 1 << 40
WEIGHTS = ("embedded", "file")
GRAPH = "graph.json"
WIDE = 56
"""Characters of a layer's name in a table; JSON has all."""
MOST_REASON = 90


FUSION_RULE = Option(
    ("--fusion",), "RULE", f"Of a model, how operations become kernels: {', '.join(FUSIONS)}.",
    one_of(*FUSIONS), FUSION,
)  # fmt: skip
HOST = Option(
    ("--host",), "MACHINE",
    "Of a model, the machine that performs what the first one does not; none: such a model is refused. "
    "By default it is the one that the description names, and generic-c for a machine that runs as a model.",
    WORD, None,
)  # fmt: skip
WORKSPACE = Option(
    ("--workspace",), "BYTES", "Of a model, the most that its workspace may take.",
    count(1, MOST_WORKSPACE), 0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OfModel:
    """The options of `compile` that apply to a whole model."""

    constant: tuple[str, ...] = CONSTANTS.field()
    weights: str = option(
        "--weights", "PLACE",
        "Place of a model's weights: inside the library (`embedded`), or in a file of their own, for example "
        "`--weights file`. Each call is then given the address of the file's content.",
        one_of(*WEIGHTS), default="embedded",
    )  # fmt: skip
    fusion: Method = FUSION_RULE.field()
    host: str | None = HOST.field()
    workspace: int = WORKSPACE.field()
    devices: str = one_word(
        "--devices", "N", "For a model: the cores among which its kernels are distributed.", "1"
    )


OF_BOTH = (
    "--hw",
    "-D",
    "--heuristic",
    "--cost-model",
    "--profile",
    "--limit",
    "--threads",
    "--no-cache",
    "--transform",
    *flags_of(CommandOptions),
)
"""The options of kernels that a model obeys as well."""


def refuse_of_kernel(asked: CommandOptions, taken: Sequence[str], advice: str) -> None:
    """Refuse options without effect on a model. `taken` are the command's model options. Raises: UsageProblem."""
    others = [flag for flag in given_flags(asked) if flag not in OF_BOTH and flag not in taken]
    refuse(asked, others, "is about one kernel, and a model has many", advice)


def is_model(word: str) -> bool:
    """Return whether a word is the path of a model, or of a graph file."""
    return word.endswith(".onnx") or Path(word).name == GRAPH


def compile_whole(
    model: str,
    machines: Sequence[str],
    sizes: Sequence[str],
    output: str | None,
    choices: Choices,
    asked: OfModel,
    *,
    force: bool,
    report: str | None = None,
) -> Answer:
    """Return the files of a model's library in their folder. `report` is the place of a report on its layers."""
    from isamap.driver.artifacts import check_replaceable, manifest_text, write_folder
    from isamap.graph.layers import constants_by_memory, layers_of
    from isamap.graph.model_library import compile_program_of
    from isamap.graph.partition import no_room
    from isamap.version import solver_version

    how, room = how_of(machines, choices, asked.host, asked.devices), asked.workspace
    if output is not None:
        check_replaceable(Path(output), force=force)
    check_report(report, force=force)
    with Progress() as progress:
        found, warnings = read_model(
            model, how, sizes, progress, constant=asked.constant, fusion=asked.fusion, room=room
        )
        made = compile_program_of(found.whole(), how, progress, apart=asked.weights == "file")
        program, layers = made.program, layers_of(found.trace, made, made.machine)
    emitted = made.emitted
    if room and emitted.workspace_bytes > room:
        raise no_room(emitted.workspace_bytes, room)
    folder = Path(output if output is not None else f"{program.name}-{made.machine.name}")
    summary = _summary(program, made, how, asked.fusion)
    described = [layer_json(layer) for layer in layers]
    lying = constants_by_memory(made)
    if made.divided:
        summary |= {"host": made.divided.host.name, "layers": described}
        summary |= {"constants_by_memory_bytes": lying} if lying else {}
    files = dict(emitted.files)
    files["manifest.json"] = manifest_text(summary | {"ortools": solver_version()}, files)
    paths = [str(path) for path in write_folder(folder, files, force=force)]
    reported = write_layers(report, described, program, force=force)
    lines = [
        f"{program.name} on {made.machine.name}: {made.kernels} kernels in {len(program.steps)} steps",
        f"workspace: {emitted.workspace_bytes} bytes; weights: {len(emitted.weights)} bytes"
        + "".join(f"; {size} bytes of constants in {memory}" for memory, size in lying.items()),
        *(
            f"`{size.name}` is open: a call gives it, from {size.low} to {size.high}"
            for size in program.sizes
        ),
        *(f"data decides `{size.name}`: a call returns it, {size.high} at most" for size in emitted.returned),
        *([_describe_parallel(made.dealt)] if made.dealt else []),
        *(where_text(layers) or ([] if made.dealt else _describe_prediction(layers))),
        *reported,
        f"wrote {folder}; `make -C {folder}` builds lib{program.name}.a and lib{program.name}.so",
    ]
    warnings = (*warnings, *(made.dealt.plan.warnings if made.dealt else ()))
    return Answer(summary | {"files": paths}, "\n".join(lines), tuple(map(Finding.of, warnings)))


def _describe_prediction(layers: Sequence[Layer]) -> list[str]:
    """Return a line with the time of all layers, none for a model without computations."""
    from isamap.report.mappings import time_text

    total_ns = sum(layer.predicted_ns for layer in layers)
    return [f"predicted: {time_text(total_ns)}; `--report -` lists the layers"] if total_ns > 0 else []


def check_report(report: str | None, *, force: bool) -> None:
    """Check that the report of a model can be written. Raises: UsageProblem."""
    if report in (None, "-"):
        return
    if Path(report).suffix not in (".txt", ".json", ".html"):
        said = f"`--report` of a model is about its layers, and `{report}` is no .html, .txt or .json"
        raise UsageProblem.of("usage", said, help="write `--report layers.html`, or `--report -` to print it")
    if not force:
        check_new(Path(report))


def write_layers(
    report: str | None, layers: Sequence[Mapping[str, Any]], program: ModelProgram, *, force: bool
) -> list[str]:
    """Write the report of a model's layers, given as JSON, and return the lines of the answer about it."""
    from isamap.report.access_tables import layers_text
    from isamap.report.page.as_html import network_html

    if report is None:
        return []
    if report == "-":
        return [layers_text(layers), ""]
    text = json.dumps({"layers": layers}, indent=2) if report.endswith(".json") else layers_text(layers)
    text = network_html(program.name, layers, program.kernels) if report.endswith(".html") else f"{text}\n"
    write_text(Path(report), text, overwrite=force)
    return [f"wrote {report}"]


def answer_model_stage(
    stage: str, model: str, machines: Sequence[str], sizes: Sequence[str], choices: Choices, asked: OfModel
) -> Answer:
    """Return a model as text: a kernel for each node behind `parse`, fused kernels behind `transform`."""
    from isamap.graph.model_program import print_model

    if stage not in ("parse", "transform"):
        said = f"`--stop-after {stage}` is about one kernel, and a model has many"
        advice = "stop after parse or transform; `isamap import` writes each kernel to a file of its own"
        raise UsageProblem.of("usage", said, help=advice)
    how = how_of(machines, choices, asked.host, asked.devices)
    fusion = "none" if stage == "parse" and Path(model).name != GRAPH else asked.fusion
    with Progress() as progress:
        found, warnings = read_model(
            model, how, sizes, progress, constant=asked.constant, fusion=fusion, room=asked.workspace
        )
    program = found.whole()
    text = print_model(program)
    payload: dict[str, object] = {"model": program.name, "stage": stage, "text": text, "files": ()}
    return Answer(payload, text, tuple(map(Finding.of, warnings)))


def how_of(machines: Sequence[str], choices: Choices, host: str | None, devices: str = "1") -> ModelOptions:
    """Return the settings for compiling kernels that the options of a command give. Raises: UsageProblem."""
    from isamap.graph.host_fallback import host_of
    from isamap.graph.model_library import MAX_DEVICES, ModelOptions, refuse_both

    if len(machines) > 1:
        said = f"a model is compiled for one machine, and `--hw` names {len(machines)}"
        raise UsageProblem.of("usage", said, help="compile it for each by itself")
    if choices.transform not in (None, BEST_FORM):
        said = f"`--transform {choices.transform}` is a variant of one kernel, and a model has many"
        raise UsageProblem.of("usage", said, help="leave out the number")
    how = ModelOptions(
        machines[0],
        choices.heuristic,
        choices.limit_s,
        cache=choices.cache,
        threads=choices.threads,
        profile=choices.profile_name,
        cost_model=choices.cost_model,
        devices=read_count(devices, "--devices", 1, MAX_DEVICES),
        host=host_of(host, machines[0]),
        scheduler=choices.scheduler,
        transform=choices.transform is not None,
    )
    refuse_both(how)
    return how


def _describe_parallel(dealt: DeviceAssignment) -> str:
    """Return a line about devices that run in parallel: the predicted time, and that of one device."""
    from isamap.report.mappings import time_text

    count = sum(len(phase) > 1 for phase in dealt.phases)
    how_often = {0: "never side by side", 1: "side by side once"}.get(count, f"side by side {count} times")
    times = f"{time_text(dealt.plan.cost_ns)} by the model, {time_text(dealt.alone_ns)} on one"
    return f"devices: {dealt.devices}, {how_often}; {times}"


def _summary(
    program: ModelProgram, made: ModelSource, how: ModelOptions, method: Method
) -> dict[str, object]:
    """Return the facts about a model for the answer and the manifest. Units: bytes, nanoseconds."""
    devices: dict[str, object] = {"devices": how.devices}
    if made.dealt:
        devices["phases"] = [[list(part) for part in phase] for phase in made.dealt.phases]
        devices["cost_ns"] = round(made.dealt.plan.cost_ns, 1)
        devices["bound_ns"] = round(made.dealt.plan.bound_ns, 1)
        devices["one_device_ns"] = round(made.dealt.alone_ns, 1)
    return {
        "model": program.name,
        "machine": made.machine.name,
        **({"sizes": [_open_size(size) for size in program.sizes]} if program.sizes else {}),
        **({"counts": [_open_size(size) for size in made.emitted.returned]} if made.emitted.returned else {}),
        "inputs": [_port(p.name, p.passed.dtype, p.passed.shape) for p in program.inputs],
        "outputs": [_port(p.name, p.passed.dtype, p.passed.shape) for p in program.outputs],
        "kernels": made.kernels,
        "steps": len(program.steps),
        "threads": how.threads,
        **devices,
        "fusion": method,
        "workspace_bytes": made.emitted.workspace_bytes,
        "weights_bytes": len(made.emitted.weights),
    }


def read_model(
    model: str,
    how: ModelOptions,
    sizes: Sequence[str],
    progress: Progress,
    *,
    constant: Sequence[str] = (),
    fusion: Method = FUSION,
    room: int = 0,
) -> tuple[Imported, Sequence[Diagnostic]]:
    """Return the model of a file, or the program of a graph file (without step names), with the warnings.

    Units: bytes of `room` for a workspace, 0 without a limit. Raises: UsageProblem.
    """
    from isamap.graph.host_fallback import reads_signed_bytes_only
    from isamap.graph.importing import Imported
    from isamap.graph.model_library import fuse_of, warnings_of

    progress("import")
    fuse = fuse_of(fusion, how, room, progress)
    if Path(model).name == GRAPH:
        program = read_graph(model, sizes, constant, is_fused=fusion != FUSION)
        return Imported(program.name, (), (), program), warnings_of(fuse)
    signed = reads_signed_bytes_only(how.machine)
    return import_file(model, sizes, constant, fuse, signed=signed), warnings_of(fuse)


def layer_json(layer: Layer) -> dict[str, object]:
    """Return a layer as JSON, with its machine, and the reason if the host performs it. Units: nanoseconds."""
    return {
        "nodes": list(layer.nodes), "operators": list(layer.operators), "kernel": layer.kernel,
        **({"machine": layer.machine} if layer.machine else {}),
        **({"why": layer.why} if layer.why else {}),
        **({"transfer_ns": round(layer.transfer_ns, 1)} if layer.transfer_ns else {}),
        **({"predicted_ns": round(layer.predicted_ns, 1)} if layer.predicted_ns else {}), **layer.facts,
    }  # fmt: skip


def where_text(layers: Sequence[Layer]) -> list[str]:
    """Return the lines of a table of the machines that run layers, or [] if all run on one machine."""
    from isamap.graph.layers import group_by_place
    from isamap.report.access_tables import gap_text
    from isamap.report.columns import align, shorten
    from isamap.report.mappings import time_text

    found = group_by_place(layers)
    if len({machine for machine, _ in found}) < 2 and not any(why for _, why in found):
        return []
    rows = [("runs on", "layers", "predicted", "gap", "transfers", "reason")]
    for (machine, why), own in sorted(found.items(), key=lambda item: bool(item[0][1])):
        named = ", ".join(dict.fromkeys(layer.name for layer in own))
        predicted, transfer = sum(one.predicted_ns for one in own), sum(one.transfer_ns for one in own)
        listed = f"{len(own)}: {shorten(named, WIDE)}"
        reason = shorten(why, MOST_REASON) or "-"
        gap = gap_text([(one.predicted_ns, one.facts.get("gap")) for one in own])
        rows.append((machine, listed, time_text(predicted), gap, time_text(transfer), reason))
    return ["", align(rows, right=(2, 3, 4)), ""]


def read_graph(model: str, sizes: Sequence[str], constants: Sequence[str], *, is_fused: bool) -> ModelProgram:
    """Return the program of a graph file. Raises: UsageProblem, also for options that need an import."""
    from isamap.graph.graph_file import read_folder

    refused = {"-D": sizes, "--constant": constants, "--fusion": is_fused}
    for name, value in refused.items():
        if value:
            said = f"`{name}` applies to the import of a model; a graph file has its sizes and kernels"
            raise UsageProblem.of("usage", said, help="give the .onnx file")
    return read_folder(Path(model))


def _open_size(size: OpenSize) -> dict[str, object]:
    """Return an open size as JSON. A size that a call returns has the lower bound 0."""
    facts: dict[str, object] = {name: value for name, value in asdict(size).items() if name != "tensor"}
    return facts | {"low": 0} if size.tensor else facts


def _port(name: str, dtype: str, shape: tuple[int, ...]) -> dict[str, object]:
    from isamap.graph.sizes import is_open

    return {"name": name, "type": dtype, "shape": [repr(s) if is_open(s) else s for s in shape]}
