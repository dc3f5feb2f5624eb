"""Which mappings a problem needs: all of them, those that may win, enough for a first schedule, or some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from isamap.driver.request import Request
from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.plan.plugins import load_cost_model, origin
from isamap.plan.problem import Problem
from isamap.plan.protocols import FlooredModel
from isamap.posing.build import build_problem
from isamap.posing.matches import Matches
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
