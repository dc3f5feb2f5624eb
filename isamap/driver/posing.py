"""Problems posed of the forms of a kernel: recalled, or built of the mappings that `match` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isamap.driver.clock import Clock
from isamap.driver.narrowing import Extent, is_own, problem_in
from isamap.driver.recalled import problem_key, recall_problem, remember_problem
from isamap.driver.request import Request
from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.posing.matches import Matches, find_matches


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
