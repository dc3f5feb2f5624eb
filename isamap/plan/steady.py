"""The steady state of an innermost loop: its operations, their dependences, and their start times.

    load b     load_port   8 ticks       every 2 ticks:   0  load b       of this iteration
    fma c      fma         4 ticks                        0  fma c        of the iteration four before
                                                          ...

`Steady` is the question, `Pipeline` the answer: operation i of iteration n starts at starts[i] + n *
interval. `check_pipeline` judges an answer by the definition, tick by tick, and shares no code with what
finds one.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.source import Diagnostic, dataclass

MAX_TICKS = 4096
"""The most ticks of an interval and of a start: the longest table of a unit's operations by tick."""
MAX_ISSUES = 4096
"""The most issues before and after a loop, of partial iterations: more take C compilers minutes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One issue. Units: `busy`, the time it occupies a copy of its unit, in ticks."""

    name: str
    unit: str
    busy: int


@dataclass(frozen=True, slots=True)
class Dependence:
    """A dependence: `target` starts at least `delay` ticks after `source` of the iteration `distance` before."""

    source: int
    target: int
    delay: int
    distance: int


@dataclass(frozen=True, slots=True)
class LocalValue:
    """A value in registers of `memory` that each iteration writes by `definer` and reads by `users`.

    They are occupied from the start of the definer to that of the last user: operations read when they start.
    """

    name: str
    memory: str
    definer: int
    users: tuple[int, ...]
    registers: int = 1


@dataclass(frozen=True, slots=True)
class Steady:
    """One loop. `units` has the copies of each unit, `registers` the available registers.

    Units: `tick_ns` is the length of a tick.
    """

    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...]
    values: tuple[LocalValue, ...]
    units: tuple[tuple[str, int], ...]
    registers: tuple[tuple[str, int], ...]
    tick_ns: float


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A modulo schedule: each operation's start in its iteration, and the initiation interval. Units: ticks."""

    interval: int
    starts: tuple[int, ...]

    @property
    def stages(self) -> int:
        """The number of iterations in flight at once."""
        return max(self.starts, default=0) // self.interval + 1


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """A pipeline with its proven bounds.

    Units: ticks. No interval below `interval_bound` is possible. `lifetime` is the time for which the values
    of one iteration occupy registers. At this interval it is never less than `lifetime_bound`.
    """

    pipeline: Pipeline
    interval_bound: int
    lifetime: int
    lifetime_bound: int

    @property
    def is_optimal(self) -> bool:
        """Return whether the interval is proven to be the least."""
        return self.interval_bound == self.pipeline.interval


def lifetime_of(steady: Steady, pipeline: Pipeline) -> int:
    """Return the lifetime of the values of one iteration in registers. Units: ticks."""
    starts = pipeline.starts
    return sum(
        v.registers * (max(starts[u] for u in v.users) - starts[v.definer]) for v in steady.values if v.users
    )


def check_pipeline(steady: Steady, pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Yield the errors in a pipeline."""
    starts, interval = pipeline.starts, pipeline.interval
    if len(starts) != len(steady.operations) or interval < 1 or min(starts, default=0) < 0:
        yield _error(f"{len(steady.operations)} operations need as many starts, and an interval of 1 or more")
        return
    if max((interval, *starts)) > MAX_TICKS:
        yield _error(f"an interval and a start are {MAX_TICKS} ticks at most")
        return
    if (issues := (pipeline.stages - 1) * len(starts)) > MAX_ISSUES:
        yield _error(f"{issues} operations are before and after the loop; at most {MAX_ISSUES} can")
    for wait in steady.dependences:
        ready = starts[wait.source] + wait.delay
        if starts[wait.target] + wait.distance * interval < ready:
            yield _error(
                f"operation {wait.target}, `{steady.operations[wait.target].name}`, starts at "
                f"{starts[wait.target]}, {wait.distance} iterations after operation {wait.source}, "
                f"`{steady.operations[wait.source].name}`, whose result is there at {ready} only"
            )
    for unit, count in steady.units:
        taken = [0] * pipeline.interval
        for operation, start in zip(steady.operations, pipeline.starts, strict=True):
            if operation.unit == unit:
                _take(taken, start, operation.busy)
        if max(taken) > count:
            yield _error(f"`{unit}` performs {max(taken)} operations at once, and there are {count} of it")
    yield from _check_registers(steady, pipeline)


def _check_registers(steady: Steady, pipeline: Pipeline) -> Iterator[Diagnostic]:
    for memory, count in steady.registers:
        alive = [0] * pipeline.interval
        for value in steady.values:
            if value.memory == memory and value.users:
                last = max(pipeline.starts[user] for user in value.users)
                first = pipeline.starts[value.definer]
                _take(alive, first, last - first, value.registers)
        if max(alive) > count:
            yield _error(f"{max(alive)} registers of `{memory}` are taken at once, and {count} are free")


def _take(slots: list[int], first: int, ticks: int, each: int = 1) -> None:
    """Add `each` to the slots of `ticks` ticks from the first one on, modulo the interval."""
    rounds, rest = divmod(max(0, ticks), len(slots))
    for slot in range(len(slots)):
        slots[slot] += each * (rounds + ((slot - first) % len(slots) < rest))


def _error(message: str) -> Diagnostic:
    return Diagnostic(
        "schedule-pipeline",
        message,
        help="drop the line `pipeline`, or have it found anew with `isamap schedule --pipeline`",
    )
