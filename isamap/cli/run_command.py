"""`isamap run`: run emitted code in a child process, compare it with the oracle, and time it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from isamap.cli.answers import Answer, Finding, with_proof
from isamap.cli.early_words import read_sizes
from isamap.cli.model_runs import KERNEL_OR_MODEL, ModelRun, is_whole_model, run_model, run_network
from isamap.cli.option_parser import PROGRAM, REQUIRE, OnMachine, Portfolio, argument
from isamap.cli.program_files import read_cases, refuse_compiling_options
from isamap.cli.verify_command import case_json
from isamap.driver.inputs import machine_of, read_kernel
from isamap.driver.request import Choices, Size, make_request
from isamap.report.mappings import time_text
from isamap.source.progress import Progress
from isamap.source.records import asdict, dataclass, field

if TYPE_CHECKING:
    from isamap.driver.runnable import PreparedKernel
    from isamap.driver.verifying import TimedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(OnMachine):
    """The options of `run`."""

    kernel: str = argument("KERNEL", KERNEL_OR_MODEL)
    choices: Choices = field(default_factory=Choices)
    require: str = REQUIRE.field()
    compared: Portfolio = field(default_factory=Portfolio)
    program: str | None = PROGRAM.field()
    of_model: ModelRun = field(default_factory=ModelRun)


def run_command(asked: RunOptions) -> Answer:
    """Compile a kernel, verify it and time it on random data; or time each layer of a model."""
    if is_whole_model(asked.kernel, asked, "--program"):
        of_model = asked.kernel, asked.hw, asked.sizes, asked.choices, asked.of_model
        return run_model(*of_model) if asked.program is None else run_network(*of_model, asked.program)
    from isamap.driver.runnable import prepare
    from isamap.driver.verifying import profile_sizes, time_program

    sizes = read_sizes(asked.sizes)
    if asked.program is not None:
        refuse_compiling_options(asked)
        return _run_file(asked.program, asked.kernel, asked.hw, sizes)
    request = make_request(read_kernel(asked.kernel), machine_of(asked.hw), sizes, asked.choices)
    libraries = asked.compared.libraries()
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
    return with_proof(answer, asked.require)


def _run_file(path: str, kernel: str, machine: str, sizes: Mapping[str, Size]) -> Answer:
    """Run a program file once on random data, and return the answer, with the time if tokens order units."""
    (case,), counts, time = read_cases(path, kernel, machine, [sizes], ("random",))
    findings = tuple(Finding.of(d) for d in case.problems)
    payload = {**case_json(case), "program": path, "instructions": counts}
    payload["stream"] = asdict(time) if time is not None else None
    issued = ", ".join(f"{count} {name}" for name, count in counts.items())
    compared = f"{case.checked}, largest error {case.max_error:.2g}, allowed {case.bound:.2g}"
    lines = [f"program   {path}: {issued}", f"verified  {compared}"]
    if time is not None:
        shares = ", ".join(f"{unit} {busy / time.total_ns:.0%}" for unit, busy in time.busy_ns.items())
        lines.append(f"time      {time_text(time.total_ns)} by the encoded program and costs; busy: {shares}")
    text = "\n".join(lines) if case.ok else "verified  NO: see below"
    return Answer(payload, text, findings, int(not case.ok))


def _times(timed: TimedRun) -> dict[str, object]:
    return {
        "seconds": {"min": timed.best, "median": timed.middle},
        "repetitions": len(timed.seconds),
        "operations": timed.operations,
        "gflops": timed.gflops,
        "busy": timed.is_busy,
        "workspace_bytes": timed.workspace_bytes,
    }


def _run_text(prepared: PreparedKernel, timed: TimedRun) -> str:
    case, outcome = timed.case, prepared.program.outcome
    unit = "GFLOP/s" if timed.is_float else "GOP/s"
    lines = [outcome.files["report.txt"].rstrip(), ""]
    if prepared.missing:
        lines.append(
            f"model     this processor lacks {', '.join(prepared.missing)}: plain-C models run instead"
        )
    compared = f"{case.checked}, largest error {case.max_error:.2g}, allowed {case.bound:.2g}"
    lines.append(f"verified  {compared}" if case.ok else "verified  NO: see below")
    lines.append(f"compiler  {prepared.compiled.compiler.version}")
    lines.append(
        f"time      {_time(timed.middle)} median, {_time(timed.best)} best"
        f" of {len(timed.seconds)} runs, {_threads(prepared)}"
    )
    lines += _compared_with_model(prepared, timed)
    lines.append(f"speed     {timed.gflops:.1f} {unit}" + (" (of the model)" if prepared.missing else ""))
    if timed.is_busy:
        best = timed.gflops * timed.middle / timed.best
        lines.append(
            f"note      the median run took {timed.middle / timed.best:.1f} times as long as the best one "
            f"({best:.1f} {unit}): other work disturbs the measurement; run again on an idle computer"
        )
    return "\n".join(lines)


def _compared_with_model(prepared: PreparedKernel, timed: TimedRun) -> Iterator[str]:
    """Yield text that compares the time of the best run with the model's, if both are for this computer.

    A proven optimum is one of the model: this line says how far the model is from the hardware.
    """
    schedule = prepared.program.outcome.summary.get("schedule")
    if not schedule or schedule["cost"] is None or schedule["unit"] != "ns" or prepared.missing:
        return
    modelled = schedule["cost"] / 1e9
    line = f"model     {_time(modelled)}: the best run took {timed.best / modelled:.2f} times as long"
    if schedule["profile"] is None:
        machine = prepared.request.machine
        line += f"; its parameters are stated, and `isamap hw calibrate {machine}` measures them"
    yield line


def _threads(prepared: PreparedKernel) -> str:
    """Return text with the number of threads that ran. It is one if no part of the schedule is parallel."""
    count = prepared.request.threads if prepared.compiled.interface.takes_pool else 1
    return "one thread" if count == 1 else f"{count} threads"


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
