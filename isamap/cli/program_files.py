"""Encoded programs on the command line: `compile --emit` writes them, `verify` and `run` read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isamap.cli.answers import Answer, Finding, write_text
from isamap.cli.option_parser import refuse
from isamap.driver.inputs import machine_of, read_kernel
from isamap.driver.request import Request, Size
from isamap.source import UsageProblem, cannot_write, open_regular
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from isamap.cli.model_files import OfModel
    from isamap.driver.pipeline import Compilation
    from isamap.driver.request import Choices
    from isamap.driver.verifying import Case
    from isamap.graph.layers import Layer
    from isamap.graph.network_stream import NetworkStream
    from isamap.stream.program_file import ProgramFile
    from isamap.stream.timing import StreamTime

_OF_COMPILING = (
    *("--all", "--schedule", "--heuristic", "--fix", "--packed", "--model", "--transform", "--evaluate"),
    *("--tune", "--tuned", "--portfolio", "--emulator", "-o"),
)
ENCODED = ("program", "assembly", "commands")
KERNELS = "kernels"
_HEADS = {"program": b"ISAMPROG", "assembly": b"# isamap listing", "commands": b"/* "}


def refuse_compiling_options(asked: Any) -> None:
    """Refuse options that say how to compile. Raises: UsageProblem."""
    refuse(asked, _OF_COMPILING, "is an option of compilation, and `--program` reads a compiled program")


def emit_words(request: Request, kind: str, output: str | None, force: bool) -> Answer:
    """Write a program or its listing to a file. A listing is printed if no file is named."""
    from isamap.driver.compiling import schedules_of
    from isamap.driver.encoded_programs import compile_words
    from isamap.stream.listing import list_program
    from isamap.stream.program_file import read_program, write_program

    with Progress() as progress:
        program, made = compile_words(request, progress)
    assert made.machine, "a program was made for one"
    stem = program.name
    listing, paths = "", list[str]()
    if kind == "commands":
        paths = _write_commands(made, Path(output or f"{stem}-commands"), force)
    else:
        data = write_program(program)
        if kind == "assembly":
            listing = list_program(read_program(data, "the program"), made.machine)
        if path := output or (f"{stem}.program" if kind == "program" else None):
            _write(Path(path), data if kind == "program" else listing.encode(), kind, force)
            paths.append(path)
    said = f"{program.kernel} on {program.machine}: {program.instructions} instructions in "
    said += f"{len(program.words)} words of {program.word_bits} bits\nwrote {', '.join(paths)}"
    payload = {
        **_describe_program(program),
        "files": paths,
        "text": listing,
        "stage_seconds": dict(made.stage_seconds),
    }
    gaps = tuple(schedule.gap for schedule in schedules_of(made))
    findings = tuple(Finding.of(w) for w in made.warnings)
    return Answer(payload, said if paths else listing.rstrip(), findings, gaps=gaps)


def emit_network(
    kind: str,
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
    """Write the stream of a network to a folder, with its graph, its weights, and the C of the host's steps."""
    from isamap.cli.model_files import check_report, how_of, read_model, where_text, write_layers
    from isamap.driver.artifacts import check_replaceable, manifest_text, write_folder
    from isamap.graph.graph_file import folder_files
    from isamap.graph.layers import layers_of
    from isamap.graph.model_library import compile_program_of, measured_machine
    from isamap.graph.network_stream import assemble_network, compile_host, host_files, least_traffic
    from isamap.stream.assemble import require_encoding
    from isamap.stream.program_file import write_program
    from isamap.version import solver_version

    how = how_of(machines, choices, asked.host, asked.devices)
    require_encoding(measured_machine(how))
    _check_kind(kind, how.host)
    if output is not None:
        check_replaceable(Path(output), force=force)
    check_report(report, force=force)
    with Progress() as progress:
        found, _ = read_model(model, how, sizes, progress, constant=asked.constant, fusion=asked.fusion)
        made = compile_program_of(found.whole(), how, progress, lowered=True)
        program, layers = made.program, layers_of(found.trace, made, made.machine)
        assert made.divided, "there is a host"
        lowered = {n: one.lowered for n, one in made.divided.made.items() if one.lowered is not None}
        stream = assemble_network(program, lowered, made.machine, progress)
        host = compile_host(program, stream.program, how, progress, runs=False)
    file = stream.program
    images = {v.tensor: v.shape for v in found.trace.values.values() if v.tensor in found.trace.borders}
    least = least_traffic(program, file, images)
    layers, listed = _with_traffic(layers, stream)
    payload: dict[str, object] = {
        **_describe_program(file),
        "model": program.name,
        "host": how.host,
        "layers": listed,
    }
    payload |= {
        "traffic_bytes": sum(traffic.total for traffic in stream.traffic),
        "least_traffic_bytes": least,
    }
    files = {**folder_files(program), **host_files(host), f"{program.name}.program": write_program(file)}
    files["manifest.json"] = manifest_text(payload | {"ortools": solver_version()}, files)
    folder = Path(output if output is not None else f"{program.name}-{made.machine.name}")
    paths = [str(path) for path in write_folder(folder, files, force=force)]
    said = (
        f"{program.name} on {file.machine}: {file.instructions} instructions in {len(file.words)} words of "
    )
    said += (
        f"{file.word_bits} bits; {len(file.parts)} of {len(program.steps)} steps, the others on {how.host}"
    )
    lines = [
        said,
        *_traffic_lines(layers, stream, least),
        *where_text(layers),
        *write_layers(report, listed, program, force=force),
        f"wrote {folder}",
    ]
    return Answer(payload | {"files": paths}, "\n".join(lines))


def _check_kind(kind: str, host: str | None) -> None:
    """Refuse other outputs than a program with the steps of a host. Raises: UsageProblem."""
    if kind == "program" and host:
        return
    wrong = f"`--emit {kind}` is about one kernel" if kind != "program" else "no host performs other steps"
    said = f"{wrong}, and a network is written as a program with the steps of its host"
    raise UsageProblem.of("usage", said, help="use --emit program, and leave out --host none")


def _with_traffic(
    layers: Sequence[Layer], stream: NetworkStream
) -> tuple[list[Layer], list[dict[str, object]]]:
    """Return the layers, with the predicted time of encoded ones by their share of traffic, and all as JSON."""
    from isamap.cli.model_files import layer_json

    made = list(layers)
    parts = list(zip(stream.program.parts, stream.traffic, strict=True))
    for part, traffic in parts:
        layer = made[part.step]
        own_ns = layer.predicted_ns - layer.transfer_ns  # its own loads are in the price
        made[part.step] = replace(layer, predicted_ns=own_ns * traffic.share, transfer_ns=0.0)
    listed = [layer_json(layer) | {"predicted_ns": round(layer.predicted_ns, 1)} for layer in made]
    for part, traffic in parts:
        listed[part.step] |= {"instructions": part.instructions, "words": part.words}
        listed[part.step] |= {"read_bytes": traffic.read, "written_bytes": traffic.written}
    return made, listed


def _traffic_lines(layers: Sequence[Layer], stream: NetworkStream, least: Mapping[str, int]) -> Sequence[str]:
    """Return a table of the encoded layers with their main memory traffic, and a line with their sum."""
    from isamap.cli.model_files import WIDE
    from isamap.report.columns import align, shorten
    from isamap.report.mappings import time_text

    rows = [("layer", "predicted", "instructions", "reads", "writes")]
    for part, traffic in zip(stream.program.parts, stream.traffic, strict=True):
        layer = layers[part.step]
        issued, read, written = map(str, (part.instructions, traffic.read, traffic.written))
        rows.append((shorten(layer.name, WIDE), time_text(layer.predicted_ns), issued, read, written))
    moved, needed = sum(traffic.total for traffic in stream.traffic), sum(least.values())
    named = ", ".join(f"{name} {size}" for name, size in least.items())
    whole = f"{moved} bytes of main memory, {moved / max(1, needed):.2f} times {needed} ({named})"
    return ["", align(rows, right=(1, 2, 3, 4)), "", whole]


def _write_commands(made: Compilation, folder: Path, force: bool) -> list[str]:
    """Return the paths of the C files that issue the words. Raises: UsageProblem as `_write` does."""
    from isamap.driver.printers import emit_artifact

    assert made.machine, "the stages have run"
    assert made.program, "the stages have run"
    files = emit_artifact(made.program, made.machine, "commands").files()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    for name, text in files.items():
        _write(folder / name, text.encode() if isinstance(text, str) else text, "commands", force)
    return [str(folder / name) for name in files]


def emit_kernels(request: Request, output: str | None, force: bool) -> Answer:
    """Write the kernels for a device and the plan of their launches to a folder."""
    from isamap.driver.artifacts import manifest_text, write_folder
    from isamap.driver.compiling import schedules_of
    from isamap.driver.length_versions import compile_request
    from isamap.driver.printers import emit_artifact

    with Progress() as progress:
        made = compile_request(request, "lower", progress)
        assert made.machine, "the stages have run"
        assert made.program, "the stages have run"
        progress("emit")
        files = dict(emit_artifact(made.program, made.machine, "kernels").files())
    facts = {"kernel": made.kernel.name, "machine": made.machine.name, "sizes": dict(made.program.sizes)}
    files["manifest.json"] = manifest_text(facts, files)
    folder = Path(output or f"{made.kernel.name}-{made.machine.name}")
    paths = [str(path) for path in write_folder(folder, files, force=force)]
    gaps = tuple(schedule.gap for schedule in schedules_of(made))
    payload = {**facts, "files": paths, "stage_seconds": dict(made.stage_seconds)}
    text = "\n".join(f"wrote {path}" for path in paths)
    return Answer(payload, text, tuple(Finding.of(w) for w in made.warnings), gaps=gaps)


def _describe_program(program: ProgramFile) -> dict[str, object]:
    return {
        "kernel": program.kernel,
        "machine": program.machine,
        "sizes": dict(program.sizes),
        "instructions": program.instructions,
        "words": len(program.words),
        "word_bits": program.word_bits,
        "memories": dict(program.memories),
    }


def _write(path: Path, data: bytes, kind: str, force: bool) -> None:
    """Write a file. Raises: UsageProblem if another program's file exists or nothing can be written."""
    try:
        if path.exists() and not force:
            with open_regular(path) as there:
                if not there.read(32).startswith(_HEADS[kind]):
                    said = f"{path} is not replaced, because isamap did not write it as a {kind}"
                    advice = "name another file with -o; `--force` replaces it"
                    raise UsageProblem.of("output-in-the-way", said, help=advice)
    except OSError as error:
        raise cannot_write(path, error) from None
    write_text(path, data, overwrite=True)


def read_cases(
    path: str, kernel: str, machine: str, sizes: Sequence[Mapping[str, Size]], fills: tuple[str, ...]
) -> tuple[list[Case], dict[str, int], StreamTime | None]:
    """Return the comparisons of a program file, the count of each instruction, and the simulated time.

    Raises: UsageProblem if file, kernel, machine and sizes do not belong together.
    """
    from isamap.driver.encoded_programs import load_program, program_cases, program_kernel
    from isamap.machine import load_machine
    from isamap.stream.execute import count_instructions
    from isamap.stream.timing import stream_time

    described = load_machine(machine_of(machine))
    program = load_program(path, described)
    for own in sizes:
        if other := next((name for name, size in own.items() if program.sizes.get(name) != size), None):
            said = f"{path} was made for {other} = {program.sizes.get(other)}, not {own[other]}"
            advice = "leave out -D: the file has its sizes"
            raise UsageProblem.of("program-mismatch", said, help=advice)
    with Progress() as progress:
        progress("verify")
        bound = program_kernel(program, read_kernel(kernel))
        cases = list(program_cases(program, described, bound, fills))
    if any(case.checked == "nothing" for case in cases):
        return cases, {}, None
    return cases, count_instructions(program, described), stream_time(program, described)
