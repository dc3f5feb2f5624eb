"""The measured cost: compiled schedules run in alternation in limited child processes, on random data.

Other work on the machine comes and goes, and the clock frequency depends on earlier work. So contenders
alternate, round by round. The cost of a contender is the median over the rounds of its fastest call in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import median
from typing import Any

from numpy.typing import NDArray

from isamap.emit.lanes import emit_code
from isamap.ir import Kernel, bind
from isamap.lower.passes import lower
from isamap.machine import Machine, missing_features
from isamap.machine.processor import this_cpu
from isamap.plan.protocols import Evaluation, Trial
from isamap.run.fills import make_arrays, make_scalars
from isamap.run.runner import ChildLimits, RunProblem, compile_packers, packed_arrays, run_program
from isamap.run.toolchain import Compiled, compile_library, find_compiler
from isamap.source import MissingTool, UsageProblem, dataclass

ROUNDS = 7
# Of one contender in one round.
SECONDS = 0.05
MOST_CALLS = 2000
FEWEST_CALLS = 2
# One call that takes longer, or needs more memory besides its data, has lost.
LIMITS = ChildLimits(seconds=60, memory_bytes=4 << 30)


@dataclass(frozen=True, slots=True)
class MeasuredEvaluator:
    """The evaluator by measurement. It runs code on this processor, which must fit the machine.

    `processor_time` measures the processor time of the calling thread, which excludes other processes.
    """

    rounds: int = ROUNDS
    seconds: float = SECONDS
    name: str = "measured"
    processor_time: bool = False

    def evaluate(self, trial: Trial) -> float:
        """Return the measured time of one call in ns. Raises: MissingTool if this is not the machine."""
        return self.evaluate_together((trial,))[0].cost_ns

    def evaluate_together(self, trials: Sequence[Trial]) -> tuple[Evaluation, ...]:
        """Return the costs measured in alternation. Raises: MissingTool if this is not the machine."""
        for machine in {trial.machine.name: trial.machine for trial in trials}.values():
            check_here(machine)
        contenders = [make_contender(trial) for trial in trials]
        for contender in contenders:
            contender.processor_time = self.processor_time
            contender.run(FEWEST_CALLS)
        for _ in range(self.rounds):
            for contender in contenders:
                contender.run(contender.calls(self.seconds), counts=True)
        return tuple(contender.evaluation() for contender in contenders)

    def depends_on(self, machine: Machine) -> Mapping[str, str]:
        """Return the versions on which results depend: compiler and processor."""
        target = machine.target
        compiler = find_compiler(target.flags, target.toolchains, features=target.features)
        return {"compiler": compiler.version, "processor": this_cpu().key}


@dataclass(slots=True)
class MeasuredSchedule:
    """A compiled schedule with its data, and the times of its calls by round. Units: seconds."""

    compiled: Compiled
    arrays: Mapping[str, NDArray[Any]]
    symbols: Mapping[str, int]
    scalars: Mapping[str, float]
    first: float
    rounds: list[tuple[float, ...]]
    threads: int = 1
    failure: str = ""
    processor_time: bool = False

    def run(self, calls: int, *, counts: bool = False) -> None:
        """Run a number of calls in a child process. A crash or a time beyond the limit is recorded as a failure."""
        if self.failure:
            return
        try:
            done = run_program(
                self.compiled,
                self.arrays,
                self.symbols,
                scalars=self.scalars,
                repeat=calls,
                limits=LIMITS,
                threads=self.threads,
                processor_time=self.processor_time,
            )
        except RunProblem as problem:
            self.failure = problem.diagnostics[0].message
            return
        if done.status != 0:
            self.failure = f"it refused its arguments: {done.meaning}"
            return
        self.first = min(self.first, *done.seconds)
        if counts:
            self.rounds.append(done.seconds)

    def calls(self, seconds: float) -> int:
        """Return how many calls take `seconds` in total."""
        return max(FEWEST_CALLS, min(MOST_CALLS, int(seconds / max(self.first, 1e-9))))

    def turn(self, seconds: float) -> float:
        """Return the time of the fastest call within `seconds`, in ns. It is infinite after a failure."""
        self.run(self.calls(seconds), counts=True)
        return inf if self.failure else 1e9 * min(self.rounds[-1])

    def evaluation(self) -> Evaluation:
        """Return the cost with its measurements."""
        if self.failure:
            return Evaluation(inf, (("failed", self.failure),))
        every = [seconds for one in self.rounds for seconds in one]
        cost = median(min(one) for one in self.rounds)
        facts = (
            ("min_ns", round(1e9 * min(every), 1)),
            ("median_ns", round(1e9 * median(every), 1)),
            ("calls", len(every)),
            ("rounds", len(self.rounds)),
        )
        return Evaluation(1e9 * cost, facts)


def make_contender(trial: Trial) -> MeasuredSchedule:
    """Return the compiled schedule of a trial with random data. Raises: MissingTool without a compiler."""
    program = lower(trial.kernel, trial.machine, trial.schedule, dict(trial.sizes))
    emitted = emit_code(program, trial.machine)
    compiled = compile_library(emitted, trial.machine)
    profile = trial.profile
    symbols = {name: profile[name] for name, _, _ in compiled.interface.symbols}
    open_sizes = {p.name for p in trial.kernel.params if p.kind == "size"}
    kernel = bind(trial.kernel, {n: v for n, v in profile.items() if n in open_sizes})
    assert isinstance(kernel, Kernel)
    arrays, scalars = make_arrays(kernel, "random"), make_scalars(kernel, "random")
    given = packed_arrays(compile_packers(emitted, trial.machine), arrays, symbols, limits=LIMITS)
    return MeasuredSchedule(compiled, given, symbols, scalars, LIMITS.seconds, [], trial.problem.threads)


def check_processor(key: str) -> None:
    """Check that this is the processor for which measurements are requested. Raises: UsageProblem."""
    if this_cpu().key != key:
        said = f"measurements were requested of a processor other than {this_cpu().describe()}"
        help_ = "start workers on computers with the processor of the command"
        raise UsageProblem.of("not-measurable", said, help=help_)


def check_here(machine: Machine) -> None:
    """Check that code of the machine runs natively. Raises: MissingTool if it does not."""
    missing = missing_features(machine)
    if not missing and machine.target.run == "native":
        return
    why = f"this processor lacks {', '.join(missing)}" if missing else "its code is run as a model"
    raise MissingTool.of(
        "not-measurable",
        f"schedules for {machine.name} cannot be measured here: {why}",
        help="`--evaluate simulated` needs no such processor",
    )
