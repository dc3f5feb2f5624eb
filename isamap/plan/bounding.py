"""Between what a cost lies in many boxes at once: interval arithmetic, one array operation per part.

    bounds_all(cost, {"nest0.block.k": (array([64, 128]), array([256, 256]))}, 2)  ->  least, most

What each operation does to intervals stands here once, whether the boxes are cut (`isamap.plan.cutting`) or
not; how the numbers lie is in `isamap.plan.rows`. They are in double precision: whole ones are exact up to
2**53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import assert_never, cast

import numpy as np

from isamap.plan.batch import Numbers, Some, block_classes_all
from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Max, Mul, OverBlocks, Threshold
from isamap.plan.rows import Rows, in_fewest

Box = tuple[Some, Some]
"""Least and most of each box, or both as one number that is the same for all."""
Ends = tuple[Numbers, Numbers]
Boxes = Mapping[str, Box]

# Between what nothing lies.
NOWHERE = np.array([[[np.inf]], [[-np.inf]]])


def bounds_all(cost: Cost, boxes: Boxes, count: int) -> Ends:
    """Between what the cost lies in each of `count` boxes, given per decision. Shapes: (count,) each."""
    ends = {name: in_fewest(np.array(box, np.float64).reshape(2, 1, -1)) for name, box in boxes.items()}
    found = bounded(cost, Rows(ends))[:, 0]
    return np.broadcast_to(found[0], (count,)), np.broadcast_to(found[-1], (count,))


def bounded(cost: Cost, rows: Rows) -> Numbers:
    """Between what the cost lies, in rows. Shapes: (ends, rows, boxes)."""
    with np.errstate(all="ignore"):  # what no box has may have no bounds
        return _bounded(cost, rows)


def _bounded(cost: Cost, rows: Rows) -> Numbers:
    if (known := rows.known.get(id(cost))) is not None:
        return known
    match cost:
        case Const(value):
            found = np.array([[[value]]], np.float64)
        case Decision(name):
            found = rows.boxes[name]
        case Add(parts):
            found = reduce(np.add, _lined(cost, parts, rows))
        case Mul(parts):
            found = reduce(np.multiply, _lined(cost, parts, rows))
        case Max(parts):
            found = reduce(np.maximum, _lined(cost, parts, rows))
        case CeilDiv(dividend, divisor):
            above, below = _lined(cost, (dividend, divisor), rows)
            found = np.ceil(above / below[::-1])
        case Cases(decision, branches):
            found = _any_of(cost, decision, branches, rows)
        case Threshold(load, limit, below, above):
            loaded, under, over = _lined(cost, (load, below, above), rows)
            found = np.where(loaded > limit, over, under)
        case OverBlocks(axes, body):
            found = _over_blocks(cost, axes, body, rows)
        case _:
            assert_never(cost)
    rows.known[id(cost)] = found
    return found


def _lined(cost: Cost, parts: Sequence[Cost], rows: Rows) -> list[Numbers]:
    """Between what each part lies, in the rows of the whole."""
    whole = rows.needed(cost)
    return [rows.lined(_bounded(part, rows), rows.needed(part), whole) for part in parts]


def _any_of(cost: Cost, decision: str, branches: Sequence[tuple[int, Cost]], rows: Rows) -> Numbers:
    """Between the least and the most of the branches that a decision leaves."""
    mine, whole = rows.joined((decision,)), rows.needed(cost)
    is_decided = len(rows.boxes[decision]) == 1
    found = NOWHERE
    for key, part in branches:
        inside = rows.inside(decision, key)
        if inside is False:
            continue
        own = rows.lined(_bounded(part, rows), rows.needed(part), whole)
        if inside is True:
            found = own if found is NOWHERE else _either(found, own)
        elif is_decided or found is NOWHERE:  # no other branch is left where this one is
            found = np.where(rows.lined(inside, mine, whole), own, found)
        else:
            found = _either(found, np.where(rows.lined(inside, mine, whole), own, NOWHERE))
    return found


def _either(one: Numbers, other: Numbers) -> Numbers:
    """Between the least and the most of two."""
    return np.concatenate((np.minimum(one[:1], other[:1]), np.maximum(one[-1:], other[-1:])))


def _over_blocks(cost: Cost, axes: Sequence[tuple[str, int]], body: Cost, rows: Rows) -> Numbers:
    """Where the sizes of blocks are given, their sum; else as few or many as there may be, of any size."""
    inner, whole = rows.needed(body), rows.needed(cost)
    names = [name for name, _ in axes]
    mine = rows.joined(names)
    spans = {name: rows.boxes[name] for name in names}
    if all(len(span) == 1 for span in spans.values()):
        found: list[Numbers] = []
        for n, made in _block_classes(axes, spans):
            own = rows.lined(_bounded(body, rows.inside_blocks(made)), inner, whole)
            times = rows.lined(n, mine, whole)
            # A class that a box has no block of may have no bounds there, nor does it count.
            found.append(np.where(times > 0, times * own, 0.0))
        return reduce(np.add, found)
    sizes = {name: np.concatenate((np.ones_like(span[-1:]), span[-1:])) for name, span in spans.items()}
    own = rows.lined(_bounded(body, rows.inside_blocks(sizes)), inner, whole)
    counts = [np.ceil(issues / spans[name][::-1]) for name, issues in axes]
    return rows.lined(reduce(np.multiply, counts), mine, whole) * own


def _block_classes(
    axes: Sequence[tuple[str, int]], sizes: Mapping[str, Numbers]
) -> list[tuple[Numbers, dict[str, Numbers]]]:
    """As `block_classes_all`, which makes arrays of arrays."""
    found = block_classes_all(axes, sizes, np.ones((1, 1, 1)))
    return cast("list[tuple[Numbers, dict[str, Numbers]]]", found)
