"""The optimum with companions, threads and scratchpads is what trying everything finds.

`ISAMAP_EXAMPLES=1000` tries a thousand problems of each kind; benchmarks/results has what that came to.
"""

from __future__ import annotations

import os
from math import inf
from random import Random

import pytest
from conftest import EXAMPLES
from properties.exhaustive import every_decision, program
from properties.exhaustive_ways import dealing_ns, every_dealing, every_taking, seen_by_a_part
from properties.random_kinds import KINDS
from properties.random_problems import RandomModel
from properties.tree_price import tree_ns

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler import AnalyticModel, schedule
from isamap.source import Infeasible

ASKED = EXAMPLES if "ISAMAP_EXAMPLES" in os.environ else 16
STEP = 1e-6

CASES = [(kind, number) for kind in KINDS for number in range(ASKED)]


def least(problem: Problem, model: CostModel) -> float:
    """The cost of the best schedule of all statements together; infinite where there is none."""
    own = {nest.statement: _own(problem, nest, model) for nest in problem.nests}
    offered = {f.statement for nest in problem.nests for o in nest.options for f in o.fusions}
    alone = {n: min((ns for _, ns in own[n]), default=inf) for n in own}
    best = 0.0
    for nest in problem.nests:
        if nest.statement in offered:
            continue
        there = {f.statement for o in nest.options for f in o.fusions}
        best += min(
            (
                ns + extra_ns + sum(alone[n] for n in there if n not in taken)
                for option, ns in own[nest.statement]
                for taken, extra_ns in every_taking(option, there)
            ),
            default=inf,
        )
    return best


def _own(problem: Problem, nest: NestProblem, model: CostModel) -> list[tuple[NestOption, float]]:
    """The least cost of a statement's own nest, for each mapping and way to deal it."""
    found: list[tuple[NestOption, float]] = []
    for option in nest.options:
        for way in every_dealing(option, problem):
            ns = cheapest(problem, nest.statement, way, model)
            if ns < inf:
                found.append((way, ns))
    return found


def cheapest(problem: Problem, statement: int, option: NestOption, model: CostModel) -> float:
    """Of one mapping, dealt in one way; infinite where nothing can be decided."""
    if next(every_decision(statement, option, problem), None) is None:
        return inf
    own = seen_by_a_part(problem, option)
    cost = model.expression(own, NestProblem(statement, (option,)), option)
    price = eval(f"lambda made: {program(cost)}")  # noqa: S307 - of our own making, just above
    best = inf
    by_placement: dict[tuple[int, ...], float] = {}
    names = [f"nest{statement}.stage.{o.name}" for o in option.operands]
    for made in every_decision(statement, option, problem):
        placed = tuple(made[name] for name in names)
        if placed not in by_placement:
            at = dict(zip((o.name for o in option.operands), placed, strict=True))
            by_placement[placed] = dealing_ns(problem, option, at)
        best = min(best, price(made) + by_placement[placed])
    return best


def _tree_ns(problem: Problem, found: Schedule) -> float:
    """The price of a schedule read off its loops."""
    questions = {nest.statement: nest for nest in problem.nests}
    return sum(
        tree_ns(
            problem, next(o for o in questions[nest.statement].options if o.mapping == nest.mapping), nest
        )
        for nest in found.nests
    )


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_the_optimum_is_what_trying_everything_finds(kind: str, number: int) -> None:
    question = KINDS[kind](Random(number))
    model = AnalyticModel() if number % 3 else RandomModel(number)
    expected = least(question, model)
    if expected == inf:
        for heuristic in ("cpsat", "greedy", "annealing"):
            with pytest.raises(Infeasible):
                schedule(question, model=model, heuristic=heuristic)
        return
    found = schedule(question, model=model, limit_s=60)
    assert check_schedule(found, question) == ()
    assert found.status == "OPTIMAL"
    assert found.cost_ns == pytest.approx(expected, rel=STEP, abs=1e-12)
    assert found.lower_bound_ns is not None
    assert found.lower_bound_ns <= expected * (1 + 1e-9) + 1e-12
    assert found.lower_bound_ns >= expected * (1 - 1e-3) - 1e-12
    assert found.findings == ()
    if isinstance(model, AnalyticModel):
        assert found.cost_ns == pytest.approx(_tree_ns(question, found), rel=STEP, abs=1e-12)
    for heuristic in ("greedy", "annealing"):
        other = schedule(question, model=model, heuristic=heuristic)
        assert check_schedule(other, question) == ()
        assert other.cost_ns is not None
        assert other.cost_ns >= expected * (1 - STEP) - 1e-9
        assert other.lower_bound_ns is not None
        assert other.lower_bound_ns <= expected * (1 + 1e-9) + 1e-12
