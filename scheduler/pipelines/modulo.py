"""Modulo scheduling of a loop: the smallest initiation interval first, then the shortest lifetimes.

    python -m isamap.scheduler.pipelines.modulo < job        the answer to a `ModuloQuestion`, both as JSON

An interval is tried after the other, from the least that units and circles of dependences allow; the first
that has an order is proven to be the least. Then values shall occupy registers as briefly as possible.
It runs in a child process, because a failed check inside the solver would take the caller down with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isamap
from isamap.plan.steady import BoundedAnswer, Pipeline, Steady, check_pipeline, lifetime_of
from isamap.source.codec import read_value, write
from isamap.source.process import run_process
from isamap.source.records import dataclass, field

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

COMMAND = (sys.executable, "-P", "-m", "isamap.scheduler.pipelines.modulo")
SEED = 0
GRACE_S = 5.0  # what a child takes beyond the solver's limit: to start, and to read
# Deterministic time of the two phases: what decides, unless the wall clock is earlier.
INTERVAL_EFFORT, LIFETIME_EFFORT = 2.0, 4.0
MOST_STAGES = 8


@dataclass(frozen=True, slots=True)
class ModuloQuestion:
    """A modulo scheduling problem and its limit. Units: `limit_s` in seconds of wall clock."""

    steady: Steady
    limit_s: float


def pipeline_apart(
    steady: Steady, limit_s: float, command: tuple[str, ...] = COMMAND
) -> BoundedAnswer | None:
    """Return the best order that is found within the limit, or None, also if the solver failed."""
    try:
        environment = {**os.environ, "PYTHONPATH": str(Path(isamap.__file__).parents[1])}
        job = write(ModuloQuestion(steady, limit_s)).encode()
        done = run_process(command, limit_s + GRACE_S, input=job, env=environment)
        done.check_returncode()
        found = read_value(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, BoundedAnswer) else None


def find_pipeline(steady: Steady, limit_s: float) -> BoundedAnswer | None:
    """Find a pipeline as `pipeline_apart` does, in this process. Return None if no iteration fits into registers."""
    stop = time.monotonic() + limit_s
    plain = begin(steady, least_interval(steady))
    bound = interval = least_interval(steady)
    while (left := stop - time.monotonic()) > 0 and (plain is None or interval < plain.interval):
        status, found = _solve(steady, interval, left / 2, None)
        if found is not None:
            return _shorten_lives(steady, found, bound, stop)
        if status == "none" and bound == interval:
            bound = interval + 1
        interval += 1
        if plain is None and interval > _longest(steady):
            return None
    return _shorten_lives(steady, plain, min(bound, plain.interval), stop) if plain is not None else None


def least_interval(steady: Steady) -> int:
    """Return a lower bound of the interval: work per copy of a unit, and delay per iteration around a cycle."""
    counts = dict(steady.units)
    work: dict[str, int] = {}
    for operation in steady.operations:
        work[operation.unit] = work.get(operation.unit, 0) + operation.busy
    by_units = max((-(-ticks // counts[unit]) for unit, ticks in work.items()), default=1)
    interval = max(1, by_units)
    while _has_positive_circle(steady, interval):
        interval += 1
    return interval


def _has_positive_circle(steady: Steady, interval: int) -> bool:
    """Return whether dependences form a cycle that takes longer than the interval allows."""
    longest = [0] * len(steady.operations)
    for _ in range(len(longest) + 1):
        grew = False
        for wait in steady.dependences:
            at = longest[wait.source] + wait.delay - wait.distance * interval
            if at > longest[wait.target]:
                longest[wait.target], grew = at, True
        if not grew:
            return False
    return True


def _longest(steady: Steady) -> int:
    """Return the interval with which iterations do not overlap."""
    waits = sum(max(0, wait.delay) for wait in steady.dependences)
    return max(least_interval(steady), sum(max(1, o.busy) for o in steady.operations) + waits)


def _shorten_lives(steady: Steady, found: Pipeline, bound: int, stop: float) -> BoundedAnswer:
    """Return the result of the second phase: the same interval with the shortest lifetimes."""
    lifetime = lifetime_of(steady, found)
    proven = sum(1 for value in steady.values if value.users)
    left = stop - time.monotonic()
    if left > 0.1:
        proven, better = _solve(steady, found.interval, left, found)
        assert isinstance(proven, int)
        if better is not None and lifetime_of(steady, better) <= lifetime:
            found, lifetime = better, lifetime_of(steady, better)
    return BoundedAnswer(found, bound, lifetime, min(proven, lifetime))


# --- the model --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Model:
    """The start of each operation: its `slots` within the interval, plus whole intervals (`iterations`)."""

    model: cp_model.CpModel
    slots: Sequence[cp_model.IntVar]
    iterations: Sequence[cp_model.IntVar]
    starts: Sequence[Any]


def _solve(
    steady: Steady, interval: int, limit_s: float, shorten: Pipeline | None
) -> tuple[str | int, Pipeline | None]:
    """Return a pipeline with an interval, or `none` if it is proved that there is none, or `unknown`.

    If a pipeline to `shorten` is given, minimise the register lifetimes, and return their lower bound as
    well.
    """
    from ortools.sat.python import cp_model

    built = _build(steady, interval)
    # The lifetime of each value, once for each register that it takes.
    lives: list[Any] = []
    for value in steady.values:
        if value.users:
            life = built.model.new_int_var(1, 1 << 20, "")
            for user in value.users:
                built.model.add(life >= built.starts[user] - built.starts[value.definer])
            lives.append(value.registers * life)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several under a wall clock answer differently each time
    solver.parameters.random_seed = SEED
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.max_deterministic_time = INTERVAL_EFFORT
    if shorten is not None:
        for slot, iteration, start in zip(built.slots, built.iterations, shorten.starts, strict=True):
            built.model.add_hint(slot, start % interval)
            built.model.add_hint(iteration, start // interval)
        built.model.minimize(sum(lives))
        solver.parameters.max_deterministic_time = LIFETIME_EFFORT
    status = solver.solve(built.model)
    found = None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = _canonical(interval, [solver.value(start) for start in built.starts])
    if shorten is not None:
        return max(0, round(solver.best_objective_bound)) if lives else 0, found
    return "none" if status == cp_model.INFEASIBLE else "unknown", found


def _canonical(interval: int, starts: list[int]) -> Pipeline:
    """Return the same order with the first operation in the first iteration."""
    first = min(starts, default=0) // interval * interval
    return Pipeline(interval, tuple(start - first for start in starts))


def _build(steady: Steady, interval: int) -> _Model:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    count = len(steady.operations)
    slots = [model.new_int_var(0, interval - 1, "") for _ in range(count)]
    iterations = [model.new_int_var(0, MOST_STAGES - 1, "") for _ in range(count)]
    starts = [slot + interval * iteration for slot, iteration in zip(slots, iterations, strict=True)]
    for wait in steady.dependences:
        model.add(starts[wait.target] + wait.distance * interval >= starts[wait.source] + wait.delay)
    for unit, copies in steady.units:
        mine = [i for i, o in enumerate(steady.operations) if o.unit == unit and o.busy]
        _share_unit(model, steady, interval, slots, mine, copies)
    for memory, free in steady.registers:
        _share_registers(model, steady, interval, (slots, starts), memory, free)
    return _Model(model, slots, iterations, starts)


def _share_unit(
    model: cp_model.CpModel,
    steady: Steady,
    interval: int,
    slots: Sequence[cp_model.IntVar],
    mine: Sequence[int],
    copies: int,
) -> None:
    """Constrain the operations in each slot to the number of the unit's copies."""
    if len(mine) <= copies and all(steady.operations[i].busy <= interval for i in mine):
        return
    taken: list[list[Any]] = [[] for _ in range(interval)]
    for i in mine:
        at = [model.new_bool_var("") for _ in range(interval)]
        model.add_exactly_one(at)
        model.add(slots[i] == sum(slot * literal for slot, literal in enumerate(at)))
        for slot, literal in enumerate(at):
            for tick in range(steady.operations[i].busy):
                taken[(slot + tick) % interval].append(literal)
    for literals in taken:
        model.add(sum(literals) <= copies)


def _share_registers(
    model: cp_model.CpModel,
    steady: Steady,
    interval: int,
    places: tuple[Sequence[cp_model.IntVar], Sequence[Any]],
    memory: str,
    free: int,
) -> None:
    """Constrain the live values in each slot to the number of free registers.

    A lifetime is at most an interval long, so that it and its copy one interval earlier cover each slot that
    it reaches within the interval.
    """
    slots, starts = places
    lives = [v for v in steady.values if v.memory == memory and v.users]
    if sum(value.registers for value in lives) <= free:
        return
    intervals: list[cp_model.IntervalVar] = []
    for value in lives:
        size = model.new_int_var(1, interval, "")
        for user in value.users:
            model.add(size >= starts[user] - starts[value.definer])
        begin = slots[value.definer]
        end = model.new_int_var(1, 2 * interval, "")
        model.add(end == begin + size)
        intervals += [model.new_interval_var(begin - shift, size, end - shift, "") for shift in (0, interval)]
    demands = [value.registers for value in lives for _ in range(2)]
    model.add_cumulative(intervals, demands, free)


def begin(steady: Steady, least: int) -> Pipeline | None:
    """Return the first pipeline that the list-scheduling rule finds, from interval `least` on, or None.

    Without one, iterations run one after the other. None if registers are too few even for that.
    """
    # The operations in the listed order, iteration after iteration, or None if registers are too few.
    starts: list[int] = []
    free = 0
    for i, operation in enumerate(steady.operations):
        waits = [w for w in steady.dependences if w.target == i and not w.distance and w.source < i]
        start = max([free, *(starts[w.source] + w.delay for w in waits)])
        starts.append(start)
        free = start + max(1, operation.busy)
    ends = [
        -(-(starts[w.source] + w.delay - starts[w.target]) // w.distance)
        for w in steady.dependences
        if w.distance
    ]
    made = Pipeline(max([free, 1, *ends]), tuple(starts))
    plain = None if any(check_pipeline(steady, made)) else made
    highest = plain.interval if plain is not None else least + 4 * len(steady.operations)
    for interval in range(least, highest):
        found = _by_rule(steady, interval)
        if found is not None and not any(check_pipeline(steady, found)):
            return found
    return plain


@dataclass(slots=True)
class _Table:
    """The reservation table: the number of used slots of each unit."""

    steady: Steady
    interval: int
    counts: dict[str, int]
    taken: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def take(self, number: int, start: int) -> bool:
        """Reserve the slots of an operation. Return whether its unit has enough of them."""
        operation = self.steady.operations[number]
        slots = [(operation.unit, (start + tick) % self.interval) for tick in range(operation.busy)]
        needed = {slot: slots.count(slot) for slot in slots}
        if any(self.taken.get(slot, 0) + n > self.counts[slot[0]] for slot, n in needed.items()):
            return False
        for slot, n in needed.items():
            self.taken[slot] = self.taken.get(slot, 0) + n
        return True


def _by_rule(steady: Steady, interval: int) -> Pipeline | None:
    """Return a pipeline with an interval, or None. Operations that no other in their iteration needs come last."""
    count = len(steady.operations)
    within = [w for w in steady.dependences if not w.distance]
    waiting = {w.target for w in within}
    table = _Table(steady, interval, dict(steady.units))
    starts: dict[int, int] = {}
    for number in (i for i in range(count) if i in waiting):
        ready = [starts[w.source] + w.delay for w in within if w.target == number and w.source in starts]
        first = max(ready, default=0)
        placed = next((t for t in range(first, first + interval) if table.take(number, t)), None)
        if placed is None:
            return None
        starts[number] = placed
    sources = [i for i in range(count) if i not in waiting]
    latest = {
        i: min(
            (starts[w.target] - w.delay for w in within if w.source == i and w.target in starts), default=0
        )
        for i in sources
    }
    for number in sorted(sources, key=lambda i: (-latest[i], i)):
        last = latest[number]
        placed = next((t for t in range(last, last - interval, -1) if table.take(number, t)), None)
        if placed is None:
            return None
        starts[number] = placed
    shift = -(min(starts.values(), default=0) // interval) * interval
    return Pipeline(interval, tuple(starts[i] + shift for i in range(count)))


def main() -> None:
    """Answer one job from standard input."""
    job = read_value(sys.stdin.buffer.read())
    print(write(find_pipeline(job.steady, job.limit_s)))


if __name__ == "__main__":
    main()
