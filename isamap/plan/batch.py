"""Costs of many assignments at once, and bounds of many boxes of them: one array operation per node.

    evaluate_all(cost, {"nest0.block.k": array([64, 128, 256])}, 3)  ->  array([…, …, …])

The numbers are those of `isamap.plan.cost`, in double precision: whole ones are exact up to 2**53. What is
the same for all is given as an array without axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Max, Mul, Threshold

Numbers = NDArray[np.float64]
Box = tuple[Numbers, Numbers]
Values = Mapping[str, Numbers]
Boxes = Mapping[str, Box]
Fold = Callable[[Numbers, Numbers], Numbers]


def evaluate_all(cost: Cost, values: Values, count: int) -> Numbers:
    """The value for each of `count` assignments, given per decision. Shapes: (count,).

    Raises: KeyError for a decision that is not given. A value without a branch gives nan.
    """
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        return np.broadcast_to(_evaluated(cost, values, {}), (count,))


def _evaluated(cost: Cost, values: Values, known: dict[int, Numbers]) -> Numbers:
    """`known` holds the values of shared parts, by identity."""
    if id(cost) in known:
        return known[id(cost)]
    match cost:
        case Const(value):
            found = np.asarray(value, np.float64)
        case Decision(name):
            found = values[name]
        case Add(parts):
            found = _folded(np.add, [_evaluated(part, values, known) for part in parts])
        case Mul(parts):
            found = _folded(np.multiply, [_evaluated(part, values, known) for part in parts])
        case Max(parts):
            found = _folded(np.maximum, [_evaluated(part, values, known) for part in parts])
        case CeilDiv(dividend, divisor):
            found = np.ceil(_evaluated(dividend, values, known) / _evaluated(divisor, values, known))
        case Cases(decision, branches):
            found = np.asarray(np.nan)
            taken = values[decision]
            for key, part in branches:
                if np.any(taken == key):
                    found = np.where(taken == key, _evaluated(part, values, known), found)
        case Threshold(load, limit, below, above):
            found = _beyond(_evaluated(load, values, known) > limit, below, above, values, known)
        case _:
            assert_never(cost)
    known[id(cost)] = found
    return found


def _beyond(
    exceeds: NDArray[np.bool_], below: Cost, above: Cost, values: Values, known: dict[int, Numbers]
) -> Numbers:
    """One of two costs; one that nobody takes is not looked at."""
    if not np.any(exceeds):
        return _evaluated(below, values, known)
    if np.all(exceeds):
        return _evaluated(above, values, known)
    return np.where(exceeds, _evaluated(above, values, known), _evaluated(below, values, known))


def _folded(fold: Fold, parts: list[Numbers]) -> Numbers:
    """From left to right, as `sum` and `prod` do."""
    return reduce(fold, parts)


def bounds_all(cost: Cost, boxes: Boxes, count: int) -> Box:
    """Between what the cost lies in each of `count` boxes, given per decision. Shapes: (count,) each."""
    with np.errstate(all="ignore"):
        low, high = _bounded(cost, boxes, {})
    return np.broadcast_to(low, (count,)), np.broadcast_to(high, (count,))


def _bounded(cost: Cost, boxes: Boxes, known: dict[int, Box]) -> Box:
    if id(cost) in known:
        return known[id(cost)]
    match cost:
        case Const(value):
            number = np.asarray(value, np.float64)
            found = number, number
        case Decision(name):
            found = boxes[name]
        case Add(parts):
            found = _both(np.add, [_bounded(part, boxes, known) for part in parts])
        case Mul(parts):
            found = _both(np.multiply, [_bounded(part, boxes, known) for part in parts])
        case Max(parts):
            found = _both(np.maximum, [_bounded(part, boxes, known) for part in parts])
        case CeilDiv(dividend, divisor):
            (least, most), (small, large) = (_bounded(part, boxes, known) for part in (dividend, divisor))
            found = np.ceil(least / large), np.ceil(most / small)
        case Cases(decision, branches):
            found = _any_of(boxes[decision], branches, boxes, known)
        case Threshold(load, limit, below, above):
            least, most = _bounded(load, boxes, known)
            under, over = _bounded(below, boxes, known), _bounded(above, boxes, known)
            found = np.where(least > limit, over[0], under[0]), np.where(most <= limit, under[1], over[1])
        case _:
            assert_never(cost)
    known[id(cost)] = found
    return found


def _any_of(box: Box, branches: tuple[tuple[int, Cost], ...], boxes: Boxes, known: dict[int, Box]) -> Box:
    """Between the least and the most of the branches that a decision's box leaves."""
    low, high = np.asarray(np.inf), np.asarray(-np.inf)
    for key, part in branches:
        inside = (box[0] <= key) & (key <= box[1])
        if np.any(inside):
            least, most = _bounded(part, boxes, known)
            low = np.where(inside, np.minimum(low, least), low)
            high = np.where(inside, np.maximum(high, most), high)
    return low, high


def _both(fold: Fold, parts: list[Box]) -> Box:
    return _folded(fold, [low for low, _ in parts]), _folded(fold, [high for _, high in parts])
