"""Copies of blocks that do not stay in the near caches go out, and come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm

from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile, usable_bytes
from isamap.scheduler.effects.copying import round_trip_time

PROBLEM = gemm(64, 8192, 8192)
ALL_BYTES = 8192 * 8192 * 4


def moved_ns(columns: int, rows: int, problem: Problem = PROBLEM, home: str = "") -> float:
    """Return what copies of b in blocks of so many rows and columns move beside what copying itself takes."""
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    b = with_fields(next(o for o in option.operands if o.name == "b"), homes=(home,))
    blocks = {"nest0.block.n": columns, "nest0.block.k": rows}
    return float(evaluate(round_trip_time(tiling, b, problem, [], Const(1), usable_bytes), blocks))


def test_a_block_that_stays_in_the_nearest_cache_goes_nowhere() -> None:
    assert usable_bytes(PROBLEM.caches[0]) >= 64 * 128 * 4
    assert moved_ns(64, 128) == 0.0


def test_a_block_of_the_second_cache_goes_there() -> None:
    first, second, _ = PROBLEM.caches
    assert usable_bytes(first) < 64 * 512 * 4 <= usable_bytes(second)
    assert moved_ns(64, 512) == pytest.approx(ALL_BYTES / second.bandwidth_bytes_per_ns)
    assert moved_ns(64, 512, replace(PROBLEM, caches=(second,))) == 0.0


def test_a_block_of_the_third_cache_goes_there_and_comes_back() -> None:
    third = PROBLEM.caches[2]
    assert usable_bytes(PROBLEM.caches[1]) < 1024 * 1024 * 4 <= usable_bytes(third)
    assert moved_ns(1024, 1024) == pytest.approx(2 * ALL_BYTES / third.bandwidth_bytes_per_ns)


def test_a_block_beyond_all_caches_goes_to_memory_and_comes_back() -> None:
    assert usable_bytes(PROBLEM.caches[-1]) < ALL_BYTES
    assert moved_ns(8192, 8192) == pytest.approx(2 * ALL_BYTES / PROBLEM.memory_bandwidth_bytes_per_ns)


def test_a_buffer_in_a_scratchpad_goes_through_no_cache() -> None:
    assert moved_ns(8192, 8192, home="spad") == 0.0


def test_a_machine_without_caches_has_no_such_time() -> None:
    assert moved_ns(8192, 8192, replace(PROBLEM, caches=())) == 0.0


def results_ns(rows: int, columns: int, summed: int, stage_home: str = "") -> float:
    """Return what copies of c in blocks like these move beside what copying itself takes."""
    option = PROBLEM.nests[0].options[0]
    tiling = tile(Space(0, option, dict(PROBLEM.registers), {}))
    c = with_fields(next(o for o in option.operands if o.is_accumulator), homes=(stage_home,))
    made = {"nest0.block.m": rows, "nest0.block.n": columns, "nest0.block.k": summed}
    made |= {"nest0.stage.a": 0, "nest0.stage.b": 0, "nest0.stage.c": 1}
    made |= {"nest0.order.m.n": 0, "nest0.order.m.k": 0, "nest0.order.n.k": 1}
    return float(evaluate(round_trip_time(tiling, c, PROBLEM, [], Const(1), usable_bytes), made))


def test_results_whose_sum_reads_more_than_caches_hold_go_to_memory_and_come_back() -> None:
    # All 64 rows of C are 2 MB, and B, which goes by meanwhile, is 256 MB.
    moved_bytes = 2 * 64 * 8192 * 4
    assert results_ns(64, 8192, 1024) == pytest.approx(moved_bytes / PROBLEM.memory_bandwidth_bytes_per_ns)


def test_results_beside_few_weights_go_to_the_third_cache() -> None:
    # All of A and a panel of B go by while a part of 16 columns is in its buffer.
    touched_bytes = 4 * (64 * 8192 + 8192 * 16 + 64 * 16)
    assert usable_bytes(PROBLEM.caches[1]) < touched_bytes <= usable_bytes(PROBLEM.caches[2])
    third = 2 * 64 * 8192 * 4 / PROBLEM.caches[2].bandwidth_bytes_per_ns
    assert results_ns(64, 16, 1024) == pytest.approx(third)


def test_results_of_register_blocks_that_take_all_of_a_sum_go_nowhere() -> None:
    assert results_ns(64, 8192, 8192) == 0.0


def test_results_in_a_scratchpad_go_through_no_cache() -> None:
    assert results_ns(64, 8192, 1024, stage_home="acc") == 0.0
