"""Bound a cost over many boxes at once: interval arithmetic, one array operation per part.

    bounds_all(cost, {"nest0.block.k": (array([64, 128]), array([256, 256]))}, 2)  ->  least, most

An interval has a least and a most value per box. Equal values are stored once. Numbers are in double
precision: whole ones are exact up to 2**53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import assert_never, cast

import numpy as np
from numpy.typing import NDArray

from isamap.plan.cost import algebra
from isamap.plan.cost.arrays import Numbers, Some, block_classes_all
from isamap.source.records import dataclass, field, replace

Box = tuple[Some, Some]
"""Least and most of each box, or both as one number that is the same for all."""
Ends = tuple[Numbers, Numbers]
Boxes = Mapping[str, Box]

# Between what nothing lies.
NOWHERE = np.array([[np.inf], [-np.inf]])


def bounds_all(cost: algebra.Cost, boxes: Boxes, count: int) -> Ends:
    """Return lower and upper bounds of the cost in each of `count` boxes. Shapes: (count,) each."""
    ends = {name: _in_fewest(np.array(box, np.float64).reshape(2, -1)) for name, box in boxes.items()}
    with np.errstate(all="ignore"):  # what no box has may have no bounds
        found = _bound_cost(cost, _Spans(ends))
    return np.broadcast_to(found[0], (count,)), np.broadcast_to(found[-1], (count,))


@dataclass(frozen=True, slots=True)
class _Spans:
    """The bounds of each decision, with cached bounds of parts (by identity) and of values.

    Shapes: (ends, boxes), with one end if both are the same, and one box if all are.
    """

    boxes: Mapping[str, Numbers]
    known: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    masks: dict[tuple[str, int], NDArray[np.bool_] | bool] = field(
        default_factory=dict[tuple[str, int], "NDArray[np.bool_] | bool"]
    )

    def inside(self, decision: str, key: int) -> NDArray[np.bool_] | bool:
        """Return where a decision may have a value. It is True or False if all boxes agree."""
        found = self.masks.get((decision, key))
        if found is None:
            box = self.boxes[decision]
            found = (box[:1] <= key) & (key <= box[-1:])
            holds = np.count_nonzero(found)
            if holds in (0, found.size):
                found = bool(holds)
            self.masks[decision, key] = found
        return found

    def inside_blocks(self, sizes: Mapping[str, Numbers]) -> _Spans:
        """Return the spans inside register blocks with these sizes."""
        return replace(self, boxes={**self.boxes, **sizes}, known={}, masks={})


def _in_fewest(both: Numbers) -> Numbers:
    """Return the bounds with axes of equal values reduced to length 1."""
    if both.shape[1] > 1 and (both == both[:, :1]).all():
        both = both[:, :1]
    return both[:1] if (both[0] == both[1]).all() else both


def _bound_cost(cost: algebra.Cost, spans: _Spans) -> Numbers:
    if (known := spans.known.get(id(cost))) is not None:
        return known
    match cost:
        case algebra.Const(value):
            found = np.array([[value]], np.float64)
        case algebra.Decision(name):
            found = spans.boxes[name]
        case algebra.Add(parts):
            found = reduce(np.add, [_bound_cost(part, spans) for part in parts])
        case algebra.Mul(parts):
            found = reduce(np.multiply, [_bound_cost(part, spans) for part in parts])
        case algebra.Max(parts):
            found = reduce(np.maximum, [_bound_cost(part, spans) for part in parts])
        case algebra.CeilDiv(dividend, divisor):
            found = np.ceil(_bound_cost(dividend, spans) / _bound_cost(divisor, spans)[::-1])
        case algebra.Cases(decision, branches):
            found = _bounds_of_branches(decision, branches, spans)
        case algebra.Threshold(load, limit, below, above):
            under, over = _bound_cost(below, spans), _bound_cost(above, spans)
            found = np.where(_bound_cost(load, spans) > limit, over, under)
        case algebra.OverBlocks(axes, body):
            found = _over_blocks(axes, body, spans)
        case _:
            assert_never(cost)
    spans.known[id(cost)] = found
    return found


def _bounds_of_branches(
    decision: str, branches: Sequence[tuple[int, algebra.Cost]], spans: _Spans
) -> Numbers:
    """Return the bounds over all branches that a decision may select."""
    is_decided = len(spans.boxes[decision]) == 1
    found = NOWHERE
    for key, part in branches:
        inside = spans.inside(decision, key)
        if inside is False:
            continue
        own = _bound_cost(part, spans)
        if inside is True:
            found = own if found is NOWHERE else _enclose(found, own)
        elif is_decided or found is NOWHERE:  # no other branch is left where this one is
            found = np.where(inside, own, found)
        else:
            found = _enclose(found, np.where(inside, own, NOWHERE))
    return found


def _enclose(one: Numbers, other: Numbers) -> Numbers:
    """Return bounds that enclose both."""
    return np.concatenate((np.minimum(one[:1], other[:1]), np.maximum(one[-1:], other[-1:])))


def _over_blocks(axes: Sequence[tuple[str, int]], body: algebra.Cost, spans: _Spans) -> Numbers:
    """Return the sum over blocks of given sizes, else bounds for any possible number and size of blocks."""
    own = {name: spans.boxes[name] for name, _ in axes}
    if all(len(span) == 1 for span in own.values()):
        # A class that a box has no block of may have no bounds there, nor does it count.
        return reduce(
            np.add,
            [
                np.where(n > 0, n * _bound_cost(body, spans.inside_blocks(made)), 0.0)
                for n, made in _block_classes(axes, own)
            ],
        )
    sizes = {name: np.concatenate((np.ones_like(span[-1:]), span[-1:])) for name, span in own.items()}
    counts = [np.ceil(issues / own[name][::-1]) for name, issues in axes]
    return reduce(np.multiply, counts) * _bound_cost(body, spans.inside_blocks(sizes))


def _block_classes(
    axes: Sequence[tuple[str, int]], sizes: Mapping[str, Numbers]
) -> list[tuple[Numbers, dict[str, Numbers]]]:
    """Return the classes of `block_classes_all` for one set of arrays."""
    found = block_classes_all(axes, sizes, np.ones((1, 1)))
    return cast("list[tuple[Numbers, dict[str, Numbers]]]", found)
