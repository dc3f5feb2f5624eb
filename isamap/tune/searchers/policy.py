"""Reinforcement learning: a small policy over kinds of decisions learns which changes are faster.

An action is a change of the fastest schedules known, described by the kinds of decisions that it changes. Its
value is a sum over kinds, its reward the logarithm of how much faster it ran. REINFORCE with a baseline, as
in Williams, Simple Statistical Gradient-Following Algorithms, Machine Learning 8, 1992.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp, inf, log, log2

from isamap.scheduler.search.points import Point, SearchSpace, changed_kinds
from isamap.tune.searching import MeasuredPoint

LEARNING, BEST, DRAWN = 0.5, 4, 48
# What a doubling of the modelled time weighs against a change, before anything is learned.
PRIOR = 4.0
WORST = log(2)  # what does not run, or takes twice as long


class Policy:
    """A policy with weights for decision kinds and for the model's estimate, trained by gradient steps."""

    name = "policy"

    def __init__(self) -> None:
        self._rng = random.Random(0)
        self._weights: dict[str, float] = {"model": PRIOR}
        self._tried: dict[Point, tuple[Point, float]] = {}
        """The schedule that each was a change of, and how likely that change was."""
        self._baseline = 0.0

    def propose(self, space: SearchSpace, told: Sequence[MeasuredPoint], count: int) -> Sequence[Point]:
        """Return changes of the fastest points, drawn by the policy."""
        ratios = {one.point: one.ratio for one in told}
        for point, (origin, chance) in self._tried.items():
            self._learn(origin, point, chance, ratios)
        self._tried.clear()
        best = sorted(told, key=lambda one: one.ratio)[:BEST]
        pairs = [(one.point, space.changed(one.point, self._rng)) for one in self._rng.choices(best, k=DRAWN)]
        open_ones = {new: old for old, new in pairs if new is not None and new not in ratios}
        while open_ones and len(self._tried) < count:
            weights = [exp(self._value(old, new)) for new, old in open_ones.items()]
            new = self._rng.choices(list(open_ones), weights)[0]
            chance = exp(self._value(open_ones[new], new)) / sum(weights)
            self._tried[new] = (open_ones.pop(new), chance)
        return tuple(self._tried)

    def _learn(self, old: Point, new: Point, chance: float, ratios: dict[Point, float]) -> None:
        slower = ratios.get(new, inf) / ratios[old]
        reward = -min(WORST, log(slower)) if slower < inf else -WORST
        step = LEARNING * (reward - self._baseline) * (1 - chance)
        self._baseline += 0.2 * (reward - self._baseline)
        for kind, value in _features(old, new).items():
            self._weights[kind] = self._weights.get(kind, 0.0) + step * value

    def _value(self, old: Point, new: Point) -> float:
        return sum(self._weights.get(kind, 0.0) * value for kind, value in _features(old, new).items())


def _features(old: Point, new: Point) -> dict[str, float]:
    """Return the kinds of decisions in a change, and the logarithm of its speed-up by the model."""
    model = log2(max(old.cost_ns, 1e-9) / max(new.cost_ns, 1e-9))
    return {**dict.fromkeys(sorted(changed_kinds(old, new)), 1.0), "model": max(-4.0, min(4.0, model))}
