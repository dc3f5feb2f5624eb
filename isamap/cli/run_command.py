"""`isamap run`: emitted code, run in a child process, compared with the oracle, and timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding
from isamap.cli.options import (
    AsJson,
    AsModel,
    BestCount,
    CostModelName,
    EvaluatorName,
    FixWords,
    FormNumber,
    HeuristicName,
    KernelName,
    LibraryFiles,
    LimitSeconds,
    MachineName,
    NoCache,
    PackedNames,
    Portfolio,
    ProfileName,
    ProgramPath,
    Requirement,
    ScheduleFile,
    SearchName,
    SizeWords,
    ThreadCount,
    TuneCount,
    Tuned,
    TuneLimit,
)
from isamap.cli.program_files import read_cases, refuse_beside_program
from isamap.cli.requests import Choices, make_request, read_libraries, with_proof
from isamap.cli.terminal import Progress
from isamap.cli.verify_command import case_json
from isamap.cli.words import read_sizes
from isamap.driver.request import Size
from isamap.report.mappings import time_text

if TYPE_CHECKING:
    from isamap.driver.runnable import Prepared
    from isamap.driver.verifying import Timed


def run_command(
    kernel: KernelName,
    hw: MachineName,
    sizes: SizeWords = None,
    schedule: ScheduleFile = None,
    heuristic: HeuristicName = "cpsat",
    cost_model: CostModelName = "analytic",
    limit: LimitSeconds = "10",
    require: Requirement = "",
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
    search: SearchName = "",
    tuned: Tuned = False,
    portfolio: Portfolio = False,
    library: LibraryFiles = None,
    program: ProgramPath = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> Answer:
    """Compile a kernel, verify it and time it on random data."""
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import profile_sizes, time_program

    if program is not None:
        refuse_beside_program(
            {"--schedule": schedule, "--fix": fix, "--packed": packed, "--model": model, "--tune": tune,
             "--transform": transform, "--evaluate": evaluate, "--tuned": tuned,
             "--portfolio": portfolio}
        )  # fmt: skip
        return _run_file(program, kernel, hw, read_sizes(sizes or ()))
    choices = Choices(
        schedule, heuristic, cost_model, limit, fix, model, profile, transform, evaluate, best, threads,
        no_cache, tune, tune_limit, search, tuned, packed,
    )  # fmt: skip
    request = make_request(kernel, hw, read_sizes(sizes or ()), choices)
    libraries = read_libraries(portfolio, library)
    with Progress() as progress:
        prepared = prepare(request, progress)
        if libraries is not None:
            from isamap.driver.portfolio import with_faster  # brings what measures

            prepared = with_faster(prepared, libraries, progress)
        progress("run")
        timed = time_program(prepared, profile_sizes(prepared))
    outcome = prepared.program.outcome
    findings = tuple(Finding(w.json, w.text) for w in outcome.warnings)
    findings += tuple(Finding.of(d) for d in timed.case.problems)
    payload = {**outcome.summary, **case_json(timed.case), **_times(timed)}
    payload["compiler"] = prepared.compiled.compiler.version
    answer = Answer(payload, _run_text(prepared, timed), findings, int(not timed.case.ok), outcome.gaps)
    return with_proof(answer, require)


def _run_file(path: str, kernel: str, machine: str, sizes: Mapping[str, Size]) -> Answer:
    """Return the words of a file, performed once on random data; with the time where tokens order units."""
    (case,), counts, time = read_cases(path, kernel, machine, [sizes], ("random",))
    findings = tuple(Finding.of(d) for d in case.problems)
    payload = {**case_json(case), "program": path, "instructions": counts}
    payload["stream"] = asdict(time) if time is not None else None
    issued = ", ".join(f"{count} {name}" for name, count in counts.items())
    compared = f"{case.checked}, largest error {case.max_error:.2g}, allowed {case.bound:.2g}"
    lines = [f"program   {path}: {issued}", f"verified  {compared}"]
    if time is not None:
        shares = ", ".join(f"{unit} {busy / time.total_ns:.0%}" for unit, busy in time.busy_ns.items())
        lines.append(f"time      {time_text(time.total_ns)} by words and costs; busy: {shares}")
    text = "\n".join(lines) if case.ok else "verified  NO: see below"
    return Answer(payload, text, findings, int(not case.ok))


def _times(timed: Timed) -> dict[str, object]:
    return {
        "seconds": {"min": timed.best, "median": timed.middle},
        "repetitions": len(timed.seconds),
        "operations": timed.operations,
        "gflops": timed.gflops,
        "busy": timed.is_busy,
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
    if timed.is_busy:
        best = timed.gflops * timed.middle / timed.best
        lines.append(
            f"note      the median run took {timed.middle / timed.best:.1f} times as long as the best one "
            f"({best:.1f} {unit}): other work disturbs the measurement; run again on an idle computer"
        )
    return "\n".join(lines)


def _threads(prepared: Prepared) -> str:
    """Return how many threads took part: one, where the schedule has nothing for others."""
    count = prepared.request.threads if prepared.compiled.interface.takes_pool else 1
    return "one thread" if count == 1 else f"{count} threads"


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
