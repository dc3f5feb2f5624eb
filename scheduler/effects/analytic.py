"""The analytic cost model: the time of a statement as an expression over its decisions.

All of it is read from the table of effects: the price, its parts with names, and the floor.
"""

from __future__ import annotations

from isamap.plan.cost import Cost
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.scheduler.effects.effect import Context
from isamap.scheduler.effects.least import StorageChoice, list_ways
from isamap.scheduler.effects.table import EFFECTS
from isamap.scheduler.effects.time_parts import Counts, TimePart, total_time
from isamap.source import add_up, dataclass

# Rounding: sums of floats in another order may differ by this.
ROUNDED = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """The analytic cost model, which is built in."""

    name: str = "analytic"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Return the time of a statement under one option. Units: nanoseconds."""
        return total_time(self.shares(problem, nest, option))

    def shares(self, problem: Problem, nest: NestProblem, option: NestOption) -> tuple[TimePart, ...]:
        """Return the cost as named parts. Parts whose machine parameter is not stated are left out."""
        context = Context.of(problem, nest, option)
        return tuple(
            TimePart(
                effect.name.format(by=part.by),
                part.operand,
                effect.counts,
                part.cost,
                effect.words.replace("{by}", part.by),
            )
            for effect in EFFECTS
            if effect.is_known(problem)
            for part in effect.parts(context)
        )

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """Return a lower bound of `expression`. It takes some tens of microseconds."""
        return min(_least_ns(way) for way in list_ways(problem, option)) * ROUNDED


def _least_ns(way: StorageChoice) -> float:
    """Return the lower bound: the longest of the overlapping effects, plus the effects that add up."""
    hides: list[float] = []
    on_top: list[float] = []
    for effect in EFFECTS:
        if effect.least is not None and effect.is_known(way.problem):
            (on_top if effect.counts is Counts.ON_TOP else hides).append(effect.least(way))
    return max(hides) + add_up(on_top)
