"""What the solver proves: its optimum is what trying everything finds, and more of a machine is never worse.

`ISAMAP_EXAMPLES=1000` tries a thousand problems of each kind.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from random import Random

import pytest
from conftest import examples
from properties.exhaustive import every_block, every_decision, program, value
from properties.random_problems import RandomModel, random_option, random_problem

from isamap.plan.check import check_schedule
from isamap.plan.problem import Energies, MoveEnergy, NestOption, NestProblem, Problem, with_fields
from isamap.plan.protocols import CostModel, FlooredModel
from isamap.scheduler import AnalyticModel, CpSat, schedule
from isamap.scheduler.effects.energy import EdpModel, EnergyModel, WithinModel

TIME = AnalyticModel()

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


def with_energies(problem: Problem, random: Random) -> Problem:
    """Return the same on a machine that states what accesses, links, issues and moves cost."""

    def pj(most: float) -> float:
        return round(random.uniform(0, most), 3)

    memories = ("far", *(name for name, _ in problem.registers), *(name for name, _ in problem.scratchpads))
    energies = Energies(
        "far",
        tuple((name, pj(20), pj(20)) for name in memories),
        tuple(("far", name, pj(5)) for name in memories[1:]),
        pj(2) * random.randrange(2),
    )

    def priced(option: NestOption) -> NestOption:
        moves = (
            with_fields(o, energy=MoveEnergy((pj(9), pj(9)), (pj(9), pj(9)), (pj(2), pj(2))))
            for o in option.operands
        )
        return replace(option, operands=tuple(moves), issue_pj=pj(50))

    nests = tuple(replace(n, options=tuple(map(priced, n.options))) for n in problem.nests)
    return replace(problem, nests=nests, energies=energies)


def bounded(problem: Problem, factor: float) -> CostModel:
    """Return energy within so many times the least time of each statement."""
    times = {
        n.statement: min(cheapest(problem, n, number, TIME) for number in range(len(n.options)))
        for n in problem.nests
    }
    limits = tuple((statement, ceil(factor * ns)) for statement, ns in times.items())
    return WithinModel(EnergyModel(), TIME, limits, 1000.0, "energy within time")


@pytest.mark.parametrize("objective", ["energy", "edp", "within"])
@pytest.mark.parametrize("number", range(ceil(ASKED / 6)))
def test_the_optimum_of_each_objective_is_what_trying_everything_finds(number: int, objective: str) -> None:
    random = Random(number)
    question = with_energies(random_problem(random), random)
    model = {"energy": EnergyModel(), "edp": EdpModel(), "within": bounded(question, 1.2)}[objective]
    expected = least(question, model)
    found = schedule(question, model=model, heuristic=CpSat(splits=number % 4 < 2), limit_s=60)
    assert found.status == "OPTIMAL"
    assert check_schedule(found, question) == ()
    assert found.cost_ns == pytest.approx(expected, rel=STEP, abs=1e-12)
    assert found.lower_bound_ns is not None
    assert expected * (1 - 1e-3) <= found.lower_bound_ns <= expected * (1 + 1e-9)
    if isinstance(model, FlooredModel):
        floors = sum(min(model.least_ns(question, o) for o in nest.options) for nest in question.nests)
        assert floors <= expected * (1 + 1e-9)
    quick = schedule(question, model=model, heuristic="greedy")
    assert quick.cost_ns is not None
    assert quick.cost_ns >= expected * (1 - STEP)


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
