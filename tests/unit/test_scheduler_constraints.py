"""Constraints: their readings agree, for what is made, for the solver and for boxes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ortools.sat.python import cp_model

from isamap.plan.cost import Add, CeilDiv, Const, Decision, times
from isamap.scheduler.translation.constraints import (
    AtMost,
    Facts,
    Is,
    Not,
    is_met,
    limit,
    may_be_met,
    stays_whole,
)
from isamap.scheduler.translation.linear_terms import Literals

BLOCK, UNROLL, STAGE, AHEAD = "nest0.block.k", "nest0.unroll.k", "nest0.stage.b", "nest0.ahead.b"
SIZES = [{BLOCK: size, UNROLL: factor} for size in (8, 16, 32) for factor in (1, 2, 4) if factor * 4 <= size]
STAGES, AHEADS = (0, 1, 2), (0, 1)
MADE = [{**sizes, STAGE: s, AHEAD: a} for sizes, s, a in product(SIZES, STAGES, AHEADS)]
ONCE = AtMost(Decision(BLOCK), times(4, Decision(UNROLL)))
BYTES = Add(
    (times(64, Decision(STAGE), CeilDiv(Decision(BLOCK), times(4, Decision(UNROLL)))), Decision(AHEAD))
)

CLAUSES: list[Facts] = [
    (Is(AHEAD, (0,)), Is(STAGE, (1,))),
    (Is(AHEAD, (0,)), Not(stays_whole(BLOCK, 32))),
    (ONCE, Is(STAGE, (0, 2))),
    (Not(ONCE), Is(AHEAD, (1,)), stays_whole(BLOCK, 32)),
    (Is(STAGE, (5,)), stays_whole(BLOCK, 16)),
    (Is(STAGE, (0, 1)),),
    (AtMost(BYTES, Const(256)),),
]


def holds_in_model(facts: Facts, made: dict[str, int]) -> bool:
    model = cp_model.CpModel()
    sizes = [(model.new_bool_var(""), choice) for choice in SIZES]
    model.add_exactly_one(at for at, _ in sizes)
    single = {
        name: {value: model.new_bool_var("") for value in values}
        for name, values in ((STAGE, STAGES), (AHEAD, AHEADS))
    }
    for values in single.values():
        model.add_exactly_one(values.values())
    limit(model, Literals({"k": sizes}, dict.fromkeys((BLOCK, UNROLL), "k"), single, ()), [facts])
    for at, choice in sizes:
        model.add(at == int(choice.items() <= made.items()))
    for name, values in single.items():
        for value, at in values.items():
            model.add(at == int(made[name] == value))
    return cp_model.CpSolver().solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@pytest.mark.parametrize("facts", CLAUSES)
def test_what_is_made_is_read_the_same_by_the_solver_and_as_boxes(facts: Facts) -> None:
    met = [is_met(facts, made) for made in MADE]
    points = {name: np.array([made[name] for made in MADE], np.float64) for name in MADE[0]}

    assert 0 < sum(met) < len(met)
    assert [holds_in_model(facts, made) for made in MADE] == met
    assert may_be_met(facts, {name: (at, at) for name, at in points.items()}, len(MADE)).tolist() == met


@pytest.mark.parametrize("facts", CLAUSES)
def test_a_box_in_which_something_is_met_is_never_given_up(facts: Facts) -> None:
    for low, high in product(MADE, MADE):
        inside = [made for made in MADE if all(low[name] <= made[name] <= high[name] for name in made)]
        if any(is_met(facts, made) for made in inside):
            assert may_be_met(facts, {name: (low[name], high[name]) for name in low}).all()


def test_a_box_in_which_nothing_can_be_met_is_known() -> None:
    boxes = {AHEAD: (1, 1), STAGE: (2, 2), BLOCK: (32, 64), UNROLL: (1, 4)}

    assert [bool(may_be_met(facts, boxes).all()) for facts in CLAUSES[:2]] == [False, False]
