"""Pieces of rows that are read where results were just stored, and pieces that are used again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from plan_problems import gemm
from properties.sampled_prices import of_blocks, sampled_prices

from isamap.machine.timings import RowTimes
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.effects.store_conflict_misses import store_conflict_ns

IN_PLACE = {"stage_a": 0, "stage_b": 0, "stage_c": 0}


def crowding(n: int = 1024, **figures: Any) -> Problem:
    """64 rows of C, in sets of eight ways of 4 KB; rows of B and C lie 4 n bytes apart."""
    made = gemm(64, n, 64)
    (option,) = made.nests[0].options
    a, b, c = option.operands
    option = replace(option, operands=(a, b, with_fields(c, dense_axis="n", pitch_bytes=4 * n)))
    rows = replace(RowTimes(crowded_ns=30.0), **figures)
    near, second, *others = made.caches
    caches = (replace(near, capacity_bytes=32 << 10, ways=8), replace(second, rows=rows), *others)
    return replace(made, caches=caches, nests=(replace(made.nests[0], options=(option,)),))


def waits_ns(problem: Problem, **decided: int) -> float:
    """Of register blocks of 4 x 64 whose rows change first, but for what is decided."""
    tiling, names = of_blocks(problem, **decided)
    return float(evaluate(store_conflict_ns(tiling, problem), names))


def test_each_register_block_waits_whose_rows_change_first() -> None:
    assert waits_ns(crowding()) == pytest.approx(30.0 * (64 / 4) * (1024 / 64))
    assert waits_ns(crowding(), block_k=16) == pytest.approx(4 * waits_ns(crowding()))
    assert waits_ns(crowding(), sweep_m_n=1) == 0.0


def test_as_many_rows_as_a_set_has_ways_wait_for_nothing() -> None:
    assert waits_ns(crowding(), block_m=8) == 0.0
    assert waits_ns(crowding(), block_m=12) > 0.0


def test_blocks_of_one_register_block_of_columns_are_no_way_around() -> None:
    assert waits_ns(crowding(), block_n=64, sweep_m_n=1) == pytest.approx(waits_ns(crowding()))


def test_rows_that_begin_in_sets_of_their_own_and_copies_wait_for_nothing() -> None:
    assert waits_ns(crowding(1040)) == 0.0
    assert waits_ns(crowding(), stage_b=1) == 0.0
    assert waits_ns(crowding(crowded_ns=0.0)) == 0.0


def test_what_is_read_off_the_loops_costs_no_more() -> None:
    priced = sampled_prices(crowding(computing_factor=1.0))
    assert all(tree <= price * (1 + 1e-9) for tree, price in priced)
    assert any(tree == pytest.approx(price) for tree, price in priced)


def test_pieces_out_of_the_second_cache_show_beside_computing() -> None:
    """B of 256 KB, read anew out of l2 for each four rows: with the factor, its traffic comes on top."""
    hidden, shown = crowding(crowded_ns=0.0), crowding(crowded_ns=0.0, computing_factor=1.0)
    (option,) = hidden.nests[0].options
    made = {"nest0.unroll.n": 4, "nest0.unroll.m": 4, "nest0.unroll.k": 1}
    made |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    space = Space(0, option, dict(hidden.registers), {})
    made |= {name: 1 for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())}
    made |= {f"nest0.{name.replace('_', '.')}": value for name, value in IN_PLACE.items()}
    made |= {name: made.get(name, 0) for name in space.names()}
    prices = [
        float(evaluate(AnalyticModel().expression(problem, problem.nests[0], option), made))
        for problem in (hidden, shown)
    ]
    assert prices[1] > prices[0]
