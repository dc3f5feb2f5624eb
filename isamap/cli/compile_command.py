"""`isamap compile`: code, schedule, report and manifest in a folder; no compiler is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer, Finding
from isamap.cli.import_command import ConstantWords
from isamap.cli.model_files import (
    DEVICES,
    FUSION,
    FUSIONS,
    WEIGHTS,
    compile_whole,
    is_model,
    refuse_beside_model,
)
from isamap.cli.options import (
    AsJson,
    AsModel,
    BestCount,
    Cold,
    CostModelName,
    EvaluatorName,
    FixWords,
    FormNumber,
    HeuristicName,
    KernelOrModel,
    LibraryFiles,
    LimitSeconds,
    MachineNames,
    NoCache,
    PackedNames,
    Portfolio,
    ProfileName,
    Requirement,
    ScheduleFile,
    SearchName,
    SizeWords,
    ThreadCount,
    TuneCount,
    Tuned,
    TuneLimit,
)
from isamap.cli.program_files import WORDS, emit_words, refuse_beside_words
from isamap.cli.report_files import ReportPath, Shown, TraceFile, check_places, write_reports
from isamap.cli.requests import Choices, make_request, read_libraries, refuse_beside_portfolio, with_proof
from isamap.cli.terminal import Progress
from isamap.cli.words import read_choice, read_sizes
from isamap.driver.request import Request
from isamap.driver.stages import PASS_NAMES, STAGES
from isamap.source import Diagnostic, UsageProblem

if TYPE_CHECKING:
    from isamap.driver.kept import Outcome
    from isamap.driver.pipeline import Compilation, Seen
    from isamap.libraries.description import Library


OutputFolder = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="Where to; KERNEL-MACHINE by default. With --emit program or assembly, a file.",
        show_default=False,
    ),
]


Force = Annotated[
    bool, typer.Option("--force", help="Replace files of FOLDER that were changed since they were written.")
]


StopAfter = Annotated[
    str,
    typer.Option(
        "--stop-after",
        metavar="STAGE",
        help=f"Print what one of {', '.join(STAGES)} leaves instead, or a pass of lowering: "
        f"{', '.join(PASS_NAMES)}.",
    ),
]
Emitted = Annotated[
    str,
    typer.Option(
        "--emit",
        metavar="KIND",
        help="code, in C; or of a machine whose instructions have an encoding: program, a file of its words, "
        "assembly, their listing, or commands, C that gives the words to it.",
    ),
]
WeightsPlace = Annotated[
    str,
    typer.Option(
        "--weights", metavar="PLACE", help=f"Of a model, where its weights lie: {' or '.join(WEIGHTS)}."
    ),
]
FusionName = Annotated[
    str,
    typer.Option(
        "--fusion", metavar="RULE", help=f"Of a model, how operations become kernels: {', '.join(FUSIONS)}."
    ),
]
WorkspaceLimit = Annotated[
    str,
    typer.Option(
        "--workspace", metavar="BYTES", help="Of a model, the most that its workspace may take.",
        show_default=False,
    ),
]  # fmt: skip
DeviceCount = Annotated[
    str, typer.Option("--devices", metavar="N", help="Of a model, cores to which its kernels are dealt.")
]
DumpFolder = Annotated[
    str | None,
    typer.Option(
        "--dump-passes",
        metavar="FOLDER",
        help="Also write there what each pass of lowering leaves, as text.",
        show_default=False,
    ),
]


def compile_command(
    kernel: KernelOrModel,
    hw: MachineNames,
    sizes: SizeWords = None,
    output: OutputFolder = None,
    force: Force = False,
    emit: Emitted = "code",
    stop_after: StopAfter = "",
    dump_passes: DumpFolder = None,
    report: ReportPath = None,
    trace: TraceFile = None,
    schedule: ScheduleFile = None,
    heuristic: HeuristicName = "cpsat",
    cost_model: CostModelName = "analytic",
    limit: LimitSeconds = "10",
    require: Requirement = "",
    fix: FixWords = None,
    threads: ThreadCount = "1",
    packed: PackedNames = None,
    cold: Cold = False,
    model: AsModel = False,
    transform: FormNumber = None,
    profile: ProfileName = "default",
    evaluate: EvaluatorName = "",
    best: BestCount = "1",
    tune: TuneCount = None,
    tune_limit: TuneLimit = "120",
    search: SearchName = "",
    tuned: Tuned = False,
    portfolio: Portfolio = False,
    library: LibraryFiles = None,
    no_cache: NoCache = False,
    constant: ConstantWords = None,
    weights: WeightsPlace = "embedded",
    fusion: FusionName = FUSION,
    workspace: WorkspaceLimit = "",
    devices: DeviceCount = DEVICES,
    as_json: AsJson = False,
) -> Answer:
    """Write the code of a kernel, or of a whole model, on a machine."""
    if is_model(kernel):
        refuse_beside_model({
            "--stop-after": stop_after, "--dump-passes": dump_passes, "--schedule": schedule, "--fix": fix,
            "--packed": packed, "--transform": transform, "--evaluate": evaluate, "--tune": tune,
            "--tuned": tuned, "--model": model, "--cold": cold,
            "--emit": emit != "code", "--require": require, "--search": search, "--portfolio": portfolio,
            **Shown(report, trace).given,
        })  # fmt: skip
        return compile_whole(
            kernel, hw, sizes, constant, output, heuristic, limit, weights, threads,
            fusion, workspace, devices, force=force, cache=not no_cache,
        )  # fmt: skip
    _refuse_beside_kernel(constant, workspace, fusion, devices)
    choices = Choices(
        schedule, heuristic, cost_model, limit, fix, model, profile, transform, evaluate, best, threads,
        no_cache, tune, tune_limit, search, tuned, packed, cold,
    )  # fmt: skip
    libraries, shown = read_libraries(portfolio, library), Shown(report, trace)
    answer = _of_kernel(
        kernel, hw, sizes, choices, libraries, output, force, emit, stop_after, dump_passes, shown
    )
    return with_proof(answer, require)


def _refuse_beside_kernel(constant: list[str] | None, workspace: str, fusion: str, devices: str) -> None:
    """Nothing, where no option is about models. Raises: UsageProblem."""
    if constant:
        said = "`--constant` is about an input of a model, and this is a kernel"
        raise UsageProblem(Diagnostic("usage", said, help="give scalars when the kernel is called"))
    of_models = {"--workspace": workspace, "--fusion": fusion != FUSION, "--devices": devices != DEVICES}
    for option in (option for option, given in of_models.items() if given):
        said = f"`{option}` is about a model, and this is a kernel"
        raise UsageProblem(Diagnostic("usage", said, help="give the path of an .onnx file"))


def _of_kernel(
    kernel: str,
    hw: list[str],
    sizes: list[str] | None,
    choices: Choices,
    libraries: tuple[Library, ...] | None,
    output: str | None,
    force: bool,
    emit: str,
    stop_after: str,
    dump_passes: str | None,
    shown: Shown,
) -> Answer:
    """Return the code of a kernel, or what a stage leaves of it."""
    named = read_sizes(sizes or ())
    of_code = {"--stop-after": stop_after, "--dump-passes": dump_passes, **shown.given}
    if libraries is not None:
        refuse_beside_portfolio(hw, {"--emit": emit != "code", **of_code})
        return _of_faster(make_request(kernel, hw[0], named, choices), libraries, output, force)
    if read_choice(emit, "--emit", ("code", *WORDS)) in WORDS:
        refuse_beside_words(hw, {**of_code, "--packed": choices.packed})
        return emit_words(make_request(kernel, hw[0], named, choices), emit, output, force)
    if len(hw) > 1:
        requests = [make_request(kernel, name, named, choices) for name in hw]
        _refuse_for_several(requests, of_code)
        return _for_several(requests, output, force)
    request = make_request(kernel, hw[0], named, choices)
    seen = _dump(dump_passes)
    if stop_after:
        _refuse_stopped(shown)
        return _stopped(request, read_choice(stop_after, "--stop-after", (*STAGES, *PASS_NAMES)), seen)
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.compiling import compile_files

    if output is not None:
        check_replaceable(Path(output), force=force)
    if shown.given:
        return _reported(request, seen, output, shown, force)
    with Progress() as progress:
        outcome = compile_files(request, progress, seen)
    return _written(outcome, output, outcome.files["report.txt"], force)


def _of_faster(request: Request, libraries: tuple[Library, ...], output: str | None, force: bool) -> Answer:
    """Return the code of a kernel, or of a library's call where that is faster."""
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.portfolio import with_faster
    from isamap.driver.runnable import prepare

    if output is not None:
        check_replaceable(Path(output), force=force)
    with Progress() as progress:
        outcome = with_faster(prepare(request, progress), libraries, progress).program.outcome
    return _written(outcome, output, outcome.files["report.txt"], force)


def _reported(request: Request, seen: Seen | None, output: str | None, shown: Shown, force: bool) -> Answer:
    """Return the files of a compilation, and beside them what is to be seen of it."""
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
    answer = _written(outcome, output, text or outcome.files["report.txt"], force)
    written = answer.payload["files"]
    assert isinstance(written, list), "paths"
    said = "\n".join([answer.text, *(f"wrote {path}" for path in paths)])
    return replace(answer, payload={**answer.payload, "files": [*written, *paths]}, text=said)


def _refuse_stopped(shown: Shown) -> None:
    if found := next(iter(shown.given), None):
        message = f"`{found}` is about a whole compilation, and `--stop-after` ends it before"
        raise UsageProblem(Diagnostic("usage", message, help="leave out one of them"))


def _dump(folder: str | None) -> Seen | None:
    """Return what writes the passes to a folder; None where none is named."""
    if folder is None:
        return None
    from isamap.driver.explaining import Dump

    return Dump(Path(folder))


def _refuse_for_several(requests: list[Request], options: Mapping[str, object]) -> None:
    given = {**options, "--schedule": requests[0].schedule}
    for option, is_given in given.items():
        if is_given:
            message = f"`{option}` is about one machine, and `--hw` names {len(requests)}"
            raise UsageProblem(Diagnostic("usage", message, help="leave out one of them"))


def _for_several(requests: list[Request], output: str | None, force: bool) -> Answer:
    """Return one artifact for several machines."""
    from isamap.driver.artifacts import check_replaceable
    from isamap.driver.dispatching import compile_dispatch

    if output is not None:
        check_replaceable(Path(output), force=force)
    with Progress() as progress:
        outcome = compile_dispatch(requests, progress)
    order = ", then ".join(outcome.summary["machines"])
    text = f"{outcome.kernel} for several machines; the first that the processor allows runs: {order}\n"
    return _written(outcome, output, text, force)


def _written(outcome: Outcome, output: str | None, report: str, force: bool) -> Answer:
    """Return the files of an outcome in their folder."""
    from isamap.driver.artifacts import write_folder

    folder = Path(output if output is not None else f"{outcome.kernel}-{outcome.machine}")
    paths = [str(path) for path in write_folder(folder, outcome.files, force=force)]
    findings = tuple(Finding(w.json, w.text) for w in outcome.warnings)
    payload = {**outcome.summary, "files": paths, "stage_seconds": dict(outcome.stage_seconds)}
    text = "\n".join([report, *(f"wrote {path}" for path in paths)])
    return Answer(payload, text, findings, gaps=outcome.gaps)


def _stopped(request: Request, stage: str, seen: Seen | None) -> Answer:
    """Return what the pipeline has after a stage or a pass, as text."""
    from isamap.driver.compiling import schedules_of
    from isamap.driver.length_versions import compile_request
    from isamap.driver.pipeline import unseen

    with Progress() as progress:
        made = compile_request(request, stage, progress, seen or unseen)
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
    from isamap.plan.text import print_versions
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
        case "pose":
            assert made.problem is not None
            lines = [f"statement {n.statement}: {o.mapping}" for n in made.problem.nests for o in n.options]
            return "\n".join(lines)
        case "schedule" | "check":
            assert made.schedule is not None
            return print_versions(schedules_of(made))
        case "lower":
            assert made.program is not None
            return print_program(made.program)
        case "emit":
            assert made.emitted is not None
            return made.emitted.source
        case _:
            return "\n".join(print_state(state) for state in made.passed)
