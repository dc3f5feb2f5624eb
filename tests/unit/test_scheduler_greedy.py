"""The heuristic: complete and valid at once, and not far from what is proven."""

from __future__ import annotations

import pytest
from plan_problems import PROBLEMS, gemm, tiled_gemm

from isamap.plan.check import check_schedule, live_registers
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel, Greedy, schedule


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
    found = Greedy(AnalyticModel()).schedule(problem, 1.0)
    assert check_schedule(found, problem) == ()


def test_a_vector_gemm_fills_its_registers_and_hides_its_latency() -> None:
    problem = gemm(1024, 1024, 1024)
    nest = schedule(problem, heuristic="greedy").nests[0]
    assert 24 <= live_registers(nest, problem.nests[0].options[0])["zmm"] <= 32
    assert [stage.operand for stage in nest.stages] == ["b"]


def test_tiles_are_blocked_two_by_two_and_their_sums_stay_inside() -> None:
    problem = tiled_gemm(1024, 1024, 1024)
    nest = schedule(problem, heuristic="greedy").nests[0]
    steps = {loop.axis: loop.step for loop in nest.loops if loop.kind == "for"}
    assert {axis: steps[axis] for axis in "mn"} == {"m": 32, "n": 32}
    assert "b" in [stage.operand for stage in nest.stages]
