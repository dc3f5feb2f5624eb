"""Prices of schedules read back from their loops, and annealing beside the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import conv2d, gemm

from isamap.plan.problem import Problem
from isamap.plan.schedule import LoopStep, Prefetch, Stage
from isamap.plan.steady import Pipeline
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.pricing import price

PROBLEMS = (gemm(64, 64, 64), gemm(1000, 1000, 1000), gemm(35, 700, 2048), conv2d(2, 32, 16, 14, 14, 3, 3))


@pytest.mark.parametrize("problem", PROBLEMS, ids=["small", "large", "odd", "convolution"])
@pytest.mark.parametrize("heuristic", ["greedy", "annealing"])
def test_a_schedule_costs_what_its_finder_said(problem: Problem, heuristic: str) -> None:
    found = schedule(problem, heuristic=heuristic, limit_s=20.0)
    assert sum(p or 0.0 for p in price(found, problem, AnalyticModel())) == found.cost_ns


def test_a_loop_more_than_decisions_can_say_has_no_price() -> None:
    problem = gemm(1000, 1000, 1000)
    found = schedule(problem, heuristic="greedy")
    nest = found.nests[0]
    edited = replace(
        nest, loops=(LoopStep("k", 500), LoopStep("k", 100), *nest.loops), hold=nest.hold + 2, stages=()
    )
    assert price(replace(found, nests=(edited,)), problem, AnalyticModel()) == (None,)


def test_hints_and_the_order_of_the_innermost_loop_cost_nothing_but_copies_do() -> None:
    problem = gemm(1000, 1000, 1000)
    found = schedule(problem, heuristic="greedy")
    nest = found.nests[0]
    ordered = replace(nest, prefetches=(Prefetch("a", nest.hold, 1, "l2"),), pipeline=Pipeline(9, (0, 1)))
    assert price(replace(found, nests=(ordered,)), problem, AnalyticModel()) == (found.cost_ns,)
    early = replace(nest, stages=(Stage("b", nest.hold, ahead=1),))
    assert price(replace(found, nests=(early,)), problem, AnalyticModel()) == (None,)


@pytest.mark.parametrize("problem", PROBLEMS, ids=["small", "large", "odd", "convolution"])
def test_annealing_is_never_worse_than_greedy_nor_better_than_the_bound(problem: Problem) -> None:
    cooled = schedule(problem, heuristic="annealing", limit_s=20.0)
    greedy = schedule(problem, heuristic="greedy")
    assert cooled.cost_ns is not None
    assert greedy.cost_ns is not None
    assert cooled.lower_bound_ns is not None
    assert cooled.lower_bound_ns <= cooled.cost_ns <= greedy.cost_ns
    assert cooled == schedule(problem, heuristic="annealing", limit_s=20.0)


def test_annealing_keeps_what_is_fixed() -> None:
    fixed = {"nest0.block.k": 256}
    found = schedule(PROBLEMS[1], heuristic="annealing", fixed=fixed, limit_s=20.0)
    assert LoopStep("k", 256) in found.nests[0].loops
