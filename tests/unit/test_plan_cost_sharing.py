"""Costs whose equal parts are one object."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isamap.plan.cost import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    OverBlocks,
    Threshold,
    evaluate,
    parts_of,
    times,
)
from isamap.plan.cost.sharing import share_equal_parts


def product(factor: float = 2) -> Cost:
    return times(factor, Decision("x"), Decision("y"))


@pytest.mark.parametrize(
    "twice",
    [
        lambda: Add((product(), Const(1))),
        lambda: Max((product(), Const(1))),
        lambda: CeilDiv(Const(9), product()),
        lambda: Cases("x", ((3, product()), (4, Const(1)))),
        lambda: Threshold(product(), 3, Const(1), Const(2)),
        lambda: OverBlocks((("x", 7),), product()),
    ],
)
def test_equal_parts_become_one_object(twice: Callable[[], Cost]) -> None:
    cost = Add((twice(), twice()))

    found = share_equal_parts(cost)

    one, other = parts_of(found)
    assert one is other
    assert evaluate(found, {"x": 3, "y": 5}) == evaluate(cost, {"x": 3, "y": 5})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Const(2), Const(2.0)),
        (product(2), product(3)),
        (Add((Decision("x"), Const(1))), Max((Decision("x"), Const(1)))),
        (Cases("x", ((3, Const(1)),)), Cases("y", ((3, Const(1)),))),
        (Cases("x", ((3, Const(1)),)), Cases("x", ((4, Const(1)),))),
        (Threshold(Decision("x"), 3, Const(1), Const(2)), Threshold(Decision("x"), 4, Const(1), Const(2))),
        (OverBlocks((("x", 7),), Decision("x")), OverBlocks((("x", 8),), Decision("x"))),
    ],
)
def test_parts_that_differ_stay_apart(one: Cost, other: Cost) -> None:
    first, second = parts_of(share_equal_parts(Add((one, other))))

    assert first is not second
