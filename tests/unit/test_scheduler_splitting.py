"""Floors that splitting raises: never above what trying everything finds, often close to it."""

from __future__ import annotations

from math import inf

import pytest

from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel
from isamap.scheduler.candidates import OpenOption, open_options
from isamap.scheduler.floors import floors_of
from isamap.scheduler.greedy import greedy_candidate
from isamap.scheduler.pool import all_candidates
from isamap.scheduler.splitting import raised_floors
from tests.plan_problems import gemm

SIZES = [(7, 32, 8), (5, 48, 16), (20, 16, 64)]


def opened(problem: Problem) -> OpenOption:
    return open_options(problem, problem.nests[0], AnalyticModel(), {})[0]


def least_costs(option: OpenOption) -> list[float]:
    """The cheapest schedule of each register block, of all that there are."""
    found = [inf] * len(option.register_blocks)
    axes = option.space.register_axes
    for candidate in all_candidates(option):
        block = {axis.name: candidate.assignment[option.space.unroll(axis)] for axis in axes}
        number = option.register_blocks.index(block)
        found[number] = min(found[number], candidate.cost_ns)
    return found


@pytest.mark.parametrize("sizes", SIZES)
def test_no_schedule_undercuts_a_raised_floor(sizes: tuple[int, int, int]) -> None:
    option = opened(gemm(*sizes))
    floors, costs = floors_of(option.cost, option.space, option.register_blocks), least_costs(option)

    raised = raised_floors(option, option.register_blocks, floors, inf)

    assert all(
        floor <= now <= cost * (1 + 1e-9) for floor, now, cost in zip(floors, raised, costs, strict=True)
    )


def test_floors_rise_towards_a_price_and_no_further() -> None:
    option = opened(gemm(196, 1024, 512))
    floors = floors_of(option.cost, option.space, option.register_blocks)
    best = greedy_candidate([option])
    assert best is not None

    raised = raised_floors(option, option.register_blocks, floors, best.cost_ns)

    assert max(raised) == best.cost_ns
    assert min(floors) < min(raised) <= best.cost_ns


def test_nothing_is_split_when_time_is_up() -> None:
    option = opened(gemm(24, 32, 8))
    floors = floors_of(option.cost, option.space, option.register_blocks)

    assert raised_floors(option, option.register_blocks, floors, inf, stop=0.0) == floors
