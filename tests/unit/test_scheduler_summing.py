"""Unrolling the innermost summing loop, and what register blocks cost by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import LOOPS, conv2d, gemm, gemv, opened, tiled_gemm

from isamap.plan.check import check_schedule
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel, k_best, schedule
from isamap.scheduler.deciding.space import MAX_UNROLLED, Space
from isamap.scheduler.deciding.summing import sum_factors
from isamap.scheduler.deciding.sums import summed_axis
from isamap.scheduler.effects.register_blocks import block_sums, loops_ns
from isamap.scheduler.nests.pricing import price

MODEL = AnalyticModel()


def space(question: Problem) -> Space:
    return Space(0, question.nests[0].options[0], dict(question.registers), {})


def test_a_body_has_room_for_so_many_copies_of_a_register_block() -> None:
    own = space(gemm(64, 64, 64))
    found = {
        block: sum_factors(own, dict(zip("mn", block, strict=True))) for block in ((1, 1), (5, 5), (9, 4))
    }
    assert found == {(1, 1): (1, 2, 4), (5, 5): (1, 2), (9, 4): (1,)}
    assert all(5 * 5 * factor <= MAX_UNROLLED for factor in found[5, 5])


def test_a_sum_of_three_issues_is_not_unrolled_by_four() -> None:
    assert sum_factors(space(gemm(64, 64, 3)), {"m": 1, "n": 1}) == (1, 2)


def test_only_the_innermost_sum_is_unrolled_and_only_where_every_input_follows_it() -> None:
    (option,) = conv2d(1, 64, 32, 8, 8, 3, 3).nests[0].options
    axis = summed_axis(option)
    assert axis is not None
    assert axis.name == "s"
    a, b, c = gemm(64, 64, 64).nests[0].options[0].operands
    fewer = replace(gemm(64, 64, 64).nests[0].options[0], operands=(replace(a, axes=("m",)), b, c))
    assert summed_axis(fewer) is None


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
@pytest.mark.parametrize("question", [gemm(7, 48, 101), tiled_gemm(64, 64, 8 * 32), gemv(64, 30)])
def test_the_price_of_an_unrolled_sum_can_be_read_off_its_loops(question: Problem, factor: int) -> None:
    found = schedule(question, fixed={"unroll.k": factor})
    assert check_schedule(found, question) == ()
    unrolled = [loop for loop in found.nests[0].loops if loop.axis == "k" and loop.is_unrolled]
    assert len(unrolled) == (factor > 1)
    assert price(found, question, MODEL) == (found.cost_ns,)


@pytest.mark.parametrize("question", [gemm(7, 48, 101), tiled_gemm(64, 64, 8 * 32), gemv(64, 30)])
def test_leaving_sums_to_the_solver_is_never_worse_than_not_unrolling_them(question: Problem) -> None:
    axis = summed_axis(question.nests[0].options[0])
    plain = schedule(question, fixed={f"nest0.unroll.{axis.name}": 1} if axis else {})
    found = schedule(question)
    assert found.cost_ns is not None
    assert plain.cost_ns is not None
    assert found.cost_ns <= plain.cost_ns * (1 + 1e-6)


def test_a_short_body_is_unrolled_and_a_long_one_is_not() -> None:
    def steps(m: int, n: int) -> list[int]:
        found = schedule(gemm(m, n, 1024), limit_s=20)
        return [loop.step for loop in found.nests[0].loops if loop.axis == "k"]

    assert steps(1, 32)[-2:] == [4, 1]
    assert steps(240, 256)[-1:] == [1]


def test_best_schedules_differ_in_how_a_sum_is_unrolled() -> None:
    found = k_best(gemm(2, 32, 64), MODEL, 6).schedules
    factors = {any(x.is_unrolled and x.axis == "k" for x in s.nests[0].loops) for s in found}
    assert factors == {True, False}


# --- what blocks cost -------------------------------------------------------------------------------------


def blocks_ns(question: Problem, m: int, n: int) -> float:
    made = {"nest0.unroll.m": m, "nest0.unroll.n": n, "nest0.stage.a": 1, "nest0.stage.b": 1}
    return float(evaluate(block_sums(space(question), LOOPS), made))


def test_loads_of_a_block_at_the_end_of_an_axis_do_not_hide_in_other_blocks() -> None:
    whole, cut = gemm(90, 9 * 48, 100), gemm(90, 9 * 48 + 16, 100)
    per_sum = 0.14 * 100 * 90
    assert blocks_ns(whole, 9, 3) == pytest.approx(27 * per_sum)
    # Ten blocks of 9 x 1: nine sums, but ten loads.
    assert blocks_ns(cut, 9, 3) == pytest.approx(27 * per_sum + 10 * 100 * 10 * 0.14)


def test_chains_of_a_block_at_the_end_of_an_axis_do_not_hide_in_other_blocks() -> None:
    assert blocks_ns(gemm(9, 16, 50), 8, 1) == pytest.approx(50 * (9 * 0.14 + 1.1))


def test_rows_that_are_read_in_place_have_addresses_where_only_the_run_knows_their_distance() -> None:
    made = {"nest0.unroll.m": 9, "nest0.unroll.n": 1, "nest0.stage.a": 0, "nest0.stage.b": 1}

    def found(asked: Problem) -> float:
        return float(evaluate(block_sums(space(asked), LOOPS), made))

    known = gemm(9, 16, 100)
    assert found(known) == pytest.approx(100 * 10 * 0.14)
    assert found(opened(known, "m")) == found(known)
    assert found(opened(known, "k")) == pytest.approx(100 * (10 * 0.14 + 9 * LOOPS.address_ns))


def test_unrolling_saves_turns_and_costs_copies() -> None:
    cost = loops_ns(space(gemm(64, 64, 100)), LOOPS)

    def ns(block: int, factor: int) -> float:
        made = {"nest0.unroll.m": block, "nest0.unroll.n": 1, "nest0.unroll.k": factor}
        return float(evaluate(cost, made))

    assert ns(1, 4) < ns(1, 2) < ns(1, 1)
    assert ns(16, 1) < ns(16, 2)
