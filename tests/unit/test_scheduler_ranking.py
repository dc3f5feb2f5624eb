"""The K cheapest schedules: which they are, how many are proven to be, and that they differ."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from plan_problems import PROBLEMS, conv2d, elementwise, gemm, gemm_option, problem, tiled_gemm

from isamap.plan.check import check_schedule
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem
from isamap.plan.text import print_nest
from isamap.scheduler import AnalyticModel, Ranking, k_best, ranking, schedule
from isamap.scheduler.deciding.orders import axes_in_order, decisions_of
from isamap.scheduler.deciding.per_operand import first_values
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.summing import sum_choices
from isamap.scheduler.nests.nest_building import build_nest
from isamap.source import Infeasible

MODEL = AnalyticModel()


def costs(found: Ranking) -> list[float]:
    return [s.cost_ns for s in found.schedules if s.cost_ns is not None]


def texts(found: Ranking) -> list[str]:
    return ["\n".join(print_nest(nest) for nest in s.nests) for s in found.schedules]


def all_costs(question: Problem) -> list[float]:
    """Return the cost of every schedule whose text differs, cheapest first: each value of each decision tried."""
    (nest,) = question.nests
    cheapest: dict[str, float] = {}
    for option in nest.options:
        space = Space(0, option, dict(question.registers), {})
        cost = MODEL.expression(question, nest, option)
        pairs = [name for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())]
        both = [(block, sums) for block in space.register_blocks() for sums in sum_choices(space, block)]
        for block, sums in both:
            factors = {axis: block.get(axis.name, sums.get(space.unroll(axis), 1)) for axis in space.axes}
            sizes = [space.blocks(axis, factor) for axis, factor in factors.items()]
            stages = [space.stage_values(operand) for operand in option.operands]
            for values in product(*sizes, *stages, *([0, 1] for _ in pairs)):
                names = [*map(space.block, space.axes), *map(space.stage, option.operands), *pairs]
                made = dict(zip(names, values, strict=True))
                made |= {space.unroll(axis): block[axis.name] for axis in space.register_axes} | sums
                made |= first_values(space)
                if is_order(space, made) and space.is_feasible(made):
                    text = print_nest(build_nest(space, made))
                    price = float(evaluate(cost, made))
                    cheapest[text] = min(price, cheapest.get(text, price))
    return sorted(cheapest.values())


def is_order(space: Space, made: dict[str, int]) -> bool:
    """Return whether the pairs of loops go in no circle."""
    for axes, pairs in ((space.axes, space.order_pairs()), (space.register_axes, space.sweep_pairs())):
        again = decisions_of(axes_in_order(axes, pairs, made), pairs)
        if any(made[name] != value for name, value in again.items()):
            return False
    return True


SMALL = {
    "gemm": replace(gemm(3, 32, 16), registers=(("zmm", 6),)),
    "gemm of two mappings": problem(gemm_option(2, 32, 9), gemm_option(2, 32, 9, 4), registers={"zmm": 5}),
    "elementwise": replace(elementwise(6, 96), registers=(("zmm", 6),)),
    "tiled gemm": tiled_gemm(33, 32, 512),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("enumerated", [0, 1_000_000], ids=["solved", "enumerated"])
@pytest.mark.parametrize("question", SMALL.values(), ids=SMALL)
def test_the_list_is_what_trying_everything_gives(
    question: Problem, enumerated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "ENUMERATED", enumerated)
    found = k_best(question, MODEL, 12, limit_s=60)
    expected = all_costs(question)
    assert costs(found) == pytest.approx(expected[:12], rel=1e-3)
    assert found.proven == len(found.schedules)
    assert found.rest_ns <= expected[len(found.schedules)] * (1 + 1e-9)


@pytest.mark.parametrize(
    "name", ["gemm of primes", "scalar gemm", "tiled gemm", "gemv", "conv2d of one channel"]
)
def test_schedules_in_a_list_are_valid_differ_and_get_dearer(name: str) -> None:
    question = PROBLEMS[name]
    found = k_best(question, MODEL, 5, limit_s=20)
    assert len(set(texts(found))) == len(found.schedules)
    assert costs(found) == sorted(costs(found))
    for one in found.schedules:
        assert check_schedule(one, question) == ()
        assert one.lower_bound_ns is not None
        assert one.lower_bound_ns <= costs(found)[0] * (1 + 1e-9)


def test_the_first_of_a_list_is_the_best_schedule() -> None:
    question = gemm(127, 251, 64)
    found, alone = k_best(question, MODEL, 3), schedule(question)
    assert costs(found)[0] == pytest.approx(alone.cost_ns, rel=1e-3)
    assert found.schedules[0].status == "OPTIMAL"
    assert found.schedules[2].status in ("OPTIMAL", "FEASIBLE")


def test_a_list_of_two_statements_combines_the_lists_of_each() -> None:
    one, other = SMALL["gemm"], SMALL["elementwise"]
    both = replace(one, nests=(*one.nests, replace(other.nests[0], statement=1)))
    found = k_best(both, MODEL, 8, limit_s=60)
    sums = sorted(a + b for a, b in product(all_costs(one)[:8], all_costs(other)[:8]))
    assert costs(found) == pytest.approx(sums[:8], rel=1e-3)
    assert found.proven == 8


def test_a_list_ends_where_there_are_no_more_schedules() -> None:
    found = k_best(gemm(1, 1, 1), MODEL, 100)
    assert len(found.schedules) == len(all_costs(gemm(1, 1, 1)))
    assert found.rest_ns == float("inf")


def test_without_time_nothing_is_proven_and_it_is_said() -> None:
    question = conv2d(8, 256, 256, 28, 28, 3, 3)
    found = k_best(question, MODEL, 5, limit_s=0.01)
    assert not found.reproducible
    assert found.proven < len(found.schedules)
    assert check_schedule(found.schedules[0], question) == ()


def test_fixed_decisions_hold_in_the_whole_list() -> None:
    found = k_best(gemm(512, 512, 512), MODEL, 4, fixed={"nest0.block.k": 256})
    assert all(any((x.axis, x.step) == ("k", 256) for x in s.nests[0].loops) for s in found.schedules)
    with pytest.raises(Infeasible):
        k_best(gemm(512, 512, 512), MODEL, 4, fixed={"nest0.unroll.m": 33})


def test_a_list_repeats_itself() -> None:
    question = gemm(100, 200, 300)
    assert k_best(question, MODEL, 6) == k_best(question, MODEL, 6)
