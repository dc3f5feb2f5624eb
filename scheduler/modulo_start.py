"""A pipeline to begin with, by rule: sums in their order as early as may be, loads as late as may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from isamap.plan.steady import Pipeline, Steady, check_pipeline


def begin(steady: Steady, least: int) -> Pipeline | None:
    """The pipeline of the least interval from `least` on that the rule gives one for, or one iteration after
    the other; None where registers forbid even that."""
    plain = in_sequence(steady)
    highest = plain.interval if plain is not None else least + 4 * len(steady.operations)
    for interval in range(least, highest):
        found = _by_rule(steady, interval)
        if found is not None and not any(check_pipeline(steady, found)):
            return found
    return plain


def in_sequence(steady: Steady) -> Pipeline | None:
    """Operations in the order listed, iteration after iteration; None where registers forbid it."""
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
    return None if any(check_pipeline(steady, made)) else made


@dataclass(slots=True)
class _Table:
    """What each unit has taken of each slot of the interval."""

    steady: Steady
    interval: int
    counts: dict[str, int]
    taken: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def take(self, number: int, start: int) -> bool:
        """Takes the slots of an operation, unless its unit has none left there."""
        operation = self.steady.operations[number]
        slots = [(operation.unit, (start + tick) % self.interval) for tick in range(operation.busy)]
        wanted = {slot: slots.count(slot) for slot in slots}
        if any(self.taken.get(slot, 0) + n > self.counts[slot[0]] for slot, n in wanted.items()):
            return False
        for slot, n in wanted.items():
            self.taken[slot] = self.taken.get(slot, 0) + n
        return True


def _by_rule(steady: Steady, interval: int) -> Pipeline | None:
    """What waits for nothing of its own iteration is placed last, directly before what waits for it."""
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
