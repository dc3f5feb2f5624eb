"""A schedule on trial, with all the context that evaluators may need.

A modelled cost is an expression over decisions. An evaluated one may lower the schedule, simulate it, or
compile and time it.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Kernel, Range, typical_size
from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.source.records import dataclass

Fact = int | float | str


@dataclass(frozen=True, slots=True)
class Trial:
    """A schedule that passes `check_schedule`, of a kernel with bound sizes and explicit guards."""

    kernel: Kernel
    machine: Machine
    problem: Problem
    schedule: Schedule
    sizes: Mapping[str, int | Range]

    @property
    def profile(self) -> dict[str, int]:
        """The sizes it is judged at: those given, and the typical values of ranges."""
        return {name: typical_size(value) for name, value in self.sizes.items()}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluator. Units: nanoseconds, infinite if the schedule does not run.

    `facts` are further results by name.
    """

    cost_ns: float
    facts: tuple[tuple[str, Fact], ...] = ()
