"""Costs as terms of a solver's model: what a cap on the cost keeps small, and what it leaves."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from ortools.sat.python import cp_model

from isamap.plan.cost import Cases, Const, Cost, evaluate, times
from isamap.plan.cost.algebra import Add, Decision, Threshold
from isamap.scheduler.translation.linear_terms import MAX_TERM, Literals, TooLarge
from isamap.scheduler.translation.translate import Translator

# One of many numbers that are not whole, times one of some counts: reading rows again, say.
PACE = Cases("pace", tuple((n, Const(n + 0.25)) for n in range(6)))
COUNT = Cases("count", tuple((n, Const(10**n)) for n in range(0, 13, 3)))
COST = times(PACE, COUNT)


def cheapest(cost: Cost, cap_ns: float, scale: float) -> tuple[int, dict[str, int]]:
    """Return the least value of the cost's term, and what is decided then."""
    model = cp_model.CpModel()
    single = {d.decision: {n: model.new_bool_var("") for n, _ in d.branches} for d in (PACE, COUNT)}
    for literals in single.values():
        model.add_exactly_one(literals.values())
    translator = Translator(model, Literals({}, {}, single, ()), scale, cap_ns)
    term = translator.translate(cost)
    assert term.high < MAX_TERM
    model.add(single["count"][0].negated() + single["pace"][0].negated() >= 1)  # not the cheapest of all
    model.minimize(term.expr)
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    made = {name: next(n for n, lit in of.items() if solver.value(lit)) for name, of in single.items()}
    return solver.value(term.expr), made


def test_a_cap_leaves_what_costs_no_more() -> None:
    prices = sorted(
        float(evaluate(COST, {"pace": p, "count": c})) for p, c in product(range(6), range(0, 13, 3))
    )
    value, made = cheapest(COST, cap_ns=prices[1], scale=1000.0)
    assert float(evaluate(COST, made)) == prices[1]
    assert value == 1250


def test_without_a_cap_the_same_product_is_too_large() -> None:
    with pytest.raises(TooLarge):
        cheapest(COST, cap_ns=1e15, scale=1e6)
    assert cheapest(COST, cap_ns=2.0, scale=1e6)[0] == 1_250_000


def variables_of(depth: int) -> int:
    """Return the number of variables for nested thresholds, both of whose sides have the next one in common."""
    model = cp_model.CpModel()
    literals = {n: model.new_bool_var("") for n in range(1, 40)}
    count = Decision("count")
    cost: Cost = Const(0.5)
    for limit in range(depth):
        cost = Threshold(count, limit + 2, cost, Add((cost, Const(0.25))))
    translator = Translator(model, Literals({}, {}, {"count": literals}, ()), 1000.0, 1e6)
    translator.translate(times(cost, count))
    proto: Any = model.proto
    return len(proto.variables) - len(literals)


def test_a_part_that_several_have_in_common_is_translated_once() -> None:
    assert variables_of(16) < 3 * variables_of(8)
