"""What the model says of any decisions is what their loops cost, counted anew; not only of what is chosen.

A price that is too high keeps a schedule from being chosen, and so from being seen where only chosen ones
are compared: beginning results in register blocks was too dear for weeks, and rows of short sums were torn
too often.

Nests whose loops are dealt to threads are compared where they are chosen (`test_optimum_of_kinds`), not here.

`ISAMAP_EXAMPLES=100` tries a hundred problems of each kind.
"""

from __future__ import annotations

from random import Random

import pytest
from conftest import examples
from properties.exhaustive import every_block, every_decision, program
from properties.random_kinds import KINDS
from properties.tree_price import tree_ns

from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.nests.nest_building import build_nest
from isamap.scheduler.nests.pricing import normal_form

ASKED = examples(30)
MOST_DECISIONS, COMPARED = 30_000, 150
STEP = 1e-9


def priced(problem: Problem, nest: NestProblem, option: NestOption) -> dict[NestSchedule, float]:
    """Return every nest that decisions lead to, with the least that the model says of any that do."""
    cost = AnalyticModel().expression(problem, nest, option)
    space = Space(nest.statement, option, dict(problem.registers), {}, dict(problem.scratchpads))
    names = {"every_block": every_block}
    price = eval(f"lambda made: {program(cost)}", names)  # noqa: S307 - of our own making, just above
    found: dict[NestSchedule, float] = {}
    for made in every_decision(nest.statement, option, problem):
        form = normal_form(build_nest(space, made), option)
        found[form] = min(price(made), found.get(form, float("inf")))
    return found


def is_small(problem: Problem, nest: NestProblem, option: NestOption) -> bool:
    """Return whether all decisions can be tried: of a part, the cheapest that lead to a nest may be missing."""
    return all(
        number < MOST_DECISIONS for number, _ in enumerate(every_decision(nest.statement, option, problem))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_most_problems_are_small_enough_to_be_compared(kind: str) -> None:
    questions = [KINDS[kind](Random(number)) for number in range(16)]
    asked = [(q, nest, option) for q in questions for nest in q.nests for option in nest.options]
    assert sum(is_small(*one) for one in asked) >= 0.8 * len(asked)


@pytest.mark.parametrize("number", range(ASKED))
@pytest.mark.parametrize("kind", KINDS)
def test_any_decisions_cost_what_their_loops_do(kind: str, number: int) -> None:
    random = Random(number)
    question = KINDS[kind](random)
    asked = [(nest, option) for nest in question.nests for option in nest.options]
    for nest, option in asked:
        if not is_small(question, nest, option):
            continue
        prices = priced(question, nest, option)
        for form in random.sample(sorted(prices, key=str), min(len(prices), COMPARED)):
            assert prices[form] == pytest.approx(tree_ns(question, option, form), rel=STEP, abs=1e-9), form
