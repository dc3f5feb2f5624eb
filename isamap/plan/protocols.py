"""What a plug-in has to offer: cost models and heuristics.

A package offers them as entry points in the groups `isamap.cost_models` and `isamap.heuristics`; each names a
class that is made without arguments. docs/plugins.md has an example of each.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """A schedule that has the `fixed` decisions, passes `check_schedule` and is cheap by `model`.

        Units: `limit_s` in seconds of wall clock. Raises: Infeasible when nothing agrees with `fixed`.
        """
        ...
