"""What a plug-in has to offer: cost models and heuristics."""

from __future__ import annotations

from typing import Protocol

from isamap.plan.cost import Cost
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import Schedule


class CostModel(Protocol):
    """A modelled cost: an expression over decisions, hence exact for bounds."""

    @property
    def name(self) -> str:
        """What schedules call it."""
        ...

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Nanoseconds of one statement under one option. A kernel's cost is the sum over its statements."""
        ...


class Heuristic(Protocol):
    """A way to answer a problem."""

    @property
    def name(self) -> str:
        """What `--heuristic` calls it."""
        ...

    def schedule(self, problem: Problem, limit_s: float) -> Schedule:
        """A complete schedule that passes `check_schedule`. Units: `limit_s` in seconds of wall clock."""
        ...
