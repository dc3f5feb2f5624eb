"""Time a lowered program by discrete events: issues on units, operand dependences, memory lines.

    simulate(program, machine, problem)  ->  Simulation(total_ns=1.07e7, ...)

A loop runs until two iterations take the same time. Its other iterations are not run but counted, so that a
product of 1024³ takes seconds. `LEFT_OUT` lists the effects that the simulation omits.

The evaluator `simulated` lowers a schedule and returns the simulated time of its program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sys import maxsize

from isamap.ir import Index
from isamap.lower.passes import lower
from isamap.lower.program import LoweredProgram
from isamap.lower.work_slices import is_met
from isamap.machine import Machine
from isamap.machine.timings import IN_FLIGHT
from isamap.plan.problem import Problem
from isamap.plan.protocols import Evaluation, Fact, Trial
from isamap.simulate.machine_time import MachineTime, ScratchpadAccess, Step, Swept, Watcher
from isamap.simulate.prepare import Branch, PreparedLoop, PreparedProgram, Run, prepare
from isamap.simulate.reuse import Reuse, Weights
from isamap.source.records import dataclass, field

LEFT_OUT = (
    "branches, address arithmetic, and how many issues the processor takes in at once",
    "address translation: every page is known",
    "latencies behind the nearest cache: prefetching hides them, bandwidth counts",
    "lines that fall into the same set of a cache, and loads that lie on two lines",
    "stores that a later load has to wait for, but in scratchpads",
    "threads: one performs all parts of a parallel loop",
    f"how many issues are in flight: {IN_FLIGHT} are assumed",
)
# Two iterations of a loop take the same time when they differ by less than this part of it.
SAME = 0.005
# More issues than this are not run: loops are taken to be steady after their second iteration then.
MOST_STEPS = 2_000_000
# A loop that does not become steady is taken to be as its last iterations on the average.
MOST_ITERATIONS = 16


@dataclass(frozen=True, slots=True)
class Simulation:
    """The simulated time of a program, and its parts.

    Units: `total_ns`; `busy_ns` per unit; `moved_bytes` per level towards the previous one. `issues` counts
    the whole program, of which `run` were simulated one by one.
    """

    total_ns: float
    busy_ns: tuple[tuple[str, float], ...]
    moved_bytes: tuple[tuple[str, float], ...]
    issues: int
    run: int
    left_out: tuple[str, ...] = LEFT_OUT


def simulate(
    program: LoweredProgram, machine: Machine, problem: Problem, profile: Mapping[str, int] | None = None
) -> Simulation:
    """Return the simulated time of one call with dense tensors, after earlier calls.

    `profile` has values for open sizes.
    """
    return simulate_prepared(prepare(program, machine, profile or {}), problem)


def simulate_prepared(
    prepared: PreparedProgram, problem: Problem, watcher: Watcher | None = None
) -> Simulation:
    """Return the simulated time of a prepared program. `watcher` receives all events."""
    bandwidths = [c.bandwidth_bytes_per_ns for c in problem.caches[1:]]
    bandwidths.append(problem.memory_bandwidth_bytes_per_ns)
    bandwidths = bandwidths[: len(problem.caches)]
    reuse = Reuse(prepared.accesses, problem.caches, prepared.array_bytes, problem.line_bytes)
    units = len(prepared.units)
    state = MachineTime(units, prepared.registers, bandwidths, problem.line_bytes, watcher)
    _Walk(prepared, reuse, state, dict(prepared.env)).run(prepared.body, 0)
    sources = link_names(problem)
    moved = [problem.line_bytes * lines for lines in state.done[units:-1]]
    return Simulation(
        max(state.now, *state.units, 0.0),  # what is written last may still be on its way over a link
        tuple(zip(prepared.units, state.done[:units], strict=True)),
        tuple(zip(sources, moved, strict=True)),
        round(state.done[-1]),
        state.steps,
    )


def link_names(problem: Problem) -> tuple[str, ...]:
    """Return the levels beyond the nearest cache, each with a link to the previous one."""
    return (*(cache.name for cache in problem.caches[1:]), "memory") if problem.caches else ()


Counts = dict[int, int]


@dataclass(slots=True)
class _Walk:
    """A running program. `env` has the values of sizes, strides and the current loops.

    `counted` are the issues of whole loops, by the variables that move them. `steps` are all issues by
    identity.
    """

    prepared: PreparedProgram
    reuse: Reuse
    state: MachineTime
    env: dict[str, int]
    known: dict[tuple[int, int], Weights] = field(default_factory=dict[tuple[int, int], Weights])
    counted: dict[tuple[int, tuple[int, ...]], Counts] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], Counts]
    )
    steps: dict[int, Step] = field(default_factory=dict[int, Step])

    def run(self, body: Sequence[Run], past_first: int) -> None:
        """Run all items of a body. `past_first` has the bits of the loops past their first iteration."""
        for item in body:
            match item:
                case PreparedLoop():
                    self._loop(item, past_first)
                case Branch(conditions, inner):
                    if is_met(conditions, self.env):
                        self.run(inner, past_first)
                case _:
                    step = item if item.varying is None else item.varying.at(self.env)
                    self.state.issue(
                        step, [self._lines(number, past_first) for number in step.accesses], self.env
                    )

    def _lines(self, number: int, past_first: int) -> tuple[bool, Weights]:
        access = self.prepared.accesses[number]
        mask = past_first & self.prepared.masks[number]
        key = number, mask
        if key not in self.known:
            self.known[key] = self.reuse.weights(access, mask)
        return access.writes, self.known[key]

    def _loop(self, loop: PreparedLoop, past_first: int) -> None:
        trips = loop.trips.evaluate(self.env)
        state, iteration, times = self.state, 0, list[float]()
        alike = self._alike(loop, 0, trips)
        while iteration < trips:
            self.env[loop.trip_loop.variable] = iteration
            before, clocks, work = state.now, state.clocks(), list(state.done)
            steps = state.steps
            mark = state.watcher.mark() if state.watcher is not None else 0
            self.run(loop.body, past_first | loop.trip_loop.bit if iteration else past_first)
            times.append(state.now - before)
            iteration += 1
            if iteration == alike:
                alike, times = self._alike(loop, iteration, trips), []
            elif iteration > 1:
                done = [now - then for now, then in zip(state.done, work, strict=True)]
                fastest = max(now - then for now, then in zip(state.clocks(), clocks, strict=True))
                spent = self._steady(times, state.steps - steps, fastest, max(state.work_ns(done)))
                if spent is not None:
                    more = self._count_further_issues(loop, iteration, alike)
                    each = [
                        d + m / (alike - iteration) for d, m in zip(done, state.work_of(more), strict=True)
                    ]
                    spent = state.time_of(spent, done, each)
                    if state.watcher is not None:
                        state.watcher.repeated(mark, state.now, spent, alike - iteration, more)
                    state.skip(spent, each, alike - iteration, swept(loop, self.env, range(iteration, alike)))
                    iteration, times = alike, []
                    alike = self._alike(loop, iteration, trips)
        self.env.pop(loop.trip_loop.variable, None)

    def _count_further_issues(self, loop: PreparedLoop, iteration: int, end: int) -> list[tuple[Step, int]]:
        """Return how many issues the iterations up to `end` have beyond those of as many first iterations."""
        if not loop.inner:
            return []
        last = self._issues(loop, range(iteration - 1, iteration))
        found = self._issues(loop, range(iteration, end))
        counts = (
            (key, found.get(key, 0) - (end - iteration) * last.get(key, 0)) for key in {**last, **found}
        )
        return [(self.steps[key], count) for key, count in counts if count]

    def _issues(self, loop: PreparedLoop, iterations: range) -> Counts:
        """Return how often iterations of a loop perform each issue, by identity, without running them."""
        if not loop.inner:
            return {key: len(iterations) * count for key, count in self._issues_in(loop.body).items()}
        found: Counts = {}
        outer = self.env.get(loop.trip_loop.variable)
        for iteration in iterations:
            self.env[loop.trip_loop.variable] = iteration
            _add(found, self._issues_in(loop.body))
        if outer is None:
            self.env.pop(loop.trip_loop.variable, None)
        else:
            self.env[loop.trip_loop.variable] = outer
        return found

    def _issues_in(self, body: Sequence[Run]) -> Counts:
        found: Counts = {}
        for item in body:
            match item:
                case PreparedLoop():
                    key = id(item), tuple(self.env[name] for name in item.around)
                    if key not in self.counted:
                        self.counted[key] = self._issues(item, range(item.trips.evaluate(self.env)))
                    _add(found, self.counted[key])
                case Branch(conditions, inner):
                    if is_met(conditions, self.env):
                        _add(found, self._issues_in(inner))
                case Step():
                    step = item if item.varying is None else item.varying.at(self.env)
                    self.steps[id(step)] = step
                    _add(found, {id(step): 1})
        return found

    def _steady(self, times: Sequence[float], steps: int, fastest: float, least: float) -> float | None:
        """Return the time of each further iteration, or None if the last iterations were not steady.

        An iteration is steady if all clocks advance at the same rate: `fastest` is the largest advance of
        one, `least` the work of the busiest unit or link.
        """
        if len(times) < 2:
            return None
        last = times[-1]
        filled = IN_FLIGHT // max(1, steps) + 2
        if len(times) >= filled and abs(last - times[-2]) <= SAME * last and fastest <= (1 + SAME) * last:
            return last
        if len(times) >= filled + MOST_ITERATIONS or self.state.steps > MOST_STEPS:
            half = times[len(times) // 2 :]
            return max(least, sum(half) / len(half))
        return None

    def _alike(self, loop: PreparedLoop, iteration: int, trips: int) -> int:
        """Return the end of the iterations whose inner loops have the same iteration counts."""
        if not loop.inner or iteration >= trips:
            return trips
        first = self._inner_trips(loop, iteration)
        return next((t for t in range(iteration + 1, trips) if self._inner_trips(loop, t) != first), trips)

    def _inner_trips(self, loop: PreparedLoop, iteration: int) -> list[int]:
        env = {**self.env, **dict.fromkeys(loop.variables, 0), loop.trip_loop.variable: iteration}
        return [index.evaluate(env) for index in loop.inner]


def _add(counts: Counts, more: Counts) -> None:
    """Add `more` to `counts`, in place."""
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count


class Simulated:
    """The evaluator by simulation. It needs no compiler and no processor of the machine's kind.

    Its facts list the effects that it leaves out.
    """

    name = "simulated"

    def evaluate(self, trial: Trial) -> float:
        """Return the nanoseconds of one call by the simulator."""
        return _evaluation(trial).cost_ns

    def evaluate_together(self, trials: Sequence[Trial]) -> tuple[Evaluation, ...]:
        """Return the simulated cost of each trial, with the busy units of the machine."""
        return tuple(_evaluation(trial) for trial in trials)


def _evaluation(trial: Trial) -> Evaluation:
    program = lower(trial.kernel, trial.machine, trial.schedule, dict(trial.sizes))
    found = simulate(program, trial.machine, trial.problem, trial.profile)
    facts: list[tuple[str, Fact]] = [("issues", found.issues)]
    facts += [(f"busy_{unit}_ns", round(ns, 3)) for unit, ns in found.busy_ns]
    facts += [(f"from_{level}_bytes", round(moved)) for level, moved in found.moved_bytes]
    facts.append(("left_out", "; ".join(found.left_out)))
    return Evaluation(found.total_ns, tuple(facts))


# --- What iterations that are not run touch in scratchpads: the bytes that the last one touched, moved on ---

# Iterations are taken together in so many groups: their bytes get the time of the last one.
GROUPS = 16

Ends = Mapping[str, tuple[int, int]]
"""The first and the last value of loops."""


def swept(loop: PreparedLoop, env: Mapping[str, int], iterations: range) -> tuple[Swept, ...]:
    """Return the bytes that further iterations of a loop access, given the one that was run."""
    name, last = loop.trip_loop.variable, iterations[0] - 1
    found: dict[Swept, int] = {}  # of bytes that do not move, when they are touched last
    for touch, inside in _touches(loop.body, {}):
        like = _byte_range(touch.place, touch.size, env, {**inside, name: (last, last)})
        for group in _groups(iterations) if name in touch.place.symbols else [iterations]:
            begin, _ = _byte_range(touch.place, touch.size, env, {**inside, name: (group[0], group[0])})
            end, _ = _byte_range(touch.place, touch.size, env, {**inside, name: (group[-1], group[-1])})
            by = min(begin, end) - like[0], max(begin, end) - like[0]
            for written, is_meant in ((True, touch.writes), (False, touch.reads)):
                if is_meant:
                    part = Swept(touch.memory, written, *like, by, 0)
                    found[part] = max(found.get(part, 0), group[-1] - last)
    return tuple(part._replace(iterations=iterations) for part, iterations in found.items())


def _groups(iterations: range) -> Iterator[range]:
    size = -(-len(iterations) // GROUPS)
    return (iterations[first : first + size] for first in range(0, len(iterations), size))


def _touches(body: Sequence[Run], ends: Ends) -> Iterator[tuple[ScratchpadAccess, Ends]]:
    """Yield the accesses of a body's issues over all iterations of the surrounding loops."""
    for item in body:
        match item:
            case PreparedLoop():
                yield from _touches(
                    item.body, {**ends, item.trip_loop.variable: (0, item.trip_loop.trips - 1)}
                )
            case Branch(_, inner):
                yield from _touches(inner, ends)
            case Step():
                yield from ((touch, ends) for touch in item.touches)


def _byte_range(place: Index, size: int, env: Mapping[str, int], ends: Ends) -> tuple[int, int]:
    """Return the first byte and the end of an access of some size."""
    moving = {name: ends[name] for name in ends if name in place.symbols}
    if not place.is_affine_in(moving):
        return 0, maxsize
    first = {**env, **{name: low for name, (low, _) in moving.items()}}
    low = high = place.evaluate(first)
    for name, (_, last) in moving.items():
        more = place.evaluate({**first, name: last}) - place.evaluate(first)
        low, high = low + min(0, more), high + max(0, more)
    return low, high + size
