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
)

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
        case OverBlocks(axes, body):
            kinds = _block_classes(axes, values)
            found = _folded(np.add, [n * _evaluated(body, {**values, **made}, {}) for n, made in kinds])
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
        case OverBlocks(axes, body):
            found = _bounded_over_blocks(axes, body, boxes)
        case _:
            assert_never(cost)
    known[id(cost)] = found
    return found


def _block_classes(
    axes: tuple[tuple[str, int], ...], values: Values
) -> list[tuple[Numbers, dict[str, Numbers]]]:
    """The sizes of register blocks: how many are alike, and their own sizes; without sizes that none has.

    Where an assignment has no block of a class, its count is 0 and its sizes are 1.
    """
    found: list[tuple[Numbers, dict[str, Numbers]]] = [(np.asarray(1.0), {})]
    for name, issues in axes:
        size = values[name]
        whole = np.floor(issues / size)
        rest = issues - whole * size
        kinds = ((whole, np.asarray(size)), (np.minimum(rest, 1.0), np.maximum(rest, 1.0)))
        found = [
            (both, {**made, name: own})
            for n, made in found
            for count, own in kinds
            if np.any(both := n * count)
        ]
    return found


def _bounded_over_blocks(axes: tuple[tuple[str, int], ...], body: Cost, boxes: Boxes) -> Box:
    """Where the sizes of blocks are given, their sum; else as few or many as there may be, of any size."""
    spans = [boxes[name] for name, _ in axes]
    if all(np.array_equal(low, high) for low, high in spans):
        given = {name: low for (name, _), (low, _) in zip(axes, spans, strict=True)}
        found = [
            (n, _bounded(body, {**boxes, **{name: (own, own) for name, own in made.items()}}, {}))
            for n, made in _block_classes(axes, given)
        ]
        # A class that a box has no block of may have no bounds there, nor does it count.
        lows = [np.where(n > 0, n * low, 0.0) for n, (low, _) in found]
        highs = [np.where(n > 0, n * high, 0.0) for n, (_, high) in found]
        return _folded(np.add, lows), _folded(np.add, highs)
    ones = np.asarray(1.0)
    inside = {name: (ones, most) for (name, _), (_, most) in zip(axes, spans, strict=True)}
    least, most = _bounded(body, {**boxes, **inside}, {})
    few, many = (
        _folded(np.multiply, [ones, *(np.ceil(n / s[end]) for (_, n), s in zip(axes, spans, strict=True))])
        for end in (1, 0)
    )
    return few * least, many * most


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
