"""Copies of blocks that do not stay in the near caches go out, and come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm

from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem
from isamap.scheduler.outgoing import out_and_back
from isamap.scheduler.space import Space
from isamap.scheduler.tiling import tile, usable_bytes

PROBLEM = gemm(64, 8192, 8192)
ALL_BYTES = 8192 * 8192 * 4


def moved_ns(columns: int, rows: int, problem: Problem = PROBLEM, home: str = "") -> float:
    """What copies of b in blocks of so many rows and columns move beside what copying itself takes."""
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    b = replace(next(o for o in option.operands if o.name == "b"), homes=(home,))
    blocks = {"nest0.block.n": columns, "nest0.block.k": rows}
    return float(evaluate(out_and_back(tiling, b, problem, [], usable_bytes), blocks))


def test_a_block_that_stays_in_the_second_cache_goes_nowhere() -> None:
    assert usable_bytes(PROBLEM.caches[1]) >= 64 * 512 * 4
    assert moved_ns(64, 512) == 0.0


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
