"""What sums take along: chosen where it pays, priced, fixed, and judged."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from plan_problems import elementwise, gemm

from isamap.plan.check import check_schedule
from isamap.plan.problem import Fusion, NestProblem, Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.answer import schedule
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.nests.pricing import price
from isamap.scheduler.ranking import k_best
from isamap.scheduler.search.fusing import least_added_ns
from isamap.source import Infeasible, UsageProblem
from isamap.source.codec import read_value, write

HEURISTICS = ("greedy", "annealing", "cpsat")


def problem(*fusions: Fusion) -> Problem:
    """C += A * B as statement 1, between three elementwise statements that it may take along."""
    given = gemm(96, 64, 48)
    sums = replace(given.nests[0].options[0], fusions=fusions)
    passes = elementwise(96, 64).nests[0].options
    others = tuple(NestProblem(n, passes) for n in (2, 3))
    return replace(given, nests=(NestProblem(0, passes), NestProblem(1, (sums,)), *others))


CHEAP = (Fusion(0, (), 0.0), Fusion(2, (), 10.0), Fusion(3, (2,), 10.0))
DEAR = 1e9


def fused(found: Schedule) -> tuple[int, ...]:
    return next(nest.fused for nest in found.nests if nest.statement == 1)


def test_the_least_cost_of_fusible_statements_takes_the_cheaper_way_of_each() -> None:
    assert least_added_ns((), {0: 3.0, 2: 4.0}) == 7.0
    assert least_added_ns(CHEAP, {0: 3.0, 2: 4.0, 3: 5.0}) == 9.0  # 3 needs 2, which is cheaper separately
    assert least_added_ns(CHEAP, {0: 3.0, 2: inf, 3: 50.0}) == 20.0  # only a sum performs 2
    assert least_added_ns(CHEAP[:1], {0: 3.0, 2: inf}) == inf


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_what_is_cheaper_on_held_tiles_is_taken_along(heuristic: str) -> None:
    found = schedule(problem(*CHEAP), heuristic=heuristic)
    assert fused(found) == (0, 2, 3)
    assert [nest.statement for nest in found.nests] == [1]
    alone = schedule(problem(), heuristic=heuristic)
    assert [nest.statement for nest in alone.nests] == [0, 1, 2, 3]
    assert found.cost_ns is not None
    assert alone.cost_ns is not None
    assert found.cost_ns < alone.cost_ns


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ((Fusion(0, (), 0.0), Fusion(2, (), DEAR), Fusion(3, (2,), 0.0)), (0,)),
        ((Fusion(0, (), DEAR), Fusion(2, (), 0.0), Fusion(3, (2,), DEAR)), (2,)),
        ((Fusion(2, (), 1.0), Fusion(3, (2,), 0.0)), (2, 3)),
        ((Fusion(3, (), 0.0),), (3,)),
    ],
)
def test_the_cheapest_set_is_taken_that_has_all_it_needs(
    offered: tuple[Fusion, ...], expected: tuple[int, ...]
) -> None:
    for heuristic in HEURISTICS:
        assert fused(schedule(problem(*offered), heuristic=heuristic)) == expected


def test_an_option_that_takes_nothing_along_has_to_pay_for_the_other_nests() -> None:
    given = problem(*CHEAP)
    sums = given.nests[1].options[0]
    # A little cheaper by itself, by less than a pass over the result.
    other = replace(sums, mapping="other", fusions=(), interval_ns=sums.interval_ns * 0.999)
    both = (given.nests[0], NestProblem(1, (other, sums)), *given.nests[2:])
    for heuristic in ("greedy", "cpsat"):
        found = schedule(replace(given, nests=both), heuristic=heuristic)
        assert [nest.mapping for nest in found.nests] == [sums.mapping]


def test_the_cost_is_that_of_the_parts_and_the_bound_is_below() -> None:
    given, model = problem(*CHEAP), AnalyticModel()
    found = schedule(given)
    prices = [p for p in price(found, given, model) if p is not None]
    assert len(prices) == 4
    assert [prices[n] for n in (0, 2, 3)] == [0.0, 0.0, 0.0]
    assert found.cost_ns == pytest.approx(sum(prices))
    assert found.lower_bound_ns is not None
    assert found.cost_ns is not None
    assert found.lower_bound_ns <= found.cost_ns
    assert found.status == "OPTIMAL"
    assert found.gap == pytest.approx(0.0, abs=1e-6)


def test_mappings_of_a_fused_statement_that_were_left_out_do_not_lower_the_bound_of_the_sum() -> None:
    given = problem(*CHEAP)
    nests = tuple(n if n.statement == 1 else replace(n, others_ns=0.0) for n in given.nests)
    found = schedule(replace(given, nests=nests), heuristic="greedy")
    alone = schedule(gemm(96, 64, 48), heuristic="greedy")
    assert fused(found) == (0, 2, 3)
    assert alone.lower_bound_ns is not None
    assert found.lower_bound_ns == pytest.approx(alone.lower_bound_ns)
    assert 0 < alone.lower_bound_ns <= (found.cost_ns or 0.0)


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_person_may_decide(heuristic: str) -> None:
    fixed = {"nest1.fuse.2": 0}
    assert fused(schedule(problem(*CHEAP), heuristic=heuristic, fixed=fixed)) == (0,)
    dear = (Fusion(0, (), DEAR), Fusion(2, (), DEAR), Fusion(3, (2,), DEAR))
    forced = schedule(problem(*dear), heuristic=heuristic, fixed={"nest1.fuse.3": 1})
    assert fused(forced) == (2, 3)


def test_a_nest_that_a_person_decides_about_is_not_taken_along() -> None:
    found = schedule(problem(*CHEAP), fixed={"nest2.unroll.m": 2})
    assert fused(found) == (0,)
    assert [nest.statement for nest in found.nests] == [1, 2, 3]


def test_what_is_fixed_and_cannot_be_is_refused() -> None:
    with pytest.raises(Infeasible, match=r"nest1\.fuse\.2 = 0, nest1\.fuse\.3 = 1"):
        schedule(problem(*CHEAP), fixed={"nest1.fuse.2": 0, "nest1.fuse.3": 1})
    with pytest.raises(UsageProblem, match=r"there is no decision `nest1\.fuse\.7`"):
        schedule(problem(*CHEAP), fixed={"nest1.fuse.7": 1})


def test_the_judge_knows_what_may_be_taken_along() -> None:
    given = problem(*CHEAP)
    found = schedule(given, heuristic="greedy")
    (nest,) = found.nests

    def said(*taken: int, others: tuple[int, ...] = ()) -> str:
        alone = schedule(problem(), heuristic="greedy").nests
        nests = (replace(nest, fused=taken), *(n for n in alone if n.statement in others))
        return "\n".join(d.render() for d in check_schedule(replace(found, nests=nests), given))

    assert said(0, 2, 3) == ""
    assert said(0, 2, others=(3,)) == ""
    assert "statement 3 reads the result of statement 2, which is not fused" in said(0, 3, others=(2,))
    assert "write `fuse 2, 3;`, or give statement 3 its own nest" in said(0, 3, others=(2,))
    assert "nests 1, 3 and fuses 0, 2, 3; the kernel's statements are 0, 1, 2, 3" in said(
        0, 2, 3, others=(3,)
    )
    assert "the schedule has nests 1 and fuses 0, 2" in said(0, 2)
    assert "statement 1 cannot be fused" not in said(0, 2, 3)
    fewer = problem(*CHEAP[:2])
    findings = check_schedule(found, fewer)
    assert [d.code for d in findings] == ["schedule-fuse"]
    assert "statement 3 cannot be fused" in findings[0].message
    assert "with this mapping it can fuse: 0, 2" in findings[0].notes


def test_the_child_is_told_what_may_be_taken_along() -> None:
    given = problem(*CHEAP)
    assert read_value(write(given)) == given


def test_the_cheapest_schedules_take_along_what_pays() -> None:
    given = problem(*CHEAP)
    found = k_best(given, AnalyticModel(), 3, limit_s=5)
    assert [fused(s) for s in found.schedules] == [(0, 2, 3)] * 3
    assert all(not check_schedule(s, given) for s in found.schedules)
    assert found.schedules[0].cost_ns == pytest.approx(schedule(given).cost_ns)


@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_nest_that_is_not_asked_about_is_not_taken_along(heuristic: str) -> None:
    given = problem(*CHEAP)
    found = schedule(replace(given, nests=given.nests[1:]), heuristic=heuristic)
    assert fused(found) == (2, 3)
