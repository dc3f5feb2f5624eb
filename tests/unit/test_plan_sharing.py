"""Costs whose equal parts are one object, and bounds that look at parts only where a decision matters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from isamap.plan.batch import bounds_all, cut_bounds
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
from isamap.plan.sharing import shared


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

    found = shared(cost)

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
    first, second = parts_of(shared(Add((one, other))))

    assert first is not second


def test_a_cut_bounds_as_a_box_with_that_cut_does() -> None:
    x, y, z = Decision("x"), Decision("y"), Decision("z")
    near = Threshold(times(x, y), 30, Const(1), times(3, CeilDiv(Const(64), x)))
    cost = Add(
        (times(near, y), Cases("z", ((0, x), (1, times(y, y)))), OverBlocks((("y", 7),), times(2, y, z)))
    )
    boxes = {name: (np.array([1.0, 2.0]), np.array([8.0, 9.0])) for name in "xy"}
    boxes["z"] = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    cuts = {
        "x": (np.array([[1.0, 2.0], [5.0, 6.0]]), np.array([[4.0, 5.0], [8.0, 9.0]])),
        "z": (np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])),
    }

    found = cut_bounds(cost, boxes, cuts)

    for name, (low, high) in cuts.items():
        for half in (0, 1):
            whole = bounds_all(cost, {**boxes, name: (low[half], high[half])}, 2)[0]
            assert found[name][half].tolist() == whole.tolist()
