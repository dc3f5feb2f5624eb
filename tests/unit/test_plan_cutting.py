"""Bounds of boxes that are cut along many decisions at once: those of each cut by itself."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.plan.bounding import bounds_all
from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Max, OverBlocks, Threshold, times
from isamap.plan.cutting import Boxes, Parts, cut_bounds

X, Y, Z = Decision("x"), Decision("y"), Decision("z")
NEAR = Threshold(times(X, Y), 30, Const(1), times(3, CeilDiv(Const(64), X)))
CASES = Cases("z", ((0, X), (1, times(Y, Y)), (2, Const(7)), (5, Max((X, Y)))))
OVER = OverBlocks((("y", 7), ("u", 9)), times(2, Y, Z, Add((X, Cases("u", ((2, Y), (3, Const(1)), (1, X)))))))

BOXES: Boxes = {
    "x": (np.array([1.0, 2.0, 3.0]), np.array([8.0, 9.0, 9.0])),
    "y": (np.array([1.0, 2.0, 2.0]), np.array([8.0, 9.0, 2.0])),
    "z": (np.array([0.0, 1.0, 0.0]), np.array([2.0, 1.0, 5.0])),
    "u": (np.array([2.0, 2.0, 2.0]), np.array([3.0, 3.0, 3.0])),
    "elsewhere": (np.array(0.0), np.array(1.0)),
}
GIVEN: Boxes = {
    **BOXES,
    "y": (np.array([3.0, 2.0, 8.0]), np.array([3.0, 2.0, 8.0])),
    "u": (np.array([2.0, 3.0, 3.0]), np.array([2.0, 3.0, 3.0])),
}
CUTS: Boxes = {
    "x": (np.array([[1.0, 2.0, 3.0], [5.0, 6.0, 6.0]]), np.array([[4.0, 5.0, 5.0], [8.0, 9.0, 9.0]])),
    "z": (np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 3.0]]), np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 5.0]])),
    "elsewhere": (np.array([[0.0] * 3, [1.0] * 3]), np.array([[0.0] * 3, [1.0] * 3])),
}
BLOCK_CUTS: Boxes = {
    **CUTS,
    "y": (np.array([[1.0, 2.0, 2.0], [5.0, 6.0, 2.0]]), np.array([[4.0, 5.0, 2.0], [8.0, 9.0, 2.0]])),
    "u": (np.array([[2.0] * 3, [3.0] * 3]), np.array([[2.0] * 3, [3.0] * 3])),
}
DECIDING: Boxes = {
    "y": (np.array([[3.0, 2.0, 8.0], [5.0, 6.0, 2.0]]), np.array([[3.0, 2.0, 8.0], [5.0, 6.0, 2.0]])),
    "u": (np.array([[2.0] * 3, [3.0] * 3]), np.array([[2.0] * 3, [3.0] * 3])),
}


@pytest.mark.parametrize(
    ("boxes", "cuts"),
    # Where all sizes of blocks are given but those of one cut, bounds of the others are the wider ones, too.
    [(BOXES, CUTS), (BOXES, BLOCK_CUTS), (BOXES, DECIDING), (GIVEN, CUTS), (GIVEN, DECIDING)],
)
@pytest.mark.parametrize(
    "cost",
    [NEAR, CASES, OVER, Const(3), Add((times(NEAR, Y), CASES, OVER)), Max((CASES, times(OVER, CASES)))],
)
def test_a_cut_bounds_as_a_box_with_that_cut_does(cost: Cost, boxes: Boxes, cuts: Boxes) -> None:
    found = cut_bounds(Parts.of(cost), boxes, cuts)

    assert found.keys() == cuts.keys()
    for name, (low, high) in cuts.items():
        for half in (0, 1):
            whole = bounds_all(cost, {**boxes, name: (low[half], high[half])}, 3)[0]
            assert found[name][half].tolist() == whole.tolist()


def test_without_cuts_nothing_is_bounded() -> None:
    assert cut_bounds(Parts.of(NEAR), BOXES, {}) == {}
