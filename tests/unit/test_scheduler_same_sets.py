"""Pieces of rows that evict each other: what they take at least, and what of their lines shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm_option, problem
from properties.sampled_prices import of_blocks, sampled_prices

from isamap.machine.timings import RowTimes
from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem
from isamap.scheduler.effects.row_pieces import if_kept, pieces_at_least

K, M = 64, 64


def gemm(n: int = 1024, vector: int = 16, ways: int = 8, **figures: float) -> Problem:
    """64 rows of B, in a cache of 32 KB: those of 1024 columns all begin in one set."""
    made = problem(gemm_option(M, n, K, vector))
    near, second, *others = made.caches
    second = replace(second, rows=replace(RowTimes(crowded_piece_ns=2.0), **figures))
    return replace(made, caches=(replace(near, capacity_bytes=32 << 10, ways=ways), second, *others))


def least_ns(made: Problem, **changes: int) -> float:
    tiling, names = of_blocks(made, **changes)
    return float(evaluate(pieces_at_least(tiling, made), names))


def shown(made: Problem, **changes: int) -> float:
    tiling, names = of_blocks(made, **changes)
    b = next(operand for operand in tiling.space.option.operands if operand.name == "b")
    return float(evaluate(if_kept(tiling, b, made, Const(1.0), Const(5.0)), names))


def test_each_piece_of_a_register_block_takes_as_long() -> None:
    assert least_ns(gemm()) == pytest.approx(2.0 * K * (1024 / 64) * (M / 4))
    assert least_ns(gemm(), unroll_n=2) == pytest.approx(2 * least_ns(gemm()))
    assert least_ns(gemm(), unroll_m=2) == pytest.approx(2 * least_ns(gemm()))
    assert least_ns(gemm(), block_k=16) == pytest.approx(least_ns(gemm()))


def test_rows_that_begin_in_two_sets_in_turn_take_half() -> None:
    assert least_ns(gemm(512)) == pytest.approx(2.0 / 2 * K * (512 / 64) * (M / 4))


def test_as_many_rows_as_a_set_holds_are_there_again() -> None:
    assert least_ns(gemm(), block_k=8) == 0.0
    assert least_ns(gemm(), block_k=9) > 0.0
    assert least_ns(gemm(1040)) == 0.0
    assert least_ns(gemm(ways=64)) == 0.0


def test_copies_and_machines_that_say_nothing_take_nothing() -> None:
    assert least_ns(gemm(), stage_b=1) == 0.0
    assert least_ns(gemm(crowded_piece_ns=0.0)) == 0.0


def test_the_rest_of_a_line_is_lost_where_so_many_rows_evict_each_other() -> None:
    assert shown(gemm(), unroll_n=1) == 1.0, "pieces of one line"
    assert shown(gemm(vector=4), unroll_n=4) == 1.0, "the same of shorter vectors"
    assert shown(gemm(vector=4), unroll_n=3) == 5.0
    assert shown(gemm(vector=4), unroll_n=3, block_k=8) == 1.0
    assert shown(gemm(1040, vector=4), unroll_n=3) == 1.0


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("vector", [4, 16])
def test_the_price_is_what_the_loops_say(vector: int) -> None:
    made = gemm(vector=vector, computing_factor=1.0, traffic_factor=0.25)
    priced = sampled_prices(made)
    assert all(tree <= price * (1 + 1e-9) for tree, price in priced)
    # Where the model rounds, it does upwards, which is rare.
    assert sum(tree == pytest.approx(price) for tree, price in priced) >= 99
