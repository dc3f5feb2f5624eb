"""Where the schedule for one profile value of a size ends, and that for the next one begins.

Between two profile values the cost model prices both schedules: for M = 1 and M = 35 the first is cheaper up
to M = 1, say. Steps are by ratios, so that a boundary is found within an eighth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, isqrt

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.driver.sizes import read_profiles
from isamap.plan.plugins import load_cost_model
from isamap.plan.schedule import Schedule
from isamap.scheduler.nests.pricing import price
from isamap.source import Diagnostic, UsageProblem

PRECISION = 1.125


def parts_of_size(request: Request, name: str, whole: Mapping[str, Size]) -> tuple[Size, ...]:
    """The parts of a size, one for each of its profile values; `whole` are the sizes with one of these each.

    Raises: UsageProblem for profile values outside the range, or not in order.
    """
    value = request.sizes[name]
    if isinstance(value, int) or "," not in value:
        return (value,)
    low, high, profiles = read_profiles(value)
    _check_profiles(name, value, low, high, profiles)
    asked = [_asked(request, whole, name, low, high, profile) for profile in profiles]
    schedules = [_schedule(one) for one in asked]

    def end(number: int) -> int:
        pair = schedules[number : number + 2]

        def costs(at: int) -> list[float]:
            return _costs(_asked(request, whole, name, low, high, at), pair)

        return end_of_first(costs, profiles[number], profiles[number + 1])

    ends = [end(number) for number in range(len(profiles) - 1)]
    starts = [low, *(end + 1 for end in ends)]
    return tuple(
        start if start == end else f"{start}..{end}@{profile}"
        for start, end, profile in zip(starts, [*ends, high], profiles, strict=True)
    )


def end_of_first(costs: Callable[[int], Sequence[float]], below: int, beyond: int) -> int:
    """The last value that is left to the first of two schedules: the better one `below`, the other `beyond`.

    `costs` prices both at a value.
    """
    while beyond > below + 1 and beyond > PRECISION * below:
        middle = min(max(isqrt(below * beyond), below + 1), beyond - 1)
        first, second = costs(middle)
        below, beyond = (middle, beyond) if first <= second else (below, middle)
    return below


def _asked(
    request: Request, whole: Mapping[str, Size], name: str, low: int, high: int, profile: int
) -> Request:
    """The request for one schedule for all values of a size."""
    return replace(request, sizes={**whole, name: f"{low}..{high}@{profile}"}, evaluate="", tune=0)


def _schedule(request: Request) -> Schedule:
    found = compile_kernel(request, "schedule").schedule
    assert found, "this stage has run"
    return found


def _costs(request: Request, schedules: Sequence[Schedule]) -> list[float]:
    """What schedules cost at a profile value; infinite where the model cannot say. Units: nanoseconds."""
    named = {nest.mapping for schedule in schedules for nest in schedule.nests}
    problem = compile_kernel(request, "pose", extent=tuple(sorted(named))).problem
    assert problem, "this stage has run"
    model = load_cost_model(request.cost_model)
    prices = [price(schedule, problem, model) for schedule in schedules]
    return [inf if None in parts else sum(part or 0.0 for part in parts) for parts in prices]


def _check_profiles(name: str, value: str, low: int, high: int, profiles: tuple[int, ...]) -> None:
    ordered = all(a < b for a, b in pairwise(profiles))
    if ordered and low <= profiles[0] and profiles[-1] <= high:
        return
    inside = sorted({p for p in profiles if low <= p <= high}) or [high]
    raise UsageProblem(
        Diagnostic(
            "several-profiles",
            f"`{name}={value}`: profile values increase, and lie between {low} and {high}",
            help=f"write `{name}={low}..{high}@{','.join(map(str, inside))}`",
        )
    )
