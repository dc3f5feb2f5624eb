"""Where the time of a schedule goes, by the model that priced it."""

from __future__ import annotations

import pytest
from plan_problems import PROBLEMS, gemm

from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.cost import Const, Cost
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.effects.time_parts import FUSED, where_time_goes


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_parts_of_the_analytic_cost_leave_nothing_unexplained(problem: Problem) -> None:
    found = schedule(problem, heuristic="greedy")
    times = where_time_goes(found, problem, AnalyticModel())
    known = [time for time in times if time is not None]
    assert len(known) == len(problem.nests)
    assert sum(time.total_ns for time in known) == pytest.approx(found.cost_ns)
    for time in known:
        assert time.rest_ns == pytest.approx(0.0, abs=1e-6 * time.total_ns)
        assert all(share.ns >= 0 for share in time.shares)


def test_parts_of_one_name_add_up() -> None:
    question = gemm(512, 512, 512)
    (time,) = where_time_goes(schedule(question, heuristic="greedy"), question, AnalyticModel())
    assert time is not None
    own = [share.ns for share in time.shares if share.name == "operand loads"]
    assert len(own) == 2
    assert time.sums()["operand loads"] == pytest.approx(sum(own))
    assert time.sums()["issues"] == pytest.approx(512 * 512 * 512 / 16 * 0.14)


class Flat:
    """A model without parts."""

    name = "flat"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        del problem, nest, option
        return Const(7)


def test_a_model_without_parts_has_a_total_only() -> None:
    question = gemm(64, 64, 64)
    (time,) = where_time_goes(schedule(question, heuristic="greedy"), question, Flat())
    assert time is not None
    assert (time.total_ns, time.shares, time.rest_ns) == (7.0, (), 7.0)


def test_statements_taken_along_have_a_part_of_the_time() -> None:
    sizes = {"M": 64, "N": 64, "K": 64}
    request = Request(source_of("gemm_bias_relu_f32"), "x86-avx512", sizes, heuristic="greedy")
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    assert made.problem is not None
    assert any(nest.fused for nest in made.schedule.nests)
    times = [t for t in where_time_goes(made.schedule, made.problem, AnalyticModel()) if t is not None]
    assert sum(time.total_ns for time in times) == pytest.approx(made.schedule.cost_ns)
    assert sum(time.rest_ns for time in times) == pytest.approx(0, abs=1e-6)
    assert any(FUSED in time.sums() for time in times)
