"""Pieces of results are begun each time that register blocks take them out of far caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import CACHES, MEMORY_ROWS, gemm_option
from plan_problems import problem as made

from isamap.machine.timings import RowTimes
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.results import results_begun
from isamap.scheduler.effects.time_parts import where_time_goes

# Of each of 4096 rows of C, 64 pieces of four vectors; l2 and l3 begin what memory takes in parts.
SIZE, PIECES = 4096, 4096 // 64
ALL_NS = MEMORY_ROWS.start_ns * SIZE * PIECES


def gemm(size: int) -> Problem:
    """Return a product whose results lie row by row."""
    option = gemm_option(size, size, size)
    operands = [
        with_fields(o, dense_axis="n", pitch_bytes=4 * size) if o.is_accumulator else o
        for o in option.operands
    ]
    return made(replace(option, operands=tuple(operands)))


def begun_ns(problem: Problem, stage: int = 0, **decided: int) -> float:
    """Return the time to begin pieces of c that are four vectors wide."""
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    c = next(o for o in option.operands if o.is_accumulator)
    names = {"nest0.unroll.n": 4, "nest0.unroll.m": 4, "nest0.stage.c": stage}
    names |= {"nest0.stage.a": 0, "nest0.stage.b": 0}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    names |= {"nest0.order.m.n": 0, "nest0.order.m.k": 0, "nest0.order.n.k": 0, "nest0.sweep.m.n": 0}
    names |= {f"nest0.{name.replace('_', '.')}": value for name, value in decided.items()}
    return float(evaluate(results_begun(tiling, c, problem), names))


def followed(count: int, problem: Problem) -> Problem:
    """Return the problem where so many rows of every memory are followed from piece to piece."""
    caches = tuple(replace(c, rows=replace(c.rows, swept_count=count)) for c in problem.caches)
    return replace(problem, caches=caches, memory_rows=replace(problem.memory_rows, swept_count=count))


def test_each_register_block_begins_pieces_of_results_out_of_memory() -> None:
    assert begun_ns(gemm(SIZE)) == pytest.approx(ALL_NS)


def test_results_come_back_for_each_block_of_the_sum_that_no_cache_holds_them_for() -> None:
    # The loop over k stands around all of C, 64 MB of it: every block of the sum brings it again.
    assert begun_ns(gemm(SIZE), block_k=1024) == pytest.approx(4 * ALL_NS)


def test_results_that_a_near_cache_holds_come_from_afar_once() -> None:
    # 32 rows by 64 columns stay in the first cache while the sum's blocks go by.
    near = begun_ns(gemm(SIZE), block_m=32, block_n=64, block_k=32, order_m_k=1, order_n_k=1)
    assert near == pytest.approx(ALL_NS)


def test_rows_of_results_that_are_followed_are_begun_once() -> None:
    # With the loop over columns inside, four rows go on with their next pieces.
    problem = followed(4, gemm(SIZE))
    assert begun_ns(problem, sweep_m_n=1) == pytest.approx(MEMORY_ROWS.start_ns * SIZE)
    assert begun_ns(problem, sweep_m_n=0) == pytest.approx(ALL_NS)
    assert begun_ns(followed(3, problem), sweep_m_n=1) == pytest.approx(ALL_NS)


def test_results_that_are_staged_are_begun_once_for_each_part() -> None:
    blocks = {"block_m": 512, "block_n": 512, "block_k": 1024, "order_m_n": 1, "order_m_k": 1}
    all_rows = MEMORY_ROWS.start_ns * SIZE
    assert begun_ns(gemm(SIZE), stage=1, **blocks, order_n_k=1) == pytest.approx(all_rows * SIZE / 512)
    # The loop over k stands around that over n, and so does the copy: rows are copied to their ends.
    assert begun_ns(gemm(SIZE), stage=1, **blocks, order_n_k=0) == pytest.approx(all_rows)
    # Without a loop over k each register block has its own copy.
    blocks["block_k"] = SIZE
    assert begun_ns(gemm(SIZE), stage=1, **blocks, order_n_k=1) == pytest.approx(ALL_NS)


def late_ns(problem: Problem, stage: int = 0, start_bytes: int = 0, **decided: int) -> float:
    """Return what is added where lines out of memory are 3 ns late; pieces of `start_bytes` were measured."""
    rows = replace(problem.memory_rows, swept_ns=3.0, start_bytes=start_bytes)
    late = replace(problem, memory_rows=rows)
    return begun_ns(late, stage, **decided) - begun_ns(problem, stage, **decided)


LINES_NS = 3.0 * SIZE * SIZE * 4 / 64


def test_lines_of_results_are_late_though_their_rows_are_followed() -> None:
    problem = followed(4, gemm(SIZE))
    assert late_ns(problem, sweep_m_n=1) == pytest.approx(LINES_NS)
    assert late_ns(problem, sweep_m_n=1, start_bytes=128) == pytest.approx(LINES_NS / 2)
    # Results come back for each of four blocks of the sum.
    assert late_ns(problem, block_k=1024) == pytest.approx(4 * LINES_NS)
    lineless = replace(problem, caches=tuple(replace(cache, line_bytes=0) for cache in problem.caches))
    assert late_ns(lineless) == 0.0
    assert late_ns(replace(problem, caches=())) == 0.0


def narrow(tile: int) -> Problem:
    """Return the product with vectors of so many columns."""
    problem = gemm(SIZE)
    option = problem.nests[0].options[0]
    axes = tuple(replace(axis, tile=tile) if axis.name == "n" else axis for axis in option.axes)
    nest = replace(problem.nests[0], options=(replace(option, axes=axes),))
    return replace(problem, nests=(nest,))


def test_lines_that_two_pieces_share_are_late_twice() -> None:
    pieces = -(-SIZE // 24)  # of 96 bytes, each second one from the middle of a line
    assert late_ns(narrow(8), unroll_n=3) == pytest.approx(LINES_NS + 3.0 * SIZE * pieces / 2)


# Sixteen rows at a time, along all of them before the next: little is touched between.
NEAR = {"unroll_m": 16, "block_m": 16, "order_m_n": 1, "sweep_m_n": 1}


def test_a_line_that_is_near_for_the_next_piece_is_late_once() -> None:
    few = {
        "block_k": 64,
        "order_m_k": 0,
        "order_n_k": 0,
    }  # in blocks of the sum, so that a near cache has room
    far = {**few, "order_m_n": 0, "sweep_m_n": 0, "unroll_n": 3}
    pieces = -(-SIZE // 24)
    near_ns = late_ns(narrow(8), **NEAR | few, unroll_n=3)
    assert near_ns == pytest.approx(64 * (LINES_NS + 3.0 * SIZE / 2))
    assert late_ns(narrow(8), **far) == pytest.approx(64 * (LINES_NS + 3.0 * SIZE * pieces / 2))


def test_pieces_shorter_than_a_line_begin_no_more_often_than_lines() -> None:
    few = {"block_k": 64, "order_m_k": 0, "order_n_k": 0, "unroll_n": 1}
    far = {**few, "order_m_n": 0, "sweep_m_n": 0}
    lines, pieces = SIZE * 4 // 64, SIZE // 2
    assert begun_ns(narrow(2), **NEAR | few) == pytest.approx(64 * MEMORY_ROWS.start_ns * SIZE * lines)
    assert begun_ns(narrow(2), **far) == pytest.approx(64 * MEMORY_ROWS.start_ns * SIZE * pieces)


def test_copies_of_register_blocks_are_as_late_as_what_they_copy() -> None:
    assert late_ns(gemm(SIZE), stage=1) == pytest.approx(LINES_NS)
    assert late_ns(gemm(SIZE), stage=1, block_k=1024, order_m_k=1, order_n_k=1) == 0.0


def test_results_in_the_nearest_cache_cost_nothing_to_begin() -> None:
    assert begun_ns(gemm(32)) == 0.0


def test_what_memory_takes_no_longer_than_a_cache_is_not_paid_twice() -> None:
    last = replace(CACHES[2], rows=RowTimes(start_ns=MEMORY_ROWS.start_ns))
    problem = replace(gemm(SIZE), caches=(*CACHES[:2], last))
    assert begun_ns(problem) == pytest.approx(ALL_NS)


def test_where_the_time_goes_names_results() -> None:
    problem = gemm(1024)
    (time,) = where_time_goes(schedule(problem, heuristic="greedy"), problem, AnalyticModel())
    assert time is not None
    assert [share.operand for share in time.shares if share.name == "results" and share.ns > 0] == ["c"]
