"""Record the events of a simulation: issues on units, lines on links, iterations that were only counted.

    record(program, machine, problem)  ->  Recorded(issued=(RecordedIssue("dma_in_i8", 0 ns, …), …), …)

Iterations that are counted, not run, are recorded as one `RepeatedIterations`. Their data movement is included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.simulate.events import Simulation, link_names, simulate_prepared
from isamap.simulate.machine_time import Step
from isamap.simulate.prepare import PreparedProgram, prepare
from isamap.source.records import dataclass, field

MOST_EVENTS = 100_000
"""Issues and transfers that are written down one by one; of later ones only sums."""


@dataclass(frozen=True, slots=True)
class RecordedIssue:
    """An issue on its unit, or on a shared link, which it occupies from `begin_ns` for `busy_ns`.

    Its operands are ready at `start_ns`. `arrays` are the arrays that it accesses in memories. Units:
    nanoseconds from the start.
    """

    unit: str
    instruction: str
    arrays: tuple[str, ...]
    begin_ns: float
    busy_ns: float
    start_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class LineTransfer:
    """Lines that move from a level to the previous one. Units: nanoseconds from the start."""

    level: str
    begin_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class RepeatedIterations:
    """Iterations equal to the one from `since_ns` to `begin_ns`, until `end_ns`. They were not run."""

    since_ns: float
    begin_ns: float
    end_ns: float
    times: int


@dataclass(frozen=True, slots=True)
class CarriedBytes:
    """The bytes of an array that an instruction reads and writes in memories, over all its issues.

    `block` is the note of the outermost block around them.
    """

    block: str
    instruction: str
    array: str
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A simulation with its events in issue order. `left_out` events only occur in sums."""

    simulation: Simulation
    units: tuple[str, ...]
    issued: tuple[RecordedIssue, ...]
    crossed: tuple[LineTransfer, ...]
    repeated: tuple[RepeatedIterations, ...]
    carried: tuple[CarriedBytes, ...]
    left_out: int


def record(
    program: LoweredProgram,
    machine: Machine,
    problem: Problem,
    profile: Mapping[str, int] | None = None,
    most: int = MOST_EVENTS,
) -> Recorded:
    """Return the recorded events of one call. `profile` has values for open sizes."""
    prepared = prepare(program, machine, profile or {})
    recorder = _Recorder(prepared, link_names(problem), most)
    simulation = simulate_prepared(prepared, problem, recorder)
    return Recorded(
        simulation,
        prepared.units,
        tuple(recorder.issues),
        tuple(recorder.crossings),
        tuple(recorder.repeats),
        recorder.carried(),
        recorder.left_out,
    )


@dataclass(slots=True)
class _Recorder:
    """The watcher. `told` are steps by identity, which lasts as long as the program, with their counts."""

    prepared: PreparedProgram
    links: tuple[str, ...]
    most: int
    issues: list[RecordedIssue] = field(default_factory=list[RecordedIssue])
    crossings: list[LineTransfer] = field(default_factory=list[LineTransfer])
    repeats: list[RepeatedIterations] = field(default_factory=list[RepeatedIterations])
    steps: dict[int, Step] = field(default_factory=dict[int, Step])
    told: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    left_out: int = 0

    def issued(self, step: Step, booked: float, start: float, end: float) -> None:
        self.steps[id(step)] = step
        self.told.append((id(step), 1))
        if self._has_room():
            self._tell(step, step.unit, booked, step.work_ns, start, end)

    def crossed(self, step: Step, start: float, end: float) -> None:
        if self._has_room():
            self._tell(step, step.link, start, step.link_ns, start, end)

    def moved(self, link: int, start: float, end: float) -> None:
        if self._has_room():
            self.crossings.append(LineTransfer(self.links[link], start, end))

    def mark(self) -> int:
        return len(self.told)

    def repeated(
        self, since: int, now: float, by_ns: float, times: int, more: Iterable[tuple[Step, int]]
    ) -> None:
        if times > 0:
            self.told += [(key, times * count) for key, count in _sums(self.told[since:]).items()]
            for step, count in more:
                self.steps[id(step)] = step
                self.told.append((id(step), count))
            if self._has_room():
                self.repeats.append(RepeatedIterations(now - by_ns, now, now + by_ns * times, times))

    def _tell(self, step: Step, unit: int, begin: float, busy: float, start: float, end: float) -> None:
        arrays = tuple(dict.fromkeys(self.prepared.accesses[n].array for n in step.accesses))
        name = self.prepared.units[unit]
        self.issues.append(RecordedIssue(name, step.instruction, arrays, begin, busy, start, end))

    def _has_room(self) -> bool:
        if len(self.issues) + len(self.crossings) + len(self.repeats) < self.most:
            return True
        self.left_out += 1
        return False

    def carried(self) -> tuple[CarriedBytes, ...]:
        """Return the bytes by block, instruction and array, in order of first issue."""
        sums: dict[tuple[str, str, str], list[int]] = {}
        for key, count in _sums(self.told).items():
            step = self.steps[key]
            for number, size in zip(step.accesses, step.sizes, strict=True):
                access = self.prepared.accesses[number]
                both = sums.setdefault((step.block, step.instruction, access.array), [0, 0])
                both[0] += count * size * access.reads
                both[1] += count * size * access.writes
        return tuple(CarriedBytes(*known, read, written) for known, (read, written) in sums.items())


def _sums(told: Iterable[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for key, count in told:
        found[key] = found.get(key, 0) + count
    return found
