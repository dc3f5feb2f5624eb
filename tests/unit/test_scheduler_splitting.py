"""Floors that splitting raises: never above what trying everything finds, often close to it."""

from __future__ import annotations

from math import inf

import pytest

from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel
from isamap.scheduler.ranking import all_candidates
from isamap.scheduler.search.candidates import OpenOption, candidate_of, open_options
from isamap.scheduler.search.greedy import first_assignment, greedy_candidate
from isamap.scheduler.search.lower_bounds import floors_of
from isamap.scheduler.search.splitting import RaisedBounds, raised_floors
from tests.plan_problems import conv2d, gemm

SIZES = [(7, 32, 8), (5, 48, 16), (20, 16, 64)]


def opened(problem: Problem) -> OpenOption:
    return open_options(problem, problem.nests[0], AnalyticModel(), {})[0]


def least_costs(option: OpenOption) -> list[float]:
    """Return the cheapest schedule of each register block, of all that there are."""
    found = [inf] * len(option.register_blocks)
    axes = option.space.register_axes
    for candidate in all_candidates(option):
        block = {axis.name: candidate.assignment[option.space.unroll(axis)] for axis in axes}
        number = option.register_blocks.index(block)
        found[number] = min(found[number], candidate.cost_ns)
    return found


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("most", [50, 1 << 17])
@pytest.mark.parametrize("sizes", SIZES)
def test_no_schedule_undercuts_a_raised_floor(sizes: tuple[int, int, int], most: int) -> None:
    option = opened(gemm(*sizes))
    floors, costs = floors_of(option.cost, option.space, option.register_blocks), least_costs(option)
    price = 1.2 * min(costs)

    raised = raised_floors(option, floors, price, most=most)

    assert raised.best is None
    assert all(now <= cost * (1 + 1e-9) for now, cost in zip(raised.floors_ns, costs, strict=True))
    assert all(now >= min(floor, price) for now, floor in zip(raised.floors_ns, floors, strict=True))


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("sizes", SIZES)
def test_with_all_decided_floors_are_what_the_best_schedules_cost(sizes: tuple[int, int, int]) -> None:
    option = opened(gemm(*sizes))
    floors, costs = floors_of(option.cost, option.space, option.register_blocks), least_costs(option)
    price = 1.02 * min(costs)

    raised = raised_floors(option, floors, price)

    assert raised.floors_ns == pytest.approx([min(price, cost) for cost in costs], rel=1e-9)


def test_a_cheaper_schedule_is_met_on_the_way() -> None:
    option = opened(gemm(20, 16, 64))
    floors = floors_of(option.cost, option.space, option.register_blocks)
    first = first_assignment(option.space, option.register_blocks[0])
    assert first is not None
    start = candidate_of(option, first)

    raised = raised_floors(option, floors, start.cost_ns, start=start)

    assert raised.best is not None
    assert raised.best.cost_ns == pytest.approx(min(least_costs(option)), rel=1e-9)
    assert max(raised.floors_ns) == raised.best.cost_ns


def test_floors_rise_towards_a_price_and_no_further() -> None:
    option = opened(gemm(196, 1024, 512))
    floors = floors_of(option.cost, option.space, option.register_blocks)
    best = greedy_candidate([option])
    assert best is not None

    raised = raised_floors(option, floors, best.cost_ns, start=best)

    assert max(raised.floors_ns) == (raised.best or best).cost_ns
    assert min(floors) < min(raised.floors_ns) <= best.cost_ns


def test_orders_that_go_in_circles_and_loops_that_run_once_lower_no_floor() -> None:
    """Seven loops: without what orders say about each other, floors stay where they are."""
    option = opened(conv2d(2, 64, 64, 14, 14, 3, 3))
    floors = floors_of(option.cost, option.space, option.register_blocks)
    best = greedy_candidate([option])
    assert best is not None

    raised = raised_floors(option, floors, best.cost_ns, start=best)

    assert min(raised.floors_ns) == pytest.approx((raised.best or best).cost_ns, rel=1e-9)


def test_nothing_is_split_when_time_is_up() -> None:
    option = opened(gemm(24, 32, 8))
    floors = floors_of(option.cost, option.space, option.register_blocks)

    assert raised_floors(option, floors, inf, stop=0.0) == RaisedBounds(floors)
