"""The optimum with companions, threads and scratchpads is what trying everything finds.

What a nest costs by itself is the cost model's expression, which the solver has, too, evaluated by a function
of the search's own; what dealing and taking along add is computed anew. For the built-in model all of it is
computed once more from the loops of each answer alone (`tree_price.py`).

`ISAMAP_EXAMPLES=1000` tries a thousand problems of each kind.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from random import Random

import pytest
from conftest import examples
from properties.exhaustive import every_block, every_decision, program
from properties.exhaustive_ways import dealing_ns, every_dealing, every_taking, seen_by_a_part
from properties.random_kinds import KINDS, hinted_problem, kept_problem
from properties.random_problems import RandomModel
from properties.test_optimum import larger
from properties.tree_price import tree_ns

from isamap.plan.check import check_schedule
from isamap.plan.cost import Const, Cost
from isamap.plan.problem import NestOption, NestProblem, Problem, chosen_options
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler import AnalyticModel, CpSat, schedule
from isamap.source import Diagnostic, Infeasible

ASKED = examples(30)
STEP = 1e-6
ANNEALED = 8

ALL = {**KINDS, "hinted": hinted_problem, "kept": kept_problem}
CASES = [(kind, number) for kind in ALL for number in range(ASKED)]
# Where OR-Tools 9.15 proved too much, and where coarse steps prove too little.
FOUND = [("scratchpads", number) for number in (390, 830) if number >= ASKED]


def least(problem: Problem, model: CostModel) -> float:
    """Return the cost of the best schedule of all statements together; infinite where there is none."""
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
    """Return the least cost of a statement's own nest, for each mapping and way to deal it."""
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
    names = {"every_block": every_block}
    price = eval(f"lambda made: {program(cost)}", names)  # noqa: S307 - of our own making, just above
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


def _others(number: int) -> tuple[str, ...]:
    """Heuristics to ask beside the solver: annealing takes ten times as long as all else together."""
    return ("greedy", "annealing") if number % ANNEALED == 0 else ("greedy",)


def _tree_ns(problem: Problem, found: Schedule) -> float:
    """Return the price of a schedule read off its loops."""
    return sum(tree_ns(problem, option, nest) for nest, option in chosen_options(found, problem))


@pytest.mark.parametrize(("kind", "number"), [*CASES, *FOUND])
def test_the_optimum_is_what_trying_everything_finds(kind: str, number: int) -> None:
    question = ALL[kind](Random(number))
    model = AnalyticModel() if number % 3 else RandomModel(number)
    expected = least(question, model)
    if expected == inf:
        for heuristic in ("cpsat", *_others(number)):
            with pytest.raises(Infeasible) as caught:
                schedule(question, model=model, heuristic=heuristic)
            assert_conflicts_are_true(question, caught.value.diagnostics)
        return
    # Splitting settles most by itself: half of the problems are left to the solver alone.
    found = schedule(question, model=model, heuristic=CpSat(splits=number % 4 < 2), limit_s=60)
    assert check_schedule(found, question) == ()
    assert found.status == "OPTIMAL"
    assert found.cost_ns == pytest.approx(expected, rel=STEP, abs=1e-12)
    assert found.lower_bound_ns is not None
    assert found.lower_bound_ns <= expected * (1 + 1e-9) + 1e-12
    assert found.lower_bound_ns >= expected * (1 - 1e-3) - 1e-12
    assert found.findings == ()
    priced = isinstance(model, AnalyticModel) and kind in KINDS  # loops do not say what hints save
    if priced:
        assert found.cost_ns == pytest.approx(_tree_ns(question, found), rel=STEP, abs=1e-12)
    for heuristic in _others(number):
        other = schedule(question, model=model, heuristic=heuristic)
        assert check_schedule(other, question) == ()
        assert other.cost_ns is not None
        assert other.cost_ns >= expected * (1 - STEP) - 1e-9
        assert other.lower_bound_ns is not None
        assert other.lower_bound_ns <= expected * (1 + 1e-9) + 1e-12
        if priced:
            assert _tree_ns(question, other) <= other.cost_ns * (1 + STEP) + 1e-9


# --- where there is none ----------------------------------------------------------------------------------


class Free:
    """Costs nothing: only whether there is a schedule counts."""

    name = "free"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        del problem, nest, option
        return Const(0)


NEEDED = re.compile(r"(\d+) (bytes|registers) of `(\w+)`")


def assert_conflicts_are_true(question: Problem, found: tuple[Diagnostic, ...]) -> None:
    """What is named relieves its statement, all of it together everything, and less does not."""
    amounts = {d: {(m, kind): int(n) for n, kind, m in NEEDED.findall(d.help or "")} for d in found}
    assert found
    for diagnostic, needed in amounts.items():
        assert needed, diagnostic.render()
        word = re.search(r"statement (\d+) has no schedule", diagnostic.message)
        assert word is not None
        (nest,) = (n for n in question.nests if n.statement == int(word[1]))
        assert not _own(question, nest, Free())
        assert _own(_with(question, needed), nest, Free()), diagnostic.render()
        if len(needed) == 1:
            less = {name: count - 1 for name, count in needed.items()}
            assert not _own(_with(question, less), nest, Free()), diagnostic.render()
    together: dict[tuple[str, str], int] = {}
    for needed in amounts.values():
        together = {n: max(together.get(n, 0), needed.get(n, 0)) for n in {*together, *needed}}
    assert least(_with(question, together), Free()) < inf


def _with(question: Problem, needed: dict[tuple[str, str], int]) -> Problem:
    """Return the problem on a machine that has so much of these memories."""
    registers, scratchpads = dict(question.registers), dict(question.scratchpads)
    for (memory, kind), count in needed.items():
        (registers if kind == "registers" else scratchpads)[memory] = count
    return replace(question, registers=tuple(registers.items()), scratchpads=tuple(scratchpads.items()))


# --- more of a machine ------------------------------------------------------------------------------------


def larger_kind(problem: Problem, random: Random) -> tuple[str, Problem]:
    """Return the same on a machine with more of something, also of what only this kind has."""
    if 1 < problem.threads < 4 and random.random() < 0.5:
        return "one more thread", replace(problem, threads=problem.threads + 1)
    if problem.scratchpads and random.random() < 0.7:
        name, size = random.choice(problem.scratchpads)
        sizes = dict(problem.scratchpads) | {name: size + random.choice([1, 16, 48, 4096])}
        return f"more bytes of {name}", replace(problem, scratchpads=tuple(sizes.items()))
    return larger(problem, random)


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_more_of_a_machine_never_makes_a_proven_optimum_worse(kind: str, number: int) -> None:
    random = Random(number)
    question = ALL[kind](random)
    what, more = larger_kind(question, random)
    try:
        before = schedule(question, limit_s=60)
    except Infeasible:
        return
    after = schedule(more, limit_s=60)
    assert before.status == after.status == "OPTIMAL"
    assert before.cost_ns is not None
    assert after.cost_ns is not None
    assert check_schedule(after, more) == ()
    assert after.cost_ns <= before.cost_ns * (1 + STEP) + 1e-9, what
