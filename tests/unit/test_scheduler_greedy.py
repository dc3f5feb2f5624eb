"""The heuristic: complete and valid at once, and not far from what is proven."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import pytest
from plan_problems import PROBLEMS, gemm, tiled_gemm

from isamap.plan.check import check_schedule, live_registers
from isamap.plan.problem import Cache, Problem, with_fields
from isamap.scheduler import AnalyticModel, Greedy, schedule
from isamap.scheduler.deciding.tiling import rows_held


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_greedy_always_has_a_valid_schedule(problem: Problem) -> None:
    found = schedule(problem, heuristic="greedy")
    assert check_schedule(found, problem) == ()
    assert found.status == "HEURISTIC"
    assert found.cost_ns is not None
    assert found.lower_bound_ns is not None
    assert 0 < found.lower_bound_ns <= found.cost_ns


def test_greedy_is_a_plug_in_like_any_other() -> None:
    problem = gemm(64, 64, 64)
    found = Greedy().schedule(problem, AnalyticModel(), limit_s=1.0, fixed={})
    assert check_schedule(found, problem) == ()


def test_a_vector_gemm_fills_its_registers_and_hides_its_latency() -> None:
    problem = gemm(1024, 1024, 1024)
    nest = schedule(problem, heuristic="greedy").nests[0]
    assert 24 <= live_registers(nest, problem.nests[0].options[0])["zmm"] <= 32
    assert [stage.operand for stage in nest.stages] == ["b"]


def test_tiles_are_blocked_two_by_two_and_their_sums_stay_inside() -> None:
    problem = tiled_gemm(1024, 1024, 1024)
    nest = schedule(problem, heuristic="greedy").nests[0]
    steps = {loop.axis: loop.step for loop in nest.loops if loop.counts}
    assert {axis: steps[axis] for axis in "mn"} == {"m": 32, "n": 32}
    assert "b" in [stage.operand for stage in nest.stages]


@pytest.mark.parametrize(
    ("pitch_bytes", "rows"), [(4096, 12), (8192, 12), (2048, 24), (4160, 12 * 64), (0, 0)]
)
def test_a_cache_holds_few_rows_whose_distance_is_that_of_its_ways(pitch_bytes: int, rows: int) -> None:
    operand = with_fields(gemm(64, 64, 64).nests[0].options[0].operands[1], pitch_bytes=pitch_bytes)
    assert rows_held(operand, Cache("l1", 48 << 10, 400.0, 12)) == rows
    assert rows_held(operand, Cache("l1", 48 << 10, 400.0)) == 0


@pytest.mark.parametrize(
    ("pitch_bytes", "rows"), [(20496, 12), (20464, 12), (10248, 24), (20512, 12 * 128), (4096, 12)]
)
def test_rows_that_drift_by_less_than_a_piece_evict_each_other_like_those_that_do_not(
    pitch_bytes: int, rows: int
) -> None:
    """A way holds 4096 bytes: 20496 are five of them and 16, of 21 that pieces of four lines may drift."""
    operand = with_fields(gemm(64, 64, 64).nests[0].options[0].operands[1], pitch_bytes=pitch_bytes)
    assert rows_held(operand, Cache("l1", 48 << 10, 400.0, 12, line_bytes=64)) == rows
    exact = Cache("l1", 48 << 10, 400.0, 12)
    assert rows_held(operand, exact) == 12 * 4096 // gcd(pitch_bytes, 4096)


def test_rows_that_evict_each_other_cost_more_in_place() -> None:
    fixed = {"nest0.stage.b": 0, "nest0.block.k": 32, "nest0.unroll.m": 5, "nest0.unroll.n": 5}
    costs = [cost(with_ways(gemm(960, n, 1024)), fixed) for n in (1024, 1040)]
    unknown = [cost(gemm(960, n, 1024), fixed) for n in (1024, 1040)]
    assert costs[0] > unknown[0]
    assert costs[1] == unknown[1]


def with_ways(problem: Problem) -> Problem:
    """Return the problem on caches that have sets."""
    ways = {"l1": 12, "l2": 16, "l3": 16}
    return replace(problem, caches=tuple(replace(cache, ways=ways[cache.name]) for cache in problem.caches))


def cost(problem: Problem, fixed: dict[str, int]) -> float:
    found = schedule(problem, heuristic="greedy", fixed=fixed).cost_ns
    assert found is not None
    return found
