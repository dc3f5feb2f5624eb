"""The timing state of a machine while issues run: busy times, and times at which values are ready.

Issues enter in program order while the window of unretired issues has room. An issue starts when its operands
are ready and its unit is free, and issues retire in order. Issues that wait in a queue of their unit leave
the window. Lines that a nearer cache lacks cross the links between levels, one after the other on each link.
All times are nanoseconds from the start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from isamap.ir import Index
from isamap.machine.banks import Banks, Runs
from isamap.machine.timings import IN_FLIGHT
from isamap.simulate.reuse import Weights
from isamap.source.records import dataclass, field


@dataclass(frozen=True, slots=True)
class ScratchpadAccess:
    """An access of an issue to a scratchpad. Units: `place` and `size` in bytes of it.

    `banks` are its banks, as units from `first_bank` on, and `runs` the places of the bytes in them; none
    if the memory does not state their speed.
    """

    memory: str
    place: Index
    size: int
    reads: bool
    writes: bool
    banks: Banks | None = None
    first_bank: int = -1
    runs: Runs = ()


@dataclass(frozen=True, slots=True, eq=False)
class Varying:
    """Parameters that depend on loops, and a function from their values to the issue."""

    params: tuple[tuple[str, Index], ...]
    at: Callable[[Mapping[str, int]], Step]


@dataclass(frozen=True, slots=True)
class Step:
    """One issue in the machine model: numbers of its unit, of registers read and written, and accesses.

    `instruction` and `block`, the note of the outermost block around it, are for watchers. `link` is the
    number of a link that several units share, as units are numbered, -1 for none. `link_written` says that
    it writes, `queued` how many issues the queue of its unit holds, 0 if it has none. `also` is another
    unit that it takes, -1 for none. Units: `sizes` of its accesses in bytes; `work_ns` that it keeps
    its unit busy, all units of the kind together, `also_ns` the other one, `link_ns` that link.
    """

    unit: int
    work_ns: float
    latency_ns: float
    reads: tuple[int, ...]
    writes: int
    accesses: tuple[int, ...]
    touches: tuple[ScratchpadAccess, ...] = ()
    instruction: str = ""
    block: str = ""
    link: int = -1
    link_ns: float = 0.0
    link_written: bool = False
    queued: int = 0
    also: int = -1
    also_ns: float = 0.0
    varying: Varying | None = None
    sizes: tuple[int, ...] = ()


class Swept(NamedTuple):
    """Bytes of a scratchpad, from `begin` to `end`, that an iteration of a loop writes or reads.

    Each of up to `iterations` later iterations accesses the bytes at a distance of `by`, least and most.
    """

    memory: str
    written: bool
    begin: int
    end: int
    by: tuple[int, int]
    iterations: int


class Watcher(Protocol):
    """A receiver of simulation events, in the order in which they happen. Units: nanoseconds."""

    def issued(self, step: Step, booked: float, start: float, end: float) -> None:
        """Record an issue. Its unit is busy from `booked` on, and its operands are ready at `start`."""
        ...

    def crossed(self, step: Step, start: float, end: float) -> None:
        """Record an issue that occupies a shared link."""
        ...

    def moved(self, link: int, start: float, end: float) -> None:
        """Record lines that cross a link."""
        ...

    def repeated(
        self, since: int, now: float, by_ns: float, times: int, more: Iterable[tuple[Step, int]]
    ) -> None:
        """Record that events are repeated `times` times without simulation.

        All repetitions together have `more` additional issues of some kinds, or fewer.
        """
        ...

    def mark(self) -> int:
        """Return the current position in the record."""
        ...


class MachineTime:
    """Clocks of units and links, ready times of registers, retire times of the last issues, and sums of work."""

    def __init__(
        self,
        units: int,
        registers: int,
        bandwidths: Sequence[float],
        line_bytes: int,
        watcher: Watcher | None = None,
    ) -> None:
        self.watcher = watcher
        self.units = [0.0] * units
        self.links = [0.0] * len(bandwidths)
        self.ready = [0.0] * registers
        self.retired: deque[float] = deque([0.0] * IN_FLIGHT, maxlen=IN_FLIGHT)
        self.retiring = 0.0
        self.now = 0.0
        self.steps = 0
        # Per unit with a queue when the last issues began that fill it, and when the newest issue came.
        self.queues: dict[int, deque[float]] = {}
        self.front = 0.0
        # When the last write and the last read of the bytes of each scratchpad are done.
        self.written: defaultdict[str, Spans] = defaultdict(Spans)
        self.read: defaultdict[str, Spans] = defaultdict(Spans)
        self._line_ns = [line_bytes / bandwidth for bandwidth in bandwidths]
        # Work done so far: busy time per unit, then lines per link, then issues.
        self.done = [0.0] * (units + len(bandwidths) + 1)

    def issue(
        self, step: Step, lines: Sequence[tuple[bool, Weights]], env: Mapping[str, int] | None = None
    ) -> None:
        """Simulate one issue. `lines` are the lines of each access from beyond the nearest cache.

        `env` has the values of loops, for the bytes that it accesses in scratchpads.
        """
        entered = self._enter_time(step)
        start = max(entered, self.units[step.unit])
        touched = [(touch, touch.place.evaluate(env or {})) for touch in step.touches]
        for touch, begin in touched:
            start = max(start, self._free(touch, begin, step.latency_ns))
        if step.link >= 0:
            start = max(start, self._cross(step, entered))
        start, longest_ns = self._through_banks(step, start, entered, env or {})
        booked, work_ns = start, max(step.work_ns, longest_ns)
        self.units[step.unit] = start + work_ns
        if step.also >= 0:
            self.units[step.also] = max(self.units[step.also], entered) + step.also_ns
            self.done[step.also] += step.also_ns
        for register in step.reads:
            start = max(start, self.ready[register])
        for writes, weights in lines:
            for level, share in weights:
                # What is written comes in first, and goes out some time.
                start = max(start, self._fetch(level, 2 * share if writes else share, entered))
        end = start + max(step.latency_ns, longest_ns)
        for touch, begin in touched:
            if touch.writes:
                self.written[touch.memory].set(begin, begin + touch.size, end)
            if touch.reads:
                self.read[touch.memory].lift(begin, begin + touch.size, end)
        if step.writes >= 0:
            self.ready[step.writes] = end
        self.now = max(self.now, end)
        if not step.queued:
            self.retiring = max(self.retiring, end)
            self.retired.append(self.retiring)
        else:
            self.queues.setdefault(step.unit, deque(maxlen=step.queued)).append(booked)
        self.done[step.unit] += work_ns
        self.done[-1] += 1
        self.steps += 1
        if self.watcher is not None:
            self.watcher.issued(step, booked, start, end)

    def _free(self, touch: ScratchpadAccess, begin: int, latency_ns: float) -> float:
        """Return when the scratchpad bytes of an access are free: inputs written, and overwritten bytes read."""
        # What is only written has to be so behind what was written before, not begun behind it.
        end, early_ns = begin + touch.size, 0.0 if touch.reads else latency_ns
        written = self.written[touch.memory].latest(begin, end) - early_ns
        return max(written, self.read[touch.memory].latest(begin, end)) if touch.writes else written

    def _enter_time(self, step: Step) -> float:
        """Return when an issue leaves for its unit: after earlier issues, once the unit's queue has room.

        Without a queue, all but a window of the earlier issues must have retired.
        """
        if not step.queued:
            return self.retired[0]
        queue = self.queues.get(step.unit)
        if queue is not None and len(queue) == step.queued:
            self.front = max(self.front, queue[0])
        return self.front

    def _through_banks(
        self, step: Step, start: float, entered: float, env: Mapping[str, int]
    ) -> tuple[float, float]:
        """Return when an issue can start so that its banks are free, and the time of the busiest bank.

        Banks, like links, serve issues in program order from the time at which they are known.
        """
        longest_ns = 0.0
        for touch in step.touches:
            if touch.banks is None:
                continue
            times = touch.reads + touch.writes
            for bank, once_ns in touch.banks.taken(touch.place.evaluate(env), touch.runs):
                unit, ns = touch.first_bank + bank, times * once_ns
                self.units[unit] = max(self.units[unit], entered) + ns
                self.done[unit] += ns
                start, longest_ns = max(start, self.units[unit] - ns), max(longest_ns, ns)
        return start, longest_ns

    def _cross(self, step: Step, entered: float) -> float:
        """Return the earliest start of a transfer such that a shared link finishes no later than the transfer.

        Reads use the link in program order. A read that waits for another event does not block later reads.
        A write uses the link as soon as it is ready, before reads that have not started: engines alternate
        between reads and writes.
        """
        crossed = max(self.units[step.link], entered) + step.link_ns
        self.units[step.link] = crossed
        self.done[step.link] += step.link_ns
        if self.watcher is not None:
            self.watcher.crossed(step, crossed - step.link_ns, crossed)
        return entered if step.link_written else crossed - step.link_ns

    def _fetch(self, level: int, lines: float, entered: float) -> float:
        """Return when lines have arrived from a level through all links in between."""
        arrived = entered
        first = len(self.units)
        for link in range(level):
            begin = max(self.links[link], entered)
            self.links[link] = begin + lines * self._line_ns[link]
            if self.watcher is not None and lines:
                self.watcher.moved(link, begin, self.links[link])
            self.done[first + link] += lines
            arrived = max(arrived, self.links[link])
        return arrived

    def clocks(self) -> list[float]:
        """Return the clocks: of units, of links, and of ready operands."""
        return [*self.units, *self.links, *self.ready]

    def work_ns(self, done: Sequence[float]) -> list[float]:
        """Return how long work occupies each unit and each link."""
        first = len(self.units)
        moved = zip(done[first:-1], self._line_ns, strict=True)
        return [*done[:first], *(lines * each for lines, each in moved)]

    def work_of(self, issues: Iterable[tuple[Step, int]]) -> list[float]:
        """Return the work of several issues in the form of `done`, without lines and banks."""
        found = [0.0] * len(self.done)
        for step, count in issues:
            found[step.unit] += count * step.work_ns
            found[-1] += count
            if step.also >= 0:
                found[step.also] += count * step.also_ns
            if step.link >= 0:
                found[step.link] += count * step.link_ns
        return found

    def time_of(self, by_ns: float, work: Sequence[float], mean: Sequence[float]) -> float:
        """Return the time of iterations with the work `mean`, if one with `work` takes `by_ns`.

        The time is proportional to the work of the busiest unit or link, and no less than any of them needs.
        """
        if list(work) == list(mean):
            return by_ns
        before, after = self.work_ns(work), self.work_ns(mean)
        most = max(range(len(before)), key=before.__getitem__)
        return max(by_ns * after[most] / before[most] if before[most] else by_ns, *after)

    def skip(self, by_ns: float, work: Sequence[float], times: int, swept: Iterable[Swept]) -> None:
        """Advance the state as if a period of `by_ns` with this work and these accesses occurred `times` more times.

        Idle units and links, and bytes that nothing `swept`, are unchanged.
        """
        later = by_ns * times
        first = len(self.units)
        worked = {unit for unit, done in enumerate(work[:first]) if done}
        crossed = {link for link, done in enumerate(work[first:-1]) if done}
        self.units = [t + later * (unit in worked) for unit, t in enumerate(self.units)]
        self.links = [t + later * (link in crossed) for link, t in enumerate(self.links)]
        self.ready = [t + later for t in self.ready]
        self.retired = deque([t + later for t in self.retired], maxlen=IN_FLIGHT)
        self.retiring += later
        for unit in worked & self.queues.keys():
            self.queues[unit] = deque([t + later for t in self.queues[unit]], self.queues[unit].maxlen)
            if len(self.queues[unit]) == self.queues[unit].maxlen:
                self.front = max(self.front, self.queues[unit][0])
        known = [(part, (self.written if part.written else self.read)[part.memory]) for part in swept]
        moved = [(part, spans, spans.between(part.begin, part.end)) for part, spans in known]
        for part, spans, touched in moved:
            for begin, end, time in touched:
                spans.lift(begin + part.by[0], end + part.by[1], time + by_ns * part.iterations)
        self.now += later
        self.done = [d + times * w for d, w in zip(self.done, work, strict=True)]


# --- when each byte of a scratchpad was last written, or read ---


@dataclass(slots=True)
class Spans:
    """The times of ranges of bytes. Units: bytes; nanoseconds.

    Units: bytes; nanoseconds.
    """

    begins: list[int] = field(default_factory=lambda: [0])
    times: list[float] = field(default_factory=lambda: [0.0])

    def latest(self, begin: int, end: int) -> float:
        """Return the latest time of the bytes from `begin` to before `end`."""
        first = bisect_right(self.begins, begin) - 1
        last = bisect_left(self.begins, end, first)
        return self.times[first] if last == first + 1 else max(self.times[first:last])

    def set(self, begin: int, end: int, time: float) -> None:
        """Set one time for all of these bytes."""
        first, last = self._cut_span(begin), self._cut_span(end)
        self.begins[first:last] = [begin]
        self.times[first:last] = [time]

    def lift(self, begin: int, end: int, time: float) -> None:
        """Raise the time of bytes in a range to at least `time`."""
        first, last = self._cut_span(begin), self._cut_span(end)
        self.times[first:last] = [max(time, before) for before in self.times[first:last]]

    def between(self, begin: int, end: int) -> list[tuple[int, int, float]]:
        """Split bytes into ranges with equal times, and return each range with its time."""
        first = bisect_right(self.begins, begin) - 1
        last = bisect_left(self.begins, end, first)
        ends = [*self.begins[first + 1 : last], end]
        return list(zip([begin, *self.begins[first + 1 : last]], ends, self.times[first:last], strict=True))

    def _cut_span(self, at: int) -> int:
        """Return the number of the range that starts at a byte, and split a range if necessary."""
        place = bisect_left(self.begins, at)
        if place == len(self.begins) or self.begins[place] != at:
            self.begins.insert(place, at)
            self.times.insert(place, self.times[place - 1])
        return place
