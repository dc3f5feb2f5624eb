"""Rows read in place along a sum: coming back to them costs, out of caches farther than the second."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import CACHES, conv2d, gemm
from properties.tree_price import tree_ns

from isamap.machine.timings import RowTimes
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.residence import revisits
from isamap.scheduler.effects.time_parts import where_time_goes

LARGE = gemm(4096, 1024, 1024)


def again_ns(problem: Problem, operand: str = "a", **decided: int) -> float:
    """Return the time to come back to rows, in register blocks of 4 x 64 of which all of n but what is decided are
    inside of those over m.
    """
    option = problem.nests[0].options[0]
    space = Space(0, option, dict(problem.registers), {})
    read = next(o for o in option.operands if o.name == operand)
    names = {"nest0.unroll.n": 4, "nest0.unroll.m": 4, "nest0.stage.a": 0, "nest0.stage.b": 1}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    names |= {name: 1 for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())}
    names |= {f"nest0.{name.replace('_', '.')}": value for name, value in decided.items()}
    return float(evaluate(revisits(tile(space), read, problem), names))


def test_each_block_of_columns_around_all_rows_begins_them_again() -> None:
    wide = again_ns(LARGE, block_n=256, order_m_n=0)
    assert wide == pytest.approx(CACHES[2].rows.again_ns * 4096 * 4)
    assert again_ns(LARGE, block_n=128, order_m_n=0) == pytest.approx(2 * wide)


def test_rows_that_stay_near_while_columns_pass_are_begun_once() -> None:
    assert again_ns(LARGE, block_m=64, block_n=64, order_m_n=1) == 0.0


def test_each_piece_of_a_row_is_begun_after_more_rows_than_are_followed() -> None:
    """for n by 256 { for m by 64 { for k by 512 { … } } }: 64 rows lie between the two pieces of each."""
    whole = again_ns(LARGE, block_n=256, order_m_n=0)

    def in_two(problem: Problem) -> float:
        return again_ns(problem, block_n=256, order_m_n=0, block_k=512, block_m=64)

    def followed(count: int) -> Problem:
        rows = replace(CACHES[2].rows, swept_count=count)
        return replace(LARGE, caches=(*CACHES[:2], replace(CACHES[2], rows=rows)))

    assert in_two(LARGE) == pytest.approx(2 * whole)
    assert in_two(followed(63)) == pytest.approx(2 * whole)
    assert in_two(followed(64)) == pytest.approx(whole)


def test_rows_that_are_read_once_are_begun_again_for_each_block_of_their_sum() -> None:
    assert again_ns(LARGE, order_m_n=0) == 0.0
    in_two = again_ns(LARGE, order_m_n=0, block_k=512, order_m_k=0)
    assert in_two == pytest.approx(2 * CACHES[2].rows.again_ns * 4096)


def test_copies_and_what_lies_across_the_sum_cost_nothing_here() -> None:
    assert again_ns(LARGE, block_n=256, order_m_n=0, stage_a=1) == 0.0
    assert again_ns(LARGE, operand="b", block_n=256, order_m_n=0, stage_b=0) == 0.0
    assert again_ns(conv2d(1, 64, 64, 56, 56, 3, 3)) == 0.0


def test_what_fits_the_near_cache_is_never_far() -> None:
    large = replace(LARGE, caches=(CACHES[0], replace(CACHES[1], capacity_bytes=1 << 30), CACHES[2]))
    assert again_ns(large, block_n=256, order_m_n=0) == 0.0


def test_rows_come_back_at_once_where_no_link_says_otherwise() -> None:
    assert again_ns(replace(LARGE, caches=CACHES[:1]), block_n=256, order_m_n=0) == 0.0
    two = replace(LARGE, caches=CACHES[:2], memory_rows=RowTimes(again_ns=5.0))
    assert again_ns(two, block_n=256, order_m_n=0) == pytest.approx(5.0 * 4096 * 4)


def test_what_is_charged_is_what_the_loops_say() -> None:
    problem = gemm(4096, 1024, 2048)
    found = schedule(problem, heuristic="greedy")
    (time,) = where_time_goes(found, problem, AnalyticModel())
    assert time is not None
    assert sum(share.ns for share in time.shares if share.name == "revisits") > 0.0
    assert tree_ns(problem, problem.nests[0].options[0], found.nests[0]) == pytest.approx(found.cost_ns)
