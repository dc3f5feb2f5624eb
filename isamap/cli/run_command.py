"""`isamap run` and `isamap verify`: emitted code, run in a child process and compared with the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isamap.cli.answers import Answer, Finding
from isamap.cli.options import (
    AsJson,
    AsModel,
    BestCount,
    CostModelName,
    EmulatorCommand,
    EvaluatorName,
    FixWords,
    FormNumber,
    HeuristicName,
    KernelName,
    LimitSeconds,
    MachineName,
    NoCache,
    PackedNames,
    ProfileName,
    ScheduleFile,
    SizeWords,
    ThreadCount,
    TuneCount,
    Tuned,
    TuneLimit,
)
from isamap.cli.requests import Choices, make_request
from isamap.cli.terminal import Progress
from isamap.cli.words import read_choice, read_emulator, read_size_sets, read_sizes, read_sizes_file
from isamap.driver.inputs import read_file
from isamap.report.columns import table
from isamap.source import Diagnostic, UsageProblem

if TYPE_CHECKING:
    from isamap.driver.runnable import Prepared
    from isamap.driver.verifying import Case, Timed

FILLS = ("integers", "random", "edges")


def run_command(
    kernel: KernelName,
    hw: MachineName,
    sizes: SizeWords = None,
    schedule: ScheduleFile = None,
    heuristic: HeuristicName = "cpsat",
    cost_model: CostModelName = "analytic",
    limit: LimitSeconds = "10",
    fix: FixWords = None,
    threads: ThreadCount = "1",
    packed: PackedNames = None,
    model: AsModel = False,
    transform: FormNumber = None,
    profile: ProfileName = "default",
    evaluate: EvaluatorName = "",
    best: BestCount = "1",
    tune: TuneCount = None,
    tune_limit: TuneLimit = "120",
    tuned: Tuned = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> Answer:
    """Compile a kernel, verify it and time it on random data."""
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import profile_sizes, time_program

    choices = Choices(
        schedule, heuristic, cost_model, limit, fix, model, profile, transform, evaluate, best, threads,
        no_cache, tune, tune_limit, tuned, packed,
    )  # fmt: skip
    request = make_request(kernel, hw, read_sizes(sizes or ()), choices)
    with Progress() as progress:
        prepared = prepare(request, progress)
        progress("run")
        timed = time_program(prepared, profile_sizes(prepared))
    outcome = prepared.program.outcome
    findings = tuple(Finding(w.json, w.text) for w in outcome.warnings)
    findings += tuple(Finding.of(d) for d in timed.case.problems)
    payload = {**outcome.summary, **_case(timed.case), **_times(timed)}
    payload["compiler"] = prepared.compiled.compiler.version
    return Answer(payload, _run_text(prepared, timed), findings, _exit(timed.case.ok, outcome.is_cut_short))


def verify_command(
    kernel: KernelName,
    hw: MachineName,
    sizes: SizeWords = None,
    sizes_file: Annotated[
        str | None,
        typer.Option(
            "--sizes", metavar="FILE", help="A set of sizes per line: M=64 N=64 K=64.", show_default=False
        ),
    ] = None,
    fill: Annotated[
        list[str] | None,
        typer.Option(
            "--fill", metavar="FILL", help=f"One of {', '.join(FILLS)}; all by default.", show_default=False
        ),
    ] = None,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Lay data beside memory that must not be touched.")
    ] = True,
    schedule: ScheduleFile = None,
    heuristic: HeuristicName = "cpsat",
    cost_model: CostModelName = "analytic",
    limit: LimitSeconds = "10",
    fix: FixWords = None,
    threads: ThreadCount = "1",
    packed: PackedNames = None,
    model: AsModel = False,
    transform: FormNumber = None,
    profile: ProfileName = "default",
    emulator: EmulatorCommand = None,
    as_json: AsJson = False,
) -> Answer:
    """Compile a kernel, run it, and compare the results with the interpreter's; -D may give several sets."""
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import all_cases

    _check_emulator(emulator, model)
    under = read_emulator(emulator)
    fills = tuple(read_choice(word, "--fill", FILLS) for word in fill or FILLS)
    choices = Choices(
        schedule, heuristic, cost_model, limit, fix, model, profile, transform, threads=threads, packed=packed
    )
    sets = read_size_sets(sizes or ())
    if sizes_file is not None:
        common = read_sizes(sizes or ())
        sets = [common | own for own in read_sizes_file(read_file(Path(sizes_file), sizes_file))]
    cases: list[Case] = []
    warnings: dict[str, Finding] = {}
    cut_short = False
    with Progress() as progress:
        for number, own in enumerate(sets, 1):
            prepared = prepare(make_request(kernel, hw, own, choices), progress, under)
            warnings |= {w.text: Finding(w.json, w.text) for w in prepared.program.outcome.warnings}
            cut_short |= prepared.program.outcome.is_cut_short
            progress(f"verify {number} of {len(sets)}")
            cases += all_cases(prepared, fills, guard=guard)
    wrong = [case for case in cases if not case.ok]
    findings = (*warnings.values(), *(Finding.of(d) for case in wrong for d in case.problems))
    payload = {**_verify_payload(cases, int(threads)), "emulator": str(under) if under is not None else None}
    return Answer(payload, _verify_text(cases), findings, _exit(not wrong, cut_short))


def _check_emulator(emulator: str | None, model: bool) -> None:
    """Nothing, unless an emulator is named for what needs none. Raises: UsageProblem."""
    if emulator is not None and model:
        said = "`--model` asks for plain C, which needs no emulator, and `--emulator` for the instructions"
        raise UsageProblem(Diagnostic("usage", said, help="leave out one of them"))


def _exit(ok: bool, cut_short: bool) -> int:
    """1 for a wrong result; 4 for a right one of a schedule that the clock cut short."""
    return (4 if cut_short else 0) if ok else 1


def _case(case: Case) -> dict[str, object]:
    return {
        "sizes": dict(case.sizes),
        "fill": case.fill,
        "verified": case.ok,
        "max_error": case.max_error,
        "bound": case.bound,
        "ran_on": case.ran_on,
        "checked": case.checked,
        "guarded": case.guarded,
    }


def _times(timed: Timed) -> dict[str, object]:
    return {
        "seconds": {"min": timed.best, "median": timed.middle},
        "repetitions": len(timed.seconds),
        "operations": timed.operations,
        "gflops": timed.gflops,
        "workspace_bytes": timed.workspace_bytes,
    }


def _run_text(prepared: Prepared, timed: Timed) -> str:
    case, outcome = timed.case, prepared.program.outcome
    unit = "GFLOP/s" if timed.is_float else "GOP/s"
    lines = [outcome.files["report.txt"].rstrip(), ""]
    if prepared.missing:
        lines.append(
            f"model     this processor lacks {', '.join(prepared.missing)}: plain C stands in for the machine"
        )
    compared = f"{case.checked}, largest error {case.max_error:.2g}, allowed {case.bound:.2g}"
    lines.append(f"verified  {compared}" if case.ok else "verified  NO: see below")
    lines.append(f"compiler  {prepared.compiled.compiler.version}")
    lines.append(
        f"time      {_time(timed.middle)} median, {_time(timed.best)} best"
        f" of {len(timed.seconds)} runs, {_threads(prepared)}"
    )
    lines.append(f"speed     {timed.gflops:.1f} {unit}" + (" (of the model)" if prepared.missing else ""))
    return "\n".join(lines)


def _threads(prepared: Prepared) -> str:
    """How many threads took part: one, where the schedule has nothing for others."""
    count = prepared.request.threads if prepared.compiled.interface.takes_pool else 1
    return "one thread" if count == 1 else f"{count} threads"


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _verify_payload(cases: list[Case], threads: int) -> dict[str, object]:
    """The case that came closest to its bound speaks for all."""

    def closeness(case: Case) -> tuple[bool, float]:
        ratio = case.max_error / case.bound if case.bound else float(case.max_error > 0)
        return not case.ok, ratio

    worst = max(cases, key=closeness)
    return {
        "max_error": worst.max_error,
        "bound": worst.bound,
        "ran_on": worst.ran_on,
        "threads": threads,
        "cases": [{**_case(case), "diagnostics": [d.as_json() for d in case.problems]} for case in cases],
    }


def _verify_text(cases: list[Case]) -> str:
    rows = [("", "sizes", "fill", "largest error", "allowed", "ran on", "checked")]
    for case in cases:
        sizes = " ".join(f"{n}={v}" for n, v in case.sizes.items())
        allowed = "exact" if case.bound == 0 else f"{case.bound:.2g}"
        checked = case.checked + (", guarded" if case.guarded else "")
        word = "ok" if case.ok else "FAILED"
        rows.append((word, sizes, case.fill, f"{case.max_error:.2g}", allowed, case.ran_on, checked))
    failed = sum(not case.ok for case in cases)
    last = f"{failed} of {len(cases)} comparisons failed" if failed else f"all {len(cases)} comparisons fine"
    return f"{table(rows)}\n\n{last}"
