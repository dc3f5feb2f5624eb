"""Search by measuring: points are schedules, budgets are kept, and searchers find what a model does not know.

What is measured is a stand-in for a processor: the model's cost times what the model has wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import cast

import pytest
from plan_problems import gemm, gemm_option, problem

from isamap.plan.check import check_schedule
from isamap.plan.plugins import BUILT_IN, load_searcher
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel, Greedy, schedule
from isamap.scheduler.search.points import Point, SearchSpace, changed_kinds
from isamap.tune.searching import TOGETHER, MeasuredPoint, Searcher, finalists, search

SEARCHERS = sorted(BUILT_IN["searcher"])
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "one mapping": lambda: gemm(64, 96, 80),
    "two mappings": lambda: problem(gemm_option(48, 70, 33), gemm_option(48, 70, 33, 8, "ymm"),
                                    registers={"zmm": 32, "ymm": 16}),
}  # fmt: skip


def space_of(asked: Problem, **fixed: int) -> SearchSpace:
    named = {name.replace("_", "."): value for name, value in fixed.items()}
    first = schedule(asked, heuristic=Greedy(), fixed=named)
    found = SearchSpace.around(asked, AnalyticModel(), named, first)
    assert found is not None
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_point_is_a_schedule_and_is_found_again(name: str) -> None:
    asked, rng = PROBLEMS[name](), random.Random(1)
    space = space_of(asked)
    assert space.first.cost_ns == pytest.approx(space.schedule(space.first).cost_ns)
    points, kinds = [space.first], set[str]()
    for number in range(60):
        drawn = [space.changed(points[-1], rng), space.crossed(rng.choice(points), points[-1], rng)]
        drawn += [space.drawn(rng)] if number % 10 == 0 else []
        for point in drawn:
            if point is not None:
                made = space.schedule(point)
                assert not check_schedule(made, asked)
                assert space.point_of(made) == point
                kinds |= changed_kinds(points[-1], point)
                points.append(point)
    assert len(set(points)) > 60
    assert {"block", "unroll", "stage"} <= kinds
    assert ("mapping" in kinds) == (name == "two mappings")


def test_what_is_fixed_stays() -> None:
    asked, rng = gemm(64, 96, 80), random.Random(2)
    space = space_of(asked, nest0_unroll_m=3)
    point = space.first
    for _ in range(40):
        point = space.changed(point, rng) or point
        assert point.candidates[0].assignment["nest0.unroll.m"] == 3


def test_a_schedule_that_no_decisions_lead_to_has_no_point() -> None:
    asked = gemm(64, 96, 80)
    first = schedule(asked, heuristic=Greedy())
    nest = replace(first.nests[0], mapping="another")
    assert SearchSpace.around(asked, AnalyticModel(), {}, replace(first, nests=(nest,))) is None


class Pretended:
    """A processor on which rows side by side cost less than the model says, the more the better."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.asked: list[Point] = []

    def ns(self, point: Point) -> float:
        return point.cost_ns * (1 - 0.06 * min(8, point.candidates[0].assignment["nest0.unroll.m"]))

    def __call__(self, points: Sequence[Point]) -> list[float]:
        self.asked += points
        return [self.ns(point) / self.ns(self.space.first) for point in points]


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_searcher_finds_what_the_model_has_wrong(name: str) -> None:
    space = space_of(gemm(64, 96, 80), nest0_unroll_m=2)
    free = space_of(gemm(64, 96, 80))
    start = free.point_of(space.schedule(space.first))
    assert start is not None
    free = replace(free, first=start)
    pretended = Pretended(free)
    told = search(cast("Searcher", load_searcher(name)), free, 40, pretended)
    assert len(told) == 40
    best = finalists(told, 1)[-1]
    assert pretended.ns(best) < 0.9 * pretended.ns(start)
    assert best.candidates[0].assignment["nest0.unroll.m"] > 2


@pytest.mark.parametrize("name", SEARCHERS)
def test_two_searches_propose_the_same(name: str) -> None:
    space = space_of(gemm(64, 96, 80))
    runs = [search(cast("Searcher", load_searcher(name)), space, 15, Pretended(space)) for _ in range(2)]
    assert runs[0] == runs[1]


class Stubborn:
    """Proposes the same few for ever."""

    name = "stubborn"

    def __init__(self, space: SearchSpace, count: int) -> None:
        rng = random.Random(3)
        changed = (space.changed(space.first, rng) for _ in range(100))
        self.points = list(dict.fromkeys(p for p in changed if p is not None))[:count]

    def propose(self, space: SearchSpace, told: Sequence[MeasuredPoint], count: int) -> Sequence[Point]:
        del space, told, count
        return self.points


def test_nothing_is_measured_twice_nor_beyond_the_budget() -> None:
    space = space_of(gemm(64, 96, 80))
    pretended = Pretended(space)
    told = search(Stubborn(space, 20), space, 10, pretended)
    assert len(pretended.asked) == len(set(pretended.asked)) == 9  # the first counts as one of the budget
    assert told[0] == MeasuredPoint(space.first, 1.0)
    assert len(search(Stubborn(space, 4), space, 10, Pretended(space))) == 5
    assert TOGETHER < 9
    assert search(Stubborn(space, 20), space, 3, Pretended(space))[1:] == told[1:3]
    assert search(Stubborn(space, 0), space, 10, pretended) == told[:1]
    assert search(Stubborn(space, 20), space, 10, pretended, stop=-inf) == told[:1]


def test_finalists_are_the_faster_ones_behind_the_first() -> None:
    space = space_of(gemm(64, 96, 80))
    points = Stubborn(space, 4).points
    told = [MeasuredPoint(space.first, 1.0), *map(MeasuredPoint, points, (0.9, 1.1, inf, 0.8))]
    assert finalists(told, 3) == (space.first, points[3], points[0])
    assert finalists(told, 1) == (space.first, points[3])
