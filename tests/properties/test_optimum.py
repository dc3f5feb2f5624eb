"""What the solver proves: its optimum is what trying everything finds, and more of a machine is never worse.

`ISAMAP_EXAMPLES=1000` tries a thousand problems of each kind.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from conftest import examples
from properties.exhaustive import every_block, every_decision, program, value
from properties.random_problems import RandomModel, random_option, random_problem

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.scheduler import AnalyticModel, CpSat, schedule

ASKED = examples(60)
"""How many problems are tried; a person may ask for more."""

# Costs are whole steps to the solver, some millions for the cost of a schedule.
STEP = 1e-6


def least(problem: Problem, model: CostModel) -> float:
    """Return the cost of the best schedule: the best of every statement, of every mapping, of every decision."""
    return sum(
        min(cheapest(problem, nest, number, model) for number in range(len(nest.options)))
        for nest in problem.nests
    )


def cheapest(problem: Problem, nest: NestProblem, number: int, model: CostModel) -> float:
    """Of one mapping; infinite where not even one issue has its registers."""
    cost = model.expression(problem, nest, nest.options[number])
    names = {"every_block": every_block}
    price = eval(f"lambda made: {program(cost)}", names)  # noqa: S307 - of our own making, just above
    made = list(every_decision(nest.statement, nest.options[number], problem))
    found = min(made, key=price, default=None)
    return float("inf") if found is None else value(cost, found)


# 946: a number times a sum over register blocks, and nothing else.
@pytest.mark.parametrize("number", sorted({*range(ASKED), 946}))
def test_the_optimum_is_what_trying_everything_finds(number: int) -> None:
    random = Random(number)
    question = random_problem(random)
    model = AnalyticModel() if number % 2 else RandomModel(number)
    expected = least(question, model)
    # Splitting settles most by itself: half of the problems are left to the solver alone.
    found = schedule(question, model=model, heuristic=CpSat(splits=number % 4 < 2), limit_s=60)
    assert found.status == "OPTIMAL"
    assert check_schedule(found, question) == ()
    assert found.cost_ns == pytest.approx(expected, rel=STEP, abs=1e-12)
    assert found.lower_bound_ns is not None
    assert found.lower_bound_ns <= expected * (1 + 1e-9) + 1e-12
    assert found.lower_bound_ns >= expected * (1 - 1e-3) - 1e-12
    assert found.findings == ()


def larger(problem: Problem, random: Random) -> tuple[str, Problem]:
    """Return the same on a machine that has more of something."""
    factor = random.choice([2, 3, 8])
    caches, nests = problem.caches, problem.nests
    match random.randrange(6):
        case 0:
            files = tuple((name, factor * count) for name, count in problem.registers)
            return f"{factor} times the registers", replace(problem, registers=files)
        case 1:
            grown = replace(caches[0], capacity_bytes=min(factor * caches[0].capacity_bytes, 8192))
            return "a larger first cache", replace(problem, caches=(grown, caches[1]))
        case 2:
            grown = replace(caches[1], capacity_bytes=factor * caches[1].capacity_bytes)
            return "a larger last cache", replace(problem, caches=(caches[0], grown))
        case 3:
            faster = replace(caches[1], bandwidth_bytes_per_ns=factor * caches[1].bandwidth_bytes_per_ns)
            return "a faster cache", replace(problem, caches=(caches[0], faster))
        case 4:
            units = tuple(
                replace(
                    nest,
                    options=tuple(replace(o, interval_ns=o.interval_ns / factor) for o in nest.options),
                )
                for nest in nests
            )
            return f"{factor} units for one", replace(problem, nests=units)
        case _:
            another = random_option(random, "another")
            more = replace(nests[0], options=(*nests[0].options, another))
            return "another instruction", replace(problem, nests=(more, *nests[1:]))


@pytest.mark.parametrize("number", range(ASKED))
def test_more_of_a_machine_never_makes_a_proven_optimum_worse(number: int) -> None:
    random = Random(number)
    question = random_problem(random)
    what, more = larger(question, random)
    before, after = (schedule(problem, limit_s=60) for problem in (question, more))
    assert before.status == after.status == "OPTIMAL"
    assert before.cost_ns is not None
    assert after.cost_ns is not None
    assert after.cost_ns <= before.cost_ns * (1 + STEP) + 1e-9, what
