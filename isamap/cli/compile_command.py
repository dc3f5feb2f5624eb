"""`isamap compile`: write code, schedule, report and manifest to a folder. No compiler is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding, with_proof, write_text
from isamap.cli.early_words import read_sizes
from isamap.cli.model_files import OfModel, answer_model_stage, compile_whole, is_model, refuse_of_kernel
from isamap.cli.option_parser import (
    KERNEL_HELP,
    MACHINE_HELP,
    REQUIRE,
    SIZES,
    CommandOptions,
    Portfolio,
    argument,
    flag,
    one_word,
    refuse,
)
from isamap.cli.program_files import ENCODED, KERNELS, emit_kernels, emit_network, emit_words
from isamap.cli.terminal import takes_unicode
from isamap.driver.inputs import machine_of, read_kernel
from isamap.driver.options import WORDS, flags_of, given_flags, one_of, option
from isamap.driver.request import Choices, Request, make_request
from isamap.driver.stages import PASS_NAMES, STAGES
from isamap.source import UsageProblem, cannot_write, dataclass, field, open_regular, replace
from isamap.source.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from isamap.driver.cached_compilations import CachedOutcome
    from isamap.driver.pipeline import Compilation, Seen
    from isamap.driver.request import Request
    from isamap.libraries.description import Library
    from isamap.report.page.report_facts import Report


# --- report files ---------------------------------------------------------------------------------------

# Write the files of `compile --report` and `--trace`: one file by its ending, or a folder of pictures.


ENDINGS = (".html", ".txt", ".json")
SHOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The reports to write, or None for those that were not requested."""

    report: str | None = one_word(
        "--report", "PATH",
        "Also write a report on the compilation, for example `--report gemm.html`. The ending selects the format: "
        ".html is a page with pictures, .txt is text (`-` prints it), .json has the facts; a FOLDER gets all of "
        "them and each picture as SVG. By default no report is written. For a model, the report is about its "
        "layers: .html, .txt, .json or `-`.",
    )  # fmt: skip
    trace: str | None = one_word(
        "--trace", "FILE",
        "Simulate a call, and write when each unit, transfer and buffer is busy: a trace for Perfetto.",
    )  # fmt: skip


def check_places(shown: Shown, *, force: bool) -> None:
    """Check that both report files may be written, before long work begins. Raises: UsageProblem."""
    from isamap.driver.artifacts import check_replaceable

    if shown.trace is not None:
        _check_file(Path(shown.trace), force)
    if shown.report is None or shown.report == SHOWN:
        return
    path = Path(shown.report)
    if path.suffix in ENDINGS:
        _check_file(path, force)
    elif path.suffix and not path.is_dir():
        said = f"`--report` has no format with the ending `{path.suffix}`"
        advice = f"name a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, or a folder"
        raise UsageProblem.of("usage", said, help=advice)
    else:
        check_replaceable(path, force=force)


def _check_file(path: Path, force: bool) -> None:
    """Refuse to replace a file, unless isamap wrote it and it is unchanged."""
    from isamap.report.page.stamp import is_as_stamped, is_stamped

    if not path.parent.is_dir():
        raise cannot_write(path, "there is no such folder")
    if path.is_dir():
        raise cannot_write(path, "it is a folder")
    if force or not path.exists():
        return
    try:
        with open_regular(path) as file:
            text = file.read().decode("utf-8")
    except OSError as error:
        raise cannot_write(path, error) from None
    except UnicodeDecodeError:
        text = ""
    if not is_stamped(text):
        said = f"{path} is not replaced: isamap did not write it"
        raise UsageProblem.of("output-in-the-way", said, help="name another file; `--force` replaces it")
    if not is_as_stamped(text):
        said = f"{path} is not replaced: it was changed since isamap wrote it"
        advice = "keep a copy elsewhere, or name another file; `--force` replaces it"
        raise UsageProblem.of("output-edited", said, help=advice)


def write_reports(
    request: Request, made: Compilation, shown: Shown, progress: Callable[[str], None], *, force: bool
) -> tuple[list[str], str]:
    """Write the requested reports. Return their paths and the text to print."""
    from isamap.driver.reporting import recording_of, report_of, trace_of
    from isamap.report.page.stamp import add_digest

    recorded = recording_of(request, made, progress, is_recorded=shown.trace is not None)
    paths: list[str] = []
    text = ""
    check_places(shown, force=force)  # once more: compiling may have taken long
    if shown.report is not None:
        paths, text = _write_report(report_of(request, made, recorded, progress), shown.report, force)
    if shown.trace is not None:
        write_text(Path(shown.trace), add_digest(trace_of(request, made, recorded)), overwrite=True)
        paths.append(shown.trace)
    return paths, text


def _write_report(report: Report, place: str, force: bool) -> tuple[list[str], str]:
    from isamap.driver.artifacts import write_folder
    from isamap.report.page.as_text import PLAIN, report_text

    if place == SHOWN:
        text = report_text(report)
        return [], text if takes_unicode() else text.translate(PLAIN)
    path = Path(place)
    if path.suffix in ENDINGS:
        write_text(path, _as_file(report, path.suffix), overwrite=True)
        return [place], ""
    return [str(one) for one in write_folder(path, _folder(report), force=force)], ""


def _as_file(report: Report, ending: str) -> str:
    from isamap.report.page.as_html import report_html
    from isamap.report.page.as_text import report_json, report_text
    from isamap.report.page.stamp import STAMP, add_digest

    match ending:
        case ".html":
            return add_digest(report_html(report))
        case ".json":
            whole = {"made_by": STAMP, **report_json(report)}
            return add_digest(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        case _:
            return add_digest(f"{report_text(report)}\n{STAMP}\n")


def _folder(report: Report) -> dict[str, str]:
    """Return the files of a report folder by name."""
    from isamap.driver.artifacts import manifest_text
    from isamap.report.page.pictures import all_pictures

    names = {"index.html": ".html", "report.txt": ".txt", "report.json": ".json"}
    files = {name: _as_file(report, ending) for name, ending in names.items()}
    for picture in all_pictures(report):
        files[f"{picture.name}.svg"] = picture.svg()
        files[f"{picture.name}.txt"] = f"{picture.text}\n"
    summary = {"kernel": report.kernel, "machine": report.machine, "sizes": report.sizes}
    files["manifest.json"] = manifest_text(summary, files)
    return files


# --- compile command ------------------------------------------------------------------------------------


_OF_CODE = ("--stop-after", "--dump-passes", "--report", "--trace")
_OF_MODEL = ("-o", "--output", "--force", "--emit", "--report", "--scheduler", "--stop-after")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions(CommandOptions):
    """The options of `compile`."""

    kernel: str = argument("KERNEL", f"{KERNEL_HELP}; a model's .onnx file, or a graph.json.")
    hw: tuple[str, ...] = option(
        "--hw", "MACHINE",
        f"{MACHINE_HELP}. Append @Q=8 to set the vector length. Append @Q=any for code that supports every "
        "length in the description. Repeat --hw for code that selects a machine at run time.",
        WORDS,
    )  # fmt: skip
    sizes: tuple[str, ...] = SIZES.field()
    output: str | None = one_word(
        "-o, --output", "FOLDER",
        "The output folder; KERNEL-MACHINE by default. What an earlier command wrote there is deleted. "
        "With --emit program or assembly, the output file.",
    )  # fmt: skip
    force: bool = flag("--force", "Replace files of FOLDER that were changed since they were written.")
    emit: str = option(
        "--emit", "KIND",
        "code: C. For machines with encoded instructions also program (binary), assembly (a listing) or "
        "commands (C that sends the instructions). For machines with levels also kernels (in the language of "
        "the device, with the plan of their launches).",
        one_of("code", *ENCODED, KERNELS), default="code",
    )  # fmt: skip
    stop_after: str = option(
        "--stop-after", "STAGE",
        "Stop after one stage and print its result instead of code, for example `--stop-after schedule`. By "
        f"default all stages run: {', '.join(STAGES)}. Passes of lowering are named likewise: "
        f"{', '.join(PASS_NAMES)}. A model stops after parse or transform, as a list of steps with its kernels.",
        one_of(*STAGES, *PASS_NAMES), default="",
    )  # fmt: skip
    dump_passes: str | None = one_word(
        "--dump-passes", "FOLDER", "Also write the program after each pass of lowering there, as text."
    )
    shown: Shown = field(default_factory=Shown)
    choices: Choices = field(default_factory=Choices)
    require: str = REQUIRE.field()
    compared: Portfolio = field(default_factory=Portfolio)
    of_model: OfModel = field(default_factory=OfModel)


def compile_command(asked: CompileOptions) -> Answer:
    """Write the code of a kernel, or of a whole model, on a machine."""
    if is_model(asked.kernel):
        advice = "`isamap import` writes the kernels of a model, each to be compiled by itself"
        refuse_of_kernel(asked, [*_OF_MODEL, *flags_of(OfModel)], advice)
        if asked.stop_after:
            refuse(asked, ["-o", "--emit"], "is about a whole compilation, and `--stop-after` ends it before")
            return answer_model_stage(
                asked.stop_after, asked.kernel, asked.hw, asked.sizes, asked.choices, asked.of_model
            )
        given = asked.kernel, asked.hw, asked.sizes, asked.output, asked.choices, asked.of_model
        if asked.emit != "code":
            return emit_network(asked.emit, *given, force=asked.force, report=asked.shown.report)
        return compile_whole(*given, force=asked.force, report=asked.shown.report)
    advice = "give scalars when the kernel is called"
    refuse(asked, ["--constant"], "is about an input of a model, and this is a kernel", advice)
    advice = "give the path of an .onnx file"
    refuse(asked, flags_of(OfModel), "is about a model, and this is a kernel", advice)
    return with_proof(_of_kernel(asked), asked.require)


def _of_kernel(asked: CompileOptions) -> Answer:
    """Compile a kernel, or run it up to a stage, and return the answer."""
    libraries, hw, output, shown, force = (
        asked.compared.libraries(), asked.hw, asked.output, asked.shown, asked.force
    )  # fmt: skip
    if libraries is not None:
        if len(hw) > 1:
            said = f"`--portfolio` measures on one machine, and `--hw` names {len(hw)}"
            raise UsageProblem.of("usage", said, help="leave out one of them")
        why = "is about the code that isamap emits, and `--portfolio` may put another in its place"
        refuse(asked, ["--emit", *_OF_CODE], why)
    elif asked.emit != "code":
        other = "the kernels of a device" if asked.emit == KERNELS else "encoded instructions"
        why = f"applies to C code, and `--emit` asks for {other}"
        if len(hw) > 1:
            raise UsageProblem.of("usage", f"`several --hw` {why}", help="leave out one of them")
        refuse(asked, [*_OF_CODE, "--packed", "--model"], why)
    elif len(hw) > 1:
        refuse(asked, [*_OF_CODE, "--schedule"], f"is about one machine, and `--hw` names {len(hw)}")
    elif asked.stop_after:
        refuse(shown, _OF_CODE, "is about a whole compilation, and `--stop-after` ends it before")
    kernel, sizes = read_kernel(asked.kernel), read_sizes(asked.sizes)
    requests = [make_request(kernel, machine_of(name), sizes, asked.choices) for name in hw]
    request = requests[0]
    if libraries is not None:
        return _of_faster(request, libraries, output, force)
    if asked.emit in ENCODED:
        return emit_words(request, asked.emit, output, force)
    if asked.emit == KERNELS:
        return emit_kernels(request, output, force)
    if len(requests) > 1:
        return _for_several(requests, output, force)
    seen = _dump(asked.dump_passes)
    if asked.stop_after:
        return _answer_stage(request, asked.stop_after, seen)
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.compiling import compile_files

    if output is not None:
        check_replaceable(Path(output), force=force)
    if given_flags(shown):
        return _answer_compilation(request, seen, output, shown, force)
    with Progress() as progress:
        outcome = compile_files(request, progress, seen)
    return _write_outcome(outcome, output, outcome.files["report.txt"], force)


def _of_faster(request: Request, libraries: tuple[Library, ...], output: str | None, force: bool) -> Answer:
    """Compile a kernel, or a library call if that is faster, and return the answer."""
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.portfolio import with_faster
    from isamap.driver.runnable import prepare

    if output is not None:
        check_replaceable(Path(output), force=force)
    with Progress() as progress:
        outcome = with_faster(prepare(request, progress), libraries, progress).program.outcome
    return _write_outcome(outcome, output, outcome.files["report.txt"], force)


def _answer_compilation(
    request: Request, seen: Seen | None, output: str | None, shown: Shown, force: bool
) -> Answer:
    """Write the files of a compilation, its report and its pictures, and return the answer."""
    from isamap.driver.compiling import compile_program
    from isamap.scheduler import start_early

    check_places(shown, force=force)
    if shown.report is not None:
        start_early()  # the runners-up are the solver's to find
    with Progress() as progress:
        program = compile_program(request, progress, seen)
        made = program.compilation
        paths, text = write_reports(request, made, shown, progress, force=force)
    outcome = program.outcome
    answer = _write_outcome(outcome, output, text or outcome.files["report.txt"], force)
    written = answer.payload["files"]
    assert isinstance(written, list), "paths"
    said = "\n".join([answer.text, *(f"wrote {path}" for path in paths)])
    return replace(answer, payload={**answer.payload, "files": [*written, *paths]}, text=said)


def _dump(folder: str | None) -> Seen | None:
    """Return a function that writes the passes to a folder, or None if no folder is given."""
    if folder is None:
        return None
    from isamap.driver.explaining import Dump

    return Dump(Path(folder))


def _for_several(requests: list[Request], output: str | None, force: bool) -> Answer:
    """Write one artifact for several machines, and return the answer."""
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.dispatching import compile_dispatch

    if output is not None:
        check_replaceable(Path(output), force=force)
    with Progress() as progress:
        outcome = compile_dispatch(requests, progress)
    order = ", then ".join(outcome.summary["machines"])
    text = f"{outcome.kernel} for several machines; the first one that the processor supports runs: {order}\n"
    return _write_outcome(outcome, output, text, force)


def _write_outcome(outcome: CachedOutcome, output: str | None, report: str, force: bool) -> Answer:
    """Write the files of an outcome to their folder, and return the answer."""
    from isamap.driver.artifacts import write_folder

    folder = Path(output if output is not None else f"{outcome.kernel}-{outcome.machine}")
    paths = [str(path) for path in write_folder(folder, outcome.files, force=force)]
    findings = tuple(Finding(w.json, w.text) for w in outcome.warnings)
    payload = {**outcome.summary, "files": paths, "stage_seconds": dict(outcome.stage_seconds)}
    text = "\n".join([report, *(f"wrote {path}" for path in paths)])
    return Answer(payload, text, findings, gaps=outcome.gaps)


def _answer_stage(request: Request, stage: str, seen: Seen | None) -> Answer:
    """Return the result of a stage or a pass as text."""
    from isamap.driver.compiling import schedules_of
    from isamap.driver.length_versions import compile_request
    from isamap.driver.pipeline import ignore_pass

    with Progress() as progress:
        made = compile_request(request, stage, progress, seen or ignore_pass)
    text = _text_behind(made, stage)
    findings = tuple(Finding.of(w) for w in made.warnings)
    gaps = tuple(schedule.gap for schedule in schedules_of(made))
    payload: dict[str, object] = {
        "kernel": made.kernel.name,
        "stage": stage,
        "text": text,
        "files": (),
        "stage_seconds": dict(made.stage_seconds),
    }
    return Answer(payload, text, findings, gaps=gaps)


def _text_behind(made: Compilation, stage: str) -> str:
    from isamap.driver.compiling import schedules_of
    from isamap.ir import print_routine
    from isamap.plan.text import print_problem, print_versions
    from isamap.report.lowered import print_program, print_state

    match stage:
        case "parse":
            return print_routine(made.kernel)
        case "transform":
            assert made.canonical is not None
            return print_routine(made.canonical)
        case "match":
            lines = [f"statement {n}: {m.ident}" for n, s in enumerate(made.matches) for m in s.mappings]
            return "\n".join(lines)
        case "formulate":
            assert made.problem is not None
            return print_problem(made.problem)
        case "schedule" | "check":
            assert made.schedule is not None
            return print_versions(schedules_of(made))
        case "lower":
            assert made.program is not None
            return print_program(made.program)
        case "emit":
            from isamap.emit.c import EmittedC

            assert isinstance(made.emitted, EmittedC)
            return made.emitted.source
        case _:
            return "\n".join(print_state(state) for state in made.passed)
