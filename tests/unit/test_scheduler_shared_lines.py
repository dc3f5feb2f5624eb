"""Copies of parts that end in the middle of a line read that line once more, unless it is still near."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import CACHES, MEMORY_BANDWIDTH, gemm_option
from plan_problems import problem as made

from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.levels import copying_shared

# B has rows of 60 lines, 40 parts of 24 columns: each second part begins in the middle of a line.
COLUMNS, PARTS = 960, 40


def gemm(rows: int, pitch_bytes: int = 4 * COLUMNS) -> Problem:
    """Vectors of 8, half a line; so many rows of B."""
    option = gemm_option(64, COLUMNS, rows, 8)
    operands = [with_fields(o, pitch_bytes=pitch_bytes) if o.name == "b" else o for o in option.operands]
    return made(replace(option, operands=tuple(operands)))


def shared_ns(problem: Problem, operand: str = "b", block_n: int = 24, unroll_n: int = 3) -> float:
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    names = {"nest0.unroll.n": unroll_n, "nest0.unroll.m": 8, "nest0.unroll.k": 1}
    names |= {"nest0.stage.a": 0, "nest0.stage.b": 1, "nest0.stage.c": 0}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes} | {"nest0.block.n": block_n}
    names |= {"nest0.order.m.n": 0, "nest0.order.m.k": 0, "nest0.order.n.k": 1, "nest0.sweep.m.n": 0}
    (found,) = [o for o in option.operands if o.name == operand]
    return float(evaluate(copying_shared(tiling, found, problem), names))


def test_parts_that_end_in_a_line_read_it_twice() -> None:
    # 10,000 rows of 96 bytes and their copy are more than l2 has room for when the next part comes.
    assert shared_ns(gemm(10_000)) == pytest.approx(10_000 * PARTS / 2 * 64 / MEMORY_BANDWIDTH)


def test_parts_that_end_with_a_line_share_none() -> None:
    assert shared_ns(gemm(10_000), block_n=48) == 0.0  # two register blocks of a line and a half
    assert shared_ns(gemm(10_000), block_n=32, unroll_n=4) == 0.0
    assert shared_ns(gemm(10_000), block_n=COLUMNS) == 0.0
    # Three register blocks are taken to end where two do.
    assert shared_ns(gemm(10_000), block_n=72) == 0.0


def test_parts_of_half_a_line_share_as_many_as_there_are_parts() -> None:
    # Parts of half a line, of which each second begins in the middle: half a line before each.
    assert shared_ns(gemm(30_000), block_n=8, unroll_n=1) == pytest.approx(
        30_000 * COLUMNS / 8 / 2 * 64 / MEMORY_BANDWIDTH
    )


def with_caches(problem: Problem) -> Problem:
    """Return a last cache of 2 MB, and l2 with ways of 128 KB: 32 rows 4096 bytes apart meet in a set of 8."""
    caches = (CACHES[0], replace(CACHES[1], ways=8), replace(CACHES[2], capacity_bytes=2 << 20))
    return replace(problem, caches=caches)


def test_lines_that_are_still_near_are_read_once() -> None:
    assert shared_ns(with_caches(gemm(1000))) == 0.0


def test_rows_that_evict_each_other_are_not_near() -> None:
    lost_ns = shared_ns(with_caches(gemm(1000, pitch_bytes=4096)))
    assert lost_ns == pytest.approx(1000 * PARTS / 2 * 64 / MEMORY_BANDWIDTH)


def test_what_is_near_and_results_share_nothing() -> None:
    assert shared_ns(gemm(100)) == 0.0  # all tensors lie in l2
    assert shared_ns(gemm(10_000), "c") == 0.0
    lineless = replace(gemm(10_000), caches=tuple(replace(cache, line_bytes=0) for cache in CACHES))
    assert shared_ns(lineless) == 0.0
    assert shared_ns(replace(gemm(10_000), caches=())) == 0.0
