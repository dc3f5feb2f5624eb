"""Problems posed of the forms of a kernel: recalled, or built of the mappings that `match` finds.

Which mappings a problem needs: all of them, those that may win, enough for a first schedule, or some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from isamap.driver.recalled import problem_key, recall_problem, remember_problem
from isamap.driver.request import Request
from isamap.driver.stages import Clock
from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.plan.plugins import load_cost_model, origin
from isamap.plan.problem import Problem
from isamap.plan.protocols import FlooredModel
from isamap.posing.build import build_problem
from isamap.posing.matches import Matches, find_matches
from isamap.scheduler import FIRST_LOOKS, narrow_problem

Extent = Literal["whole", "narrow", "first"] | tuple[str, ...]
"""All mappings, those that may win, enough of them for a first schedule, or those of these names."""


def extent_of(request: Request) -> Extent:
    """How much of the problem a request needs.

    All of it where a person decides, or where more than the best schedule is asked for; where inputs are
    packed before, so that copies of them cost nothing; and for cost models that have no floors.
    """
    decided = request.fixed or request.schedule is not None or request.packed
    model = load_cost_model(request.cost_model)
    if decided or request.measures or request.best > 1 or not isinstance(model, FlooredModel):
        return "whole"
    return "first" if request.heuristic == "greedy" else "narrow"


def is_own(request: Request) -> bool:
    """Whether what is left out depends on this program alone, and not on a cost model from a plug-in."""
    return not origin(load_cost_model(request.cost_model))


def problem_in(
    extent: Extent,
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    matches: Sequence[Matches],
) -> Problem:
    """The problem of a canonical kernel, as much of it as is needed, made of its matches.

    Raises: NoMapping.
    """
    if not isinstance(extent, str) or extent == "whole":
        named = None if extent == "whole" else extent
        return build_problem(kernel, machine, sizes, request.threads, request.packed, named, matches)
    looks = FIRST_LOOKS if extent == "first" else None
    model = load_cost_model(request.cost_model)
    return narrow_problem(kernel, machine, sizes, request.threads, model, looks, matches)


@dataclass(frozen=True, slots=True)
class Questions:
    """Problems of the forms of a kernel, each posed once. `known` are the matches of forms, once found."""

    request: Request
    machine: Machine
    sizes: Mapping[str, int | Range]
    clock: Clock
    known: dict[Kernel, tuple[Matches, ...]] = field(default_factory=dict[Kernel, "tuple[Matches, ...]"])
    posed: dict[tuple[Kernel, Extent], Problem] = field(
        default_factory=dict["tuple[Kernel, Extent]", Problem]
    )

    def matches(self, kernel: Kernel) -> tuple[Matches, ...]:
        """The mappings of a canonical kernel's statements."""
        if kernel not in self.known:
            with self.clock("match"):
                self.known[kernel] = find_matches(kernel, self.machine)
        return self.known[kernel]

    def problem(self, kernel: Kernel, extent: Extent) -> Problem:
        """The problem of a canonical kernel, as much of it as is asked for. Raises: NoMapping."""
        if (kernel, extent) not in self.posed:
            with self.clock("pose"):
                self.posed[kernel, extent] = self._asked(kernel, extent)
        return self.posed[kernel, extent]

    def _asked(self, kernel: Kernel, extent: Extent) -> Problem:
        """The problem, recalled or built."""
        is_kept = self.request.cache and (extent == "whole" or is_own(self.request))
        key = problem_key(self.request, kernel, extent) if is_kept and isinstance(extent, str) else None
        known = recall_problem(key) if key is not None else None
        if known is not None:
            return known
        known = self.matches(kernel)
        problem = problem_in(extent, self.request, kernel, self.machine, self.sizes, known)
        if key is not None:
            remember_problem(key, problem)
        return problem
