"""Costs of many assignments at once, and bounds of many boxes of them: one array operation per node.

    evaluate_all(cost, {"nest0.block.k": array([64, 128, 256])}, 3)  ->  array([…, …, …])

The numbers are those of `isamap.plan.cost`, in double precision: whole ones are exact up to 2**53. What is
the same for all is given as one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import ceil, inf, isfinite, nan
from operator import add, mul
from typing import assert_never, cast

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
Some = float | Numbers
"""Numbers of many assignments, or one that is the same for all: of most parts of a cost there is just one."""
Truths = bool | NDArray[np.bool_]
Box = tuple[Some, Some]
Ends = tuple[Numbers, Numbers]
Values = Mapping[str, Some]
Boxes = Mapping[str, Box]
Fold = Callable[[Some, Some], Some]
PLUS, TIMES = cast("Fold", add), cast("Fold", mul)  # whose own types cannot say so


def evaluate_all(cost: Cost, values: Values, count: int) -> Numbers:
    """The value for each of `count` assignments, given per decision. Shapes: (count,).

    Raises: KeyError for a decision that is not given. A value without a branch gives nan.
    """
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        return np.broadcast_to(_evaluated(cost, _Batch(values)), (count,))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Assignments, given per decision, and what is known of them.

    `parts` holds the values of shared parts by identity, `takers` who has a decision's value, and how many.
    """

    values: Values
    parts: dict[int, Some] = field(default_factory=dict[int, Some])
    takers: dict[tuple[str, int], tuple[NDArray[np.bool_], int]] = field(
        default_factory=dict[tuple[str, int], tuple[NDArray[np.bool_], int]]
    )


def _evaluated(cost: Cost, batch: _Batch) -> Some:
    if (known := batch.parts.get(id(cost))) is not None:
        return known
    found: Some
    match cost:
        case Const(value):
            return float(value)
        case Decision(name):
            return batch.values[name]
        case Cases(decision, branches):
            found = _taken(decision, branches, batch)
        case Mul(parts):
            found = reduce(TIMES, [_evaluated(part, batch) for part in parts])
        case Add(parts):
            found = reduce(PLUS, [_evaluated(part, batch) for part in parts])
        case Threshold(load, limit, below, above):
            found = _beyond(_evaluated(load, batch) > limit, below, above, batch)
        case Max(parts):
            found = reduce(_larger, [_evaluated(part, batch) for part in parts])
        case CeilDiv(dividend, divisor):
            found = _ceildiv(_evaluated(dividend, batch), _evaluated(divisor, batch))
        case OverBlocks(axes, body):
            kinds = _block_classes(axes, batch.values)
            found = reduce(
                PLUS, [n * _evaluated(body, _Batch({**batch.values, **made})) for n, made in kinds]
            )
        case _:
            assert_never(cost)
    batch.parts[id(cost)] = found
    return found


def _taken(decision: str, branches: tuple[tuple[int, Cost], ...], batch: _Batch) -> Some:
    """The branches that belong to the values of a decision; those that nobody takes are not looked at."""
    values = batch.values[decision]
    if not isinstance(values, np.ndarray):
        return next((_evaluated(part, batch) for key, part in branches if key == values), nan)
    found: Some = nan
    left = values.size
    for key, part in branches:
        who, count = _takers(decision, key, batch)
        if count:
            own = _evaluated(part, batch)
            # The first one stands for all, until the others have theirs.
            found = own if left == values.size else np.where(who, own, found)
            left -= count
    if left:
        return np.where(np.isin(values, [key for key, _ in branches]), found, nan)
    return found


def _takers(decision: str, value: int, batch: _Batch) -> tuple[NDArray[np.bool_], int]:
    """Which assignments have a value of a decision, and how many do."""
    found = batch.takers.get((decision, value))
    if found is None:
        who = np.equal(batch.values[decision], value)
        found = batch.takers[decision, value] = who, int(np.count_nonzero(who))
    return found


def _beyond(exceeds: Truths, below: Cost, above: Cost, batch: _Batch) -> Some:
    """One of two costs; one that nobody takes is not looked at."""
    if isinstance(exceeds, bool):
        return _evaluated(above if exceeds else below, batch)
    # Counting takes a tenth of the time of numpy's `any` and `all`.
    count = np.count_nonzero(exceeds)
    if count in (0, exceeds.size):
        return _evaluated(above if count else below, batch)
    return np.where(exceeds, _evaluated(above, batch), _evaluated(below, batch))


def _where(truths: Truths, then: Some, other: Some) -> Some:
    """One where it is true, else the other."""
    if isinstance(truths, bool):
        return then if truths else other
    return np.where(truths, then, other)


def _larger(one: Some, other: Some) -> Some:
    if isinstance(one, float) and isinstance(other, float):
        return one if one > other or one != one else other  # what is no number stays so, as in arrays
    return np.maximum(one, other)


def _smaller(one: Some, other: Some) -> Some:
    if isinstance(one, float) and isinstance(other, float):
        return one if one < other or one != one else other
    return np.minimum(one, other)


def _ceildiv(dividend: Some, divisor: Some) -> Some:
    if isinstance(dividend, float) and isinstance(divisor, float) and divisor and isfinite(dividend):
        return float(ceil(dividend / divisor))
    return np.ceil(np.divide(dividend, divisor))


def bounds_all(cost: Cost, boxes: Boxes, count: int) -> Ends:
    """Between what the cost lies in each of `count` boxes, given per decision. Shapes: (count,) each."""
    with np.errstate(all="ignore"):
        low, high = _bounded(cost, boxes, {})
    return np.broadcast_to(low, (count,)), np.broadcast_to(high, (count,))


def _bounded(cost: Cost, boxes: Boxes, known: dict[int, Box]) -> Box:
    if (before := known.get(id(cost))) is not None:
        return before
    found: Box
    match cost:
        case Const(value):
            number = float(value)
            return number, number
        case Decision(name):
            return boxes[name]
        case Add(parts):
            found = _both(PLUS, [_bounded(part, boxes, known) for part in parts])
        case Mul(parts):
            found = _both(TIMES, [_bounded(part, boxes, known) for part in parts])
        case Max(parts):
            found = _both(_larger, [_bounded(part, boxes, known) for part in parts])
        case CeilDiv(dividend, divisor):
            (least, most), (small, large) = (_bounded(part, boxes, known) for part in (dividend, divisor))
            found = _ceildiv(least, large), _ceildiv(most, small)
        case Cases(decision, branches):
            found = _any_of(boxes[decision], branches, boxes, known)
        case Threshold(load, limit, below, above):
            least, most = _bounded(load, boxes, known)
            under, over = _bounded(below, boxes, known), _bounded(above, boxes, known)
            found = _where(least > limit, over[0], under[0]), _where(most <= limit, under[1], over[1])
        case OverBlocks(axes, body):
            found = _bounded_over_blocks(axes, body, boxes)
        case _:
            assert_never(cost)
    known[id(cost)] = found
    return found


def _block_classes(axes: tuple[tuple[str, int], ...], values: Values) -> list[tuple[Some, dict[str, Some]]]:
    """The sizes of register blocks: how many are alike, and their own sizes; without sizes that none has.

    Where an assignment has no block of a class, its count is 0 and its sizes are 1.
    """
    found: list[tuple[Some, dict[str, Some]]] = [(1.0, {})]
    for name, issues in axes:
        size = values[name]
        whole = issues // size
        rest = issues - whole * size
        kinds = ((whole, size), (_smaller(rest, 1.0), _larger(rest, 1.0)))
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
        lows = [_where(n > 0, n * low, 0.0) for n, (low, _) in found]
        highs = [_where(n > 0, n * high, 0.0) for n, (_, high) in found]
        return reduce(PLUS, lows), reduce(PLUS, highs)
    inside = {name: (1.0, most) for (name, _), (_, most) in zip(axes, spans, strict=True)}
    least, most = _bounded(body, {**boxes, **inside}, {})
    few, many = (
        reduce(TIMES, [_ceildiv(float(n), s[end]) for (_, n), s in zip(axes, spans, strict=True)], 1.0)
        for end in (1, 0)
    )
    return few * least, many * most


def _any_of(box: Box, branches: tuple[tuple[int, Cost], ...], boxes: Boxes, known: dict[int, Box]) -> Box:
    """Between the least and the most of the branches that a decision's box leaves."""
    low: Some = inf
    high: Some = -inf
    for key, part in branches:
        inside = (box[0] <= key) & (key <= box[1])
        if inside if isinstance(inside, bool) else np.count_nonzero(inside):
            least, most = _bounded(part, boxes, known)
            low = _where(inside, _smaller(low, least), low)
            high = _where(inside, _larger(high, most), high)
    return low, high


def _both(fold: Fold, parts: list[Box]) -> Box:
    return reduce(fold, [low for low, _ in parts]), reduce(fold, [high for _, high in parts])
