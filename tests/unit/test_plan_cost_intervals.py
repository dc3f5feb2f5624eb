"""Bounds of many boxes at once: those of each box by itself, found number by number."""

from __future__ import annotations

import numpy as np
import pytest
from bounds_of_one_box import bounds

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
    times,
)
from isamap.plan.cost.intervals import bounds_all

X, Y, Z = Decision("x"), Decision("y"), Decision("z")
CASES = Cases("z", ((0, X), (1, times(Y, Y)), (2, Const(7)), (5, Max((X, Y)))))
SIZES = Cases("y", tuple((size, Const(size % 4) if size % 2 else X) for size in range(1, 10)))
BLOCKS = OverBlocks((("x", 7), ("y", 9)), times(2, X, Y, Add((Z, SIZES))))
# In each of them the size of some block is open, as it is in all or in none where boxes are bounded at once.
BOXES: dict[str, list[tuple[int, int]]] = {
    "x": [(1, 8), (2, 2), (3, 9), (4, 4), (1, 1)],
    "y": [(2, 9), (3, 4), (2, 3), (2, 3), (3, 9)],
    "z": [(0, 2), (1, 1), (0, 5), (5, 5), (1, 2)],
}
COSTS = [
    Const(3),
    Add((X, times(0.25, Y), Const(1))),
    CeilDiv(times(X, 64), Y),
    Max((times(X, Y), times(3, Z))),
    CASES,
    Threshold(times(X, Y), 12, Const(1), times(3, X)),
    BLOCKS,
    Add((times(CASES, Y), Threshold(X, 3, CASES, times(2, CASES)), BLOCKS)),
]


def _found(cost: Cost, boxes: dict[str, list[tuple[int, int]]]) -> list[tuple[float, float]]:
    ends = {name: np.array(own, np.float64).T for name, own in boxes.items()}
    count = len(boxes["x"])
    low, high = bounds_all(cost, {name: (least, most) for name, (least, most) in ends.items()}, count)
    return list(zip(low.tolist(), high.tolist(), strict=True))


@pytest.mark.parametrize("decided", [(), ("x", "y"), ("x", "y", "z")])
@pytest.mark.parametrize("cost", COSTS)
def test_many_boxes_are_bounded_as_each_one_is(cost: Cost, decided: tuple[str, ...]) -> None:
    boxes = {
        n: [(low, low) if n in decided else (low, high) for low, high in own] for n, own in BOXES.items()
    }
    boxes["x"] = boxes["x"][1:2] * 5 if decided else boxes["x"]  # the same in all
    one_by_one = [bounds(cost, {name: own[n] for name, own in boxes.items()}) for n in range(5)]
    assert _found(cost, boxes) == one_by_one


@pytest.mark.parametrize(
    ("cost", "interval"),
    [
        (times(X, Y), (2, 12)),
        (CeilDiv(Const(10), X), (4, 10)),
        (Cases("x", ((1, Const(5)), (2, Const(3)), (9, Const(0)))), (3, 5)),
        (Threshold(Y, 3, Const(1), X), (1, 3)),
        (Threshold(Y, 1, Const(0), X), (1, 3)),
        (Threshold(Y, 4, Const(0), X), (0, 0)),
        (Max((X, Y)), (2, 4)),
        (OverBlocks((("x", 6),), X), (2, 18)),
        (OverBlocks((("x", 6),), Y), (4, 24)),
        (OverBlocks((), X), (1, 3)),
    ],
)
def test_bounds_enclose(cost: Cost, interval: tuple[int, int]) -> None:
    low, high = bounds_all(cost, {"x": (1.0, 3.0), "y": (2.0, 4.0)}, 1)
    assert (low.tolist(), high.tolist()) == ([interval[0]], [interval[1]])
    assert bounds(cost, {"x": (1, 3), "y": (2, 4)}) == interval


def test_bounds_over_blocks_of_given_sizes_leave_only_what_is_open() -> None:
    cost = OverBlocks((("x", 7),), times(X, Y))
    low, high = bounds_all(cost, {"x": (3.0, 3.0), "y": (2.0, 4.0)}, 1)
    assert (low.tolist(), high.tolist()) == ([14], [28])


def test_what_is_the_same_for_all_is_given_as_one_number() -> None:
    low, high = bounds_all(
        times(X, Y), {"x": (1.0, 3.0), "y": (np.array([1.0, 2.0]), np.array([2.0, 2.0]))}, 2
    )
    assert (low.tolist(), high.tolist()) == ([1, 2], [6, 6])
    least, most = bounds_all(X, {"x": (1.0, 3.0)}, 2)
    assert (least.tolist(), most.tolist()) == ([1, 1], [3, 3])


def test_where_no_branch_is_left_there_is_nothing() -> None:
    low, high = bounds_all(CASES, {"x": (1.0, 1.0), "y": (1.0, 1.0), "z": (3.0, 4.0)}, 1)
    assert (low.tolist(), high.tolist()) == ([np.inf], [-np.inf])
