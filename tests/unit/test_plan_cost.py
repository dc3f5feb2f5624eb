"""Cost expressions: their values, their bounds, and how they simplify."""

from __future__ import annotations

import pytest

from isamap.plan.cost import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    Threshold,
    bounds,
    evaluate,
    largest,
    times,
    total,
)

X, Y = Decision("x"), Decision("y")


@pytest.mark.parametrize(
    ("cost", "value"),
    [
        (Const(3), 3),
        (Add((X, Y)), 12),
        (times(X, Y, 2), 70),
        (Max((X, Y)), 7),
        (CeilDiv(X, Y), 2),
        (CeilDiv(Y, X), 1),
        (Cases("x", ((1, Const(10)), (7, Y))), 5),
        (Threshold(X, 6, Const(1), Y), 5),
        (Threshold(X, 7, Const(1), Y), 1),
    ],
)
def test_an_expression_has_a_value(cost: Cost, value: int) -> None:
    assert evaluate(cost, {"x": 7, "y": 5}) == value


def test_a_missing_branch_is_an_error() -> None:
    with pytest.raises(KeyError):
        evaluate(Cases("x", ((1, Const(1)),)), {"x": 2})


def test_whole_numbers_stay_whole() -> None:
    assert isinstance(evaluate(times(CeilDiv(X, Const(3)), 4), {"x": 10**18}), int)


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
    ],
)
def test_bounds_enclose(cost: Cost, interval: tuple[int, int]) -> None:
    assert bounds(cost, {"x": (1, 3), "y": (2, 4)}) == interval


def test_products_fold_their_constants() -> None:
    assert times(X) is X
    assert evaluate(times(2, 3), {}) == 6
    assert isinstance(times(0, X), Const)


def test_sums_and_maxima_of_little_are_simple() -> None:
    assert total([Const(0), X]) is X
    assert evaluate(total([]), {}) == 0
    assert largest([X]) is X
    assert evaluate(largest([]), {}) == 0
