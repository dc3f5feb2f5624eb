"""Cost expressions: their values, their bounds, and how they simplify."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.plan.cost import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    Mul,
    OverBlocks,
    Threshold,
    decisions_in,
    evaluate,
    is_whole,
    largest,
    times,
    total,
)
from isamap.plan.cost.arrays import evaluate_all
from isamap.plan.cost.intervals import bounds_all

X, Y = Decision("x"), Decision("y")
# Of 17 issues unrolled by 7 there are blocks of 7, 7 and 3; of 9 unrolled by 5 blocks of 5 and 4.
BLOCKS = OverBlocks((("x", 17), ("y", 9)), Max((times(X, Y), times(3, Add((X, Y))))))


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
        (OverBlocks((("x", 17), ("y", 9)), Const(1)), 6),
        (OverBlocks((("x", 17), ("y", 9)), times(X, Y)), 17 * 9),
        (BLOCKS, 2 * (36 + 33) + 24 + 21),
        (OverBlocks((), X), 7),
    ],
)
def test_an_expression_has_a_value(cost: Cost, value: int) -> None:
    assert evaluate(cost, {"x": 7, "y": 5}) == value


@pytest.mark.parametrize(
    ("cost", "names", "whole"),
    [
        (Const(3), (), True),
        (Const(0.5), (), False),
        (X, ("x",), True),
        (Add((X, Const(0.5))), (), False),
        (Mul((X, Y)), (), True),
        (Max((X, Const(0.5))), (), False),
        (CeilDiv(X, Y), (), True),
        (Cases("x", ((1, Y), (2, Const(0.5)))), ("x",), False),
        (Threshold(times(0.5, X), 1, Const(1), Y), (), True),
        (Threshold(X, 1, Const(1), times(0.5, Y)), (), False),
        (OverBlocks((("x", 17), ("y", 9)), X), ("x", "y"), True),
    ],
)
def test_a_node_names_decisions_and_is_whole_or_not(cost: Cost, names: tuple[str, ...], whole: bool) -> None:
    assert (decisions_in(cost), is_whole(cost, {})) == (names, whole)


def test_a_missing_branch_is_an_error() -> None:
    with pytest.raises(KeyError):
        evaluate(Cases("x", ((1, Const(1)),)), {"x": 2})


def test_whole_numbers_stay_whole() -> None:
    assert isinstance(evaluate(times(CeilDiv(X, Const(3)), 4), {"x": 10**18}), int)


def test_blocks_are_the_same_one_by_one_and_many_at_a_time() -> None:
    sizes = [(x, y) for x in range(1, 18) for y in range(1, 10)]
    values = {name: np.array([at[i] for at in sizes], np.float64) for i, name in enumerate("xy")}
    expected = [evaluate(BLOCKS, {"x": x, "y": y}) for x, y in sizes]
    assert evaluate_all(BLOCKS, values, len(sizes)).tolist() == expected
    low, high = bounds_all(BLOCKS, {name: (own, own) for name, own in values.items()}, len(sizes))
    assert low.tolist() == high.tolist() == expected


@pytest.mark.parametrize("shared", ["", "x", "y", "z", "xy", "xz", "yz", "xyz"])
def test_what_is_the_same_for_all_is_given_as_one_number(shared: str) -> None:
    near = Threshold(times(X, Y), 30, Const(1), times(3, CeilDiv(Const(64), X)))
    cost = Add((Max((near, Y)), Cases("z", ((0, X), (1, times(Y, 0.1, Y)))), BLOCKS))
    own = {"x": [1, 7, 12, 3], "y": [2, 9, 3, 4], "z": [1, 0, 1, 1]}
    sizes = {name: values[:1] * 4 if name in shared else values for name, values in own.items()}
    values = {n: float(v[0]) if n in shared else np.array(v, np.float64) for n, v in sizes.items()}
    expected = [float(evaluate(cost, {n: v[i] for n, v in sizes.items()})) for i in range(4)]
    assert evaluate_all(cost, values, 4).tolist() == expected
    low, high = bounds_all(cost, {name: (own, own) for name, own in values.items()}, 4)
    assert low.tolist() == high.tolist() == expected


def test_a_value_without_a_branch_is_no_number() -> None:
    cost = Cases("z", ((0, X), (1, times(2, X))))
    found = evaluate_all(cost, {"x": 3.0, "z": np.array([0.0, 1.0, 2.0])}, 3)
    assert found[:2].tolist() == [3, 6]
    assert np.isnan(found[2])
    assert np.isnan(evaluate_all(cost, {"x": 3.0, "z": 2.0}, 1)).all()


def test_many_bounds_over_blocks_enclose_every_size() -> None:
    ones = np.ones(2)
    low, high = bounds_all(BLOCKS, {"x": (ones, np.array([4.0, 9.0])), "y": (ones, ones * 3)}, 2)
    for i, most in enumerate((4, 9)):
        found = [evaluate(BLOCKS, {"x": x, "y": y}) for x in range(1, most + 1) for y in range(1, 4)]
        assert low[i] <= min(found) <= max(found) <= high[i]


def test_products_fold_their_constants() -> None:
    assert times(X) is X
    assert evaluate(times(2, 3), {}) == 6
    assert isinstance(times(0, X), Const)


def test_sums_and_maxima_of_little_are_simple() -> None:
    assert total([Const(0), X]) is X
    assert evaluate(total([]), {}) == 0
    assert largest([X]) is X
    assert evaluate(largest([]), {}) == 0
