"""Simulated annealing over measured times. Slower neighbours are accepted while the temperature is high.

The model selects the random changes that are measured. Source: Kirkpatrick, Gelatt, Vecchi, Optimization by
Simulated Annealing, Science 220, 1983.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp

from isamap.scheduler.search.points import Point, SearchSpace
from isamap.tune.searching import MeasuredPoint

HOTTEST, COOLING = 0.1, 0.8  # of the first schedule's time, and what is left of it after each group
# Of so many changes, the one that the model likes best is measured.
DRAWN = 8


class Annealing:
    """Simulated annealing with several parallel walks, as many as are measured together."""

    name = "annealing"

    def __init__(self) -> None:
        self._rng = random.Random(0)
        self._walks: list[MeasuredPoint] = []
        self._asked: dict[Point, int] = {}
        """The walk that each point was proposed for."""
        self._heat = HOTTEST

    def propose(self, space: SearchSpace, told: Sequence[MeasuredPoint], count: int) -> Sequence[Point]:
        """Return one change of each walk. The first half of the walks starts from the model's best schedules."""
        if not self._walks:
            self._walks = [told[0]] * count
            self._asked = {point: place for place, point in enumerate(space.listed[: count // 2])}
        else:
            for new in (one for one in told if one.point in self._asked):
                self._step(self._asked[new.point], new)
            self._heat *= COOLING
            self._asked = {}
        for place in set(range(len(self._walks))) - set(self._asked.values()):
            point = self._change(space, self._walks[place].point)
            if point is not None:
                self._asked.setdefault(point, place)
        return list(self._asked)[:count]

    def _step(self, place: int, new: MeasuredPoint) -> None:
        worse = new.ratio - self._walks[place].ratio
        if worse <= 0 or self._rng.random() < exp(-worse / self._heat):
            self._walks[place] = new

    def _change(self, space: SearchSpace, point: Point) -> Point | None:
        drawn = [space.changed(point, self._rng) for _ in range(DRAWN)]
        return min((p for p in drawn if p is not None), key=lambda p: p.cost_ns, default=None)
