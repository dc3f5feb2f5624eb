"""Costs as terms of a solver's model: what a cap on the cost keeps small, and what it leaves."""

from __future__ import annotations

from itertools import product

import pytest
from ortools.sat.python import cp_model

from isamap.plan.cost import Cases, Const, Cost, evaluate, times
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
