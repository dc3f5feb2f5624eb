"""On random problems for several threads: parts pass the judge, nothing is cheaper, prices are read back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_problems import gemm
from properties.test_schedules import every_assignment, problems

from isamap.plan.check import check_schedule
from isamap.plan.cost import evaluate
from isamap.plan.problem import NestProblem, Problem
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.partitioning import part_options
from isamap.scheduler.nests.pricing import price
from isamap.scheduler.search.candidates import candidate_of, open_options
from isamap.source import Infeasible

FEW = max(30, EXAMPLES // 4)


@st.composite
def on_threads(draw: st.DrawFn, largest: int) -> Problem:
    """Problems for two to five threads, whose sums may be taken in parts, or may not."""
    asked = draw(problems(largest))
    option = replace(asked.nests[0].options[0], can_split_sums=draw(st.booleans()))
    caches = (asked.caches[0], replace(asked.caches[1], shared=draw(st.booleans())))
    return replace(
        asked,
        nests=(NestProblem(0, (option,)),),
        caches=caches,
        memory_shared=draw(st.booleans()),
        threads=draw(st.integers(2, 5)),
        thread_start_ns=draw(st.sampled_from([0.0, 1.0, 50.0])),
        model=replace(asked.model, remote_byte_ns=draw(st.sampled_from([0.0, 0.04, 1.0]))),
    )


@given(on_threads(largest=300))
@settings(max_examples=FEW)
def test_what_is_dealt_passes_the_judge(asked: Problem) -> None:
    for heuristic in ("greedy", "cpsat"):
        found = schedule(asked, heuristic=heuristic, limit_s=2.0)
        assert check_schedule(found, asked) == ()
        assert found.lower_bound_ns is not None
        assert found.cost_ns is not None
        assert found.lower_bound_ns <= found.cost_ns


@given(on_threads(largest=6))
@settings(max_examples=FEW)
def test_no_way_to_deal_is_cheaper_than_the_solvers(asked: Problem) -> None:
    found = schedule(asked)
    least = min(
        float(evaluate(option.cost, assignment))
        for option in open_options(asked, asked.nests[0], AnalyticModel(), {})
        for assignment in every_assignment(option.space)
    )
    assert found.cost_ns is not None
    assert found.status == "OPTIMAL"
    assert abs(found.cost_ns - least) <= 1e-3 * least + 1e-12


@given(on_threads(largest=40), st.data())
@settings(max_examples=FEW)
def test_what_a_dealt_schedule_costs_is_read_off_its_loops(asked: Problem, data: st.DataObject) -> None:
    options = open_options(asked, asked.nests[0], AnalyticModel(), {})
    option = data.draw(st.sampled_from(options))
    assignment = next(every_assignment(option.space), None)
    if assignment is None:
        return
    candidate = candidate_of(option, assignment)
    found = replace(schedule(asked, heuristic="greedy"), nests=(candidate.nest(),))
    assert check_schedule(found, asked) == ()
    (cost,) = price(found, asked, AnalyticModel())
    assert cost is not None
    assert cost <= candidate.cost_ns * (1 + 1e-9) + 1e-9  # loops that run once may be read another way


THREADED = replace(gemm(1024, 1024, 1024), threads=2, thread_start_ns=5000.0)


def test_one_thread_is_dealt_nothing() -> None:
    option = THREADED.nests[0].options[0]
    assert list(part_options(replace(THREADED, threads=1), 0, option, {})) == [option]


def test_a_large_product_is_dealt_and_a_small_one_is_not() -> None:
    assert schedule(THREADED, heuristic="greedy").nests[0].parallel == 1
    small = replace(gemm(8, 16, 8), threads=2, thread_start_ns=5000.0)
    assert schedule(small, heuristic="greedy").nests[0].parallel == 0


def test_how_an_axis_is_dealt_can_be_fixed() -> None:
    four = replace(THREADED, threads=4)
    found = schedule(four, heuristic="greedy", fixed={"nest0.parallel.m": 2, "nest0.parallel.n": 2})
    steps = [(loop.axis, loop.step) for loop in found.nests[0].loops[: found.nests[0].parallel]]
    assert steps == [("m", 512), ("n", 512)]
    undealt = schedule(four, heuristic="greedy", fixed={"nest0.parallel.m": 1, "parallel.n": 1})
    assert undealt.nests[0].parallel == 0


def test_parts_that_cannot_be_made_are_refused_with_the_reason() -> None:
    with pytest.raises(Infeasible) as raised:
        schedule(THREADED, heuristic="greedy", fixed={"nest0.parallel.k": 2})
    assert "nest0.parallel.k = 2" in raised.value.diagnostics[0].render()
    assert "cannot be partitioned" in raised.value.diagnostics[0].render()
    with pytest.raises(Infeasible) as raised:
        schedule(THREADED, heuristic="greedy", fixed={"nest0.parallel.n": 63})
    assert "2 issues each of the 64 along n are 32 parts" in (raised.value.diagnostics[0].render())
