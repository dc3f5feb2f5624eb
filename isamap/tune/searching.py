"""Search by measuring: a searcher proposes schedules, receives their times, and proposes again.

    told = search(searcher, space, budget, measure, stop)
    finalists(told, 4)                           the best of them, to be judged in more rounds

Times are ratios to the first schedule, which alternates with all others, so that other work on the machine
affects both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

from isamap.scheduler.search.points import Point, SearchSpace
from isamap.source.records import dataclass

# How many are measured together: each group takes turns with the first schedule once more.
TOGETHER = 6
# A searcher that proposes nothing new so often in a row has ended.
PATIENCE = 3


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured point: its time divided by that of the first schedule. It is infinite if it did not run."""

    point: Point
    ratio: float


class Searcher(Protocol):
    """A method of search by measurement. One object serves one search, so it may have state."""

    @property
    def name(self) -> str:
        """The name for `--search`."""
        ...

    def propose(self, space: SearchSpace, told: Sequence[MeasuredPoint], count: int) -> Sequence[Point]:
        """Return up to `count` points to measure next, or none to end the search.

        `told` has all measurements so far, in order. The first is the model's choice, with ratio 1. A point
        that is proposed again is not measured again.
        """
        ...


Measure = Callable[[Sequence[Point]], Sequence[float]]
"""The ratio of each point to the first one, measured in alternation."""


def search(
    searcher: Searcher, space: SearchSpace, budget: int, measure: Measure, stop: float = inf
) -> tuple[MeasuredPoint, ...]:
    """Return the measured schedules. The first schedule comes first and is counted in the budget.

    Units: `stop` on the monotonic clock: no group of measurements begins later.
    """
    told = [MeasuredPoint(space.first, 1.0)]
    fruitless = 0
    while (left := budget - len(told)) > 0 and fruitless < PATIENCE and time.monotonic() < stop:
        proposed = searcher.propose(space, tuple(told), min(TOGETHER, left))
        known = {one.point for one in told}
        points = [p for p in dict.fromkeys(proposed) if p not in known][: min(TOGETHER, left)]
        if not proposed:
            break
        if not points:
            fruitless += 1
            continue
        fruitless = 0
        told += map(MeasuredPoint, points, measure(points))
    return tuple(told)


def finalists(told: Sequence[MeasuredPoint], count: int) -> tuple[Point, ...]:
    """Return the first schedule, and the fastest of those that beat it, at most `count` together."""
    faster = sorted((one for one in told[1:] if one.ratio < 1), key=lambda one: one.ratio)
    return (told[0].point, *(one.point for one in faster[:count]))
