"""Evaluate a cost for many assignments at once: one array operation per node.

    evaluate_all(cost, {"nest0.block.k": array([64, 128, 256])}, 3)  ->  array([…, …, …])

The results equal those of `number`, in double precision: integers are exact up to 2**53. A value that is
equal for all assignments is one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import ceil, isfinite, nan
from operator import add, mul
from typing import assert_never, cast

import numpy as np
from numpy.typing import NDArray

from isamap.plan.cost import algebra
from isamap.source.records import dataclass, field

Numbers = NDArray[np.float64]
Some = float | Numbers
"""Numbers of many assignments, or one that is the same for all: of most parts of a cost there is just one."""
Truths = bool | NDArray[np.bool_]
Values = Mapping[str, Some]
Fold = Callable[[Some, Some], Some]
PLUS, TIMES = cast("Fold", add), cast("Fold", mul)  # whose own types cannot say so


def evaluate_all(cost: algebra.Cost, values: Values, count: int) -> Numbers:
    """Return the value for each of `count` assignments, given as arrays by decision. Shapes: (count,).

    Raises: KeyError for a decision that is not given. A value without a branch gives nan.
    """
    with np.errstate(all="ignore"):  # branches that are not taken may overflow
        return np.broadcast_to(_evaluate_batch(cost, _Batch(values)), (count,))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Assignments as arrays by decision, with cached values of shared parts.

    `parts` holds the values of shared parts by identity, `takers` the assignments that have a value, and
    their number.
    """

    values: Values
    parts: dict[int, Some] = field(default_factory=dict[int, Some])
    takers: dict[tuple[str, int], tuple[NDArray[np.bool_], int]] = field(
        default_factory=dict[tuple[str, int], tuple[NDArray[np.bool_], int]]
    )


def _evaluate_batch(cost: algebra.Cost, batch: _Batch) -> Some:
    if (known := batch.parts.get(id(cost))) is not None:
        return known
    found: Some
    match cost:
        case algebra.Const(value):
            return float(value)
        case algebra.Decision(name):
            return batch.values[name]
        case algebra.Cases(decision, branches):
            found = _take_branches(decision, branches, batch)
        case algebra.Mul(parts):
            found = reduce(TIMES, [_evaluate_batch(part, batch) for part in parts])
        case algebra.Add(parts):
            found = reduce(PLUS, [_evaluate_batch(part, batch) for part in parts])
        case algebra.Threshold(load, limit, below, above):
            found = _choose_cost(_evaluate_batch(load, batch) > limit, below, above, batch)
        case algebra.Max(parts):
            found = reduce(_larger, [_evaluate_batch(part, batch) for part in parts])
        case algebra.CeilDiv(dividend, divisor):
            found = _ceildiv(_evaluate_batch(dividend, batch), _evaluate_batch(divisor, batch))
        case algebra.OverBlocks(axes, body):
            kinds = block_classes_all(axes, batch.values)
            found = reduce(
                PLUS, [n * _evaluate_batch(body, _Batch({**batch.values, **made})) for n, made in kinds]
            )
        case _:
            assert_never(cost)
    batch.parts[id(cost)] = found
    return found


def _take_branches(decision: str, branches: tuple[tuple[int, algebra.Cost], ...], batch: _Batch) -> Some:
    """Return the branches selected by the values of a decision. Unselected branches are not evaluated."""
    values = batch.values[decision]
    if not isinstance(values, np.ndarray):
        return next((_evaluate_batch(part, batch) for key, part in branches if key == values), nan)
    found: Some = nan
    left = values.size
    for key, part in branches:
        taking, count = _assignments_with(decision, key, batch)
        if count:
            own = _evaluate_batch(part, batch)
            # The first one stands for all, until the others have theirs.
            found = own if left == values.size else np.where(taking, own, found)
            left -= count
    if left:
        return np.where(np.isin(values, [key for key, _ in branches]), found, nan)
    return found


def _assignments_with(decision: str, value: int, batch: _Batch) -> tuple[NDArray[np.bool_], int]:
    """Return a mask and the count of the assignments in which a decision has a given value."""
    found = batch.takers.get((decision, value))
    if found is None:
        taking = np.equal(batch.values[decision], value)
        found = batch.takers[decision, value] = taking, int(np.count_nonzero(taking))
    return found


def _choose_cost(exceeds: Truths, below: algebra.Cost, above: algebra.Cost, batch: _Batch) -> Some:
    """Return `above` or `below` for each assignment. A cost that no assignment needs is not evaluated."""
    if isinstance(exceeds, bool):
        return _evaluate_batch(above if exceeds else below, batch)
    # Counting takes a tenth of the time of numpy's `any` and `all`.
    count = np.count_nonzero(exceeds)
    if count in (0, exceeds.size):
        return _evaluate_batch(above if count else below, batch)
    return np.where(exceeds, _evaluate_batch(above, batch), _evaluate_batch(below, batch))


def _larger(one: Some, other: Some) -> Some:
    if isinstance(one, float) and isinstance(other, float):
        return one if one > other or one != one else other  # what is not a number stays so, as in arrays
    return np.maximum(one, other)


def _smaller(one: Some, other: Some) -> Some:
    if isinstance(one, float) and isinstance(other, float):
        return one if one < other or one != one else other
    return np.minimum(one, other)


def _ceildiv(dividend: Some, divisor: Some) -> Some:
    if isinstance(dividend, float) and isinstance(divisor, float) and divisor and isfinite(dividend):
        return float(ceil(dividend / divisor))
    return np.ceil(np.divide(dividend, divisor))


def block_classes_all(
    axes: Sequence[tuple[str, int]], values: Values, one: Some = 1.0
) -> list[tuple[Some, dict[str, Some]]]:
    """Return the classes of register blocks: the number of equal blocks, and their sizes.

    Where an assignment has no block of a class, its count is 0 and its sizes are 1. `one` is how 1 is given.
    """
    found: list[tuple[Some, dict[str, Some]]] = [(one, {})]
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
