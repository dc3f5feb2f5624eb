"""A genetic algorithm: fast schedules are recombined and mutated, and slow ones are dropped.

The first generation has the model's best schedules. Source: Holland, Adaptation in Natural and Artificial
Systems, 1975.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from isamap.scheduler.search.points import Point, SearchSpace
from isamap.tune.searching import MeasuredPoint

# How many live on, how often a child is changed as well, and how much the model may say against it.
POPULATION, MUTATION, DOUBT = 8, 0.5, 2.0
# Children drawn for each that is measured: the model's favourites among them are.
DRAWN = 6


class Genetic:
    """A genetic algorithm. Each parent of a child is the faster one of two drawn schedules."""

    name = "genetic"

    def __init__(self) -> None:
        self._rng = random.Random(0)

    def propose(self, space: SearchSpace, told: Sequence[MeasuredPoint], count: int) -> Sequence[Point]:
        """Return the next generation."""
        known = {one.point for one in told}
        if len(told) == 1 and space.listed:
            return space.listed[:count]
        alive = sorted(told, key=lambda one: one.ratio)[:POPULATION]
        children: dict[Point, None] = {}
        for _ in range(DRAWN * count):
            child = self._child(space, alive)
            if child is not None and child not in known and child.cost_ns < DOUBT * space.first.cost_ns:
                children[child] = None
        return sorted(children, key=lambda child: child.cost_ns)[:count]

    def _child(self, space: SearchSpace, alive: Sequence[MeasuredPoint]) -> Point | None:
        child = space.crossed(self._parent(alive), self._parent(alive), self._rng)
        if child is None or self._rng.random() < MUTATION or child in {one.point for one in alive}:
            child = space.changed(child or self._parent(alive), self._rng)
        return child

    def _parent(self, alive: Sequence[MeasuredPoint]) -> Point:
        return min(self._rng.choices(alive, k=2), key=lambda one: one.ratio).point
