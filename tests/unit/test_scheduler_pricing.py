"""Prices of schedules read back from their loops, and annealing beside the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import answer, conv2d, gemm

from isamap.plan.problem import Problem
from isamap.plan.schedule import CountedLoop, Prefetch, Stage
from isamap.plan.steady import Pipeline
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.nests.pricing import price, why_unpriced

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
        nest, loops=(CountedLoop("k", 500), CountedLoop("k", 100), *nest.loops), hold=nest.hold + 2, stages=()
    )
    made = replace(found, nests=(edited,))
    assert price(made, problem, AnalyticModel()) == (None,)
    assert why_unpriced(made, problem) == ("it has 3 loops over `k`, and decisions make two at most",)
    assert why_unpriced(found, problem) == ("",)


def cost_of(problem: Problem, words: str, **stages: int) -> float:
    made = answer(problem, words, tuple(Stage(name, depth) for name, depth in stages.items()))
    (found,) = price(made, problem, AnalyticModel())
    assert found is not None, why_unpriced(made, problem)
    return found


@pytest.mark.parametrize("rows", [1, 5, 8, 13])
def test_blocks_for_more_rows_than_there_are_cost_what_blocks_of_all_rows_do(rows: int) -> None:
    problem = gemm(rows, 512, 512)
    unrolled = "um:1 " if rows > 1 else ""
    expected = cost_of(problem, f"n:256 k:128 m:{rows} n:32 | k:1 {unrolled}un:16")
    assert cost_of(problem, "n:256 k:128 m:14 n:32 | k:1 um:1 un:16") == expected
    assert cost_of(problem, "n:256 k:128 n:32 m:14 | k:1 un:16 um:1") == expected


def test_a_copy_ahead_of_a_loop_that_runs_once_has_no_price() -> None:
    problem = gemm(100, 512, 512)
    made = answer(problem, "k:128 n:512 m:5 n:64 | k:1 um:1 un:16", (Stage("b", 2, ahead=1),))
    assert price(made, problem, AnalyticModel()) == (None,)


def test_a_loop_that_runs_once_around_another_one_costs_nothing() -> None:
    problem = gemm(100, 512, 512)
    expected = cost_of(problem, "k:128 n:256 m:5 n:64 | k:1 um:1 un:16", a=1, b=2)
    assert cost_of(problem, "k:512 m:120 k:128 n:256 m:5 n:64 | k:1 um:1 un:16", a=3, b=4) == expected


@pytest.mark.parametrize("rows", range(2, 8))
def test_the_order_of_unrolled_loops_changes_no_price(rows: int) -> None:
    problem = gemm(64, 64, 64)
    costs = {cost_of(problem, f"m:{rows} n:64 | k:1 {order}") for order in ("um:1 un:16", "un:16 um:1")}
    assert len(costs) == 1


@pytest.mark.parametrize(
    ("words", "stages", "reason"),
    [
        (
            "m:24 n:64 m:12 m:6 | k:1 um:1 un:16",
            (),
            "it has 3 loops over `m`, and decisions make two at most",
        ),
        ("m:6 n:64 | k:1 um:1 un:16", (Stage("b", 1),), "`b`: decisions stage elsewhere, or not in this way"),
        (
            "m:6 n:64 | k:1 um:1 un:16",
            (Stage("a", 1, 2),),
            "`a`: decisions stage elsewhere, or not in this way",
        ),
        (
            "m:6 n:64 | k:2 um:1 un:16 uk:1",
            (),
            "where it has `unroll m by 1`, decisions lead to `unroll k by 1`",
        ),
    ],
)
def test_what_has_no_price_has_a_reason(words: str, stages: tuple[Stage, ...], reason: str) -> None:
    problem = gemm(64, 64, 64)
    made = answer(problem, words, stages)
    assert price(made, problem, AnalyticModel()) == (None,)
    assert why_unpriced(made, problem) == (reason,)


def test_hints_and_the_order_of_the_innermost_loop_cost_nothing_but_copies_do() -> None:
    problem = gemm(1000, 1000, 1000)
    found = schedule(problem, heuristic="greedy")
    nest = found.nests[0]
    ordered = replace(nest, prefetches=(Prefetch("a", nest.hold, 1, "l2"),), pipeline=Pipeline(9, (0, 1)))
    assert price(replace(found, nests=(ordered,)), problem, AnalyticModel()) == (found.cost_ns,)
    early = replace(nest, stages=(Stage("b", nest.hold, ahead=1),))
    assert price(replace(found, nests=(early,)), problem, AnalyticModel()) == (None,)


@pytest.mark.exhaustive(fast=1)
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
    assert CountedLoop("k", 256) in found.nests[0].loops
