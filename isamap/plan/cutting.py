"""Bounds of a cost in many boxes, each of them cut along each of its decisions in turn: all cuts at once.

    cut_bounds(Parts.of(cost), boxes, {"nest0.block.k": (least, most)})  ->  {"nest0.block.k": floors}

Between what a part of the cost lies is kept in one array of rows: first the boxes as they are, then two rows
for each cut on which the part depends, none for others. So a part is one array operation, not one per cut.
The numbers are those of `isamap.plan.batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TypeVar, assert_never

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
    decisions_in,
    parts_of,
)

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Boxes = Mapping[str, tuple[Numbers, Numbers]]
Kind = TypeVar("Kind", bound=np.generic)
Bits = int
"""A set of decisions."""

# Between what nothing lies.
NOWHERE = np.array([[[np.inf]], [[-np.inf]]])


@dataclass(frozen=True, slots=True)
class Parts:
    """A cost with the decisions that each part of it depends on. `needs` are by identity, `bits` by name.

    Sizes of register blocks depend on each other: the blocks of all axes are counted together.
    """

    cost: Cost
    bits: Mapping[str, Bits]
    needs: Mapping[int, Bits]

    @staticmethod
    def of(cost: Cost) -> Parts:
        """The same cost, looked through."""
        parts: dict[int, Cost] = {}
        _gather(cost, parts)
        names = dict.fromkeys(name for part in parts.values() for name in decisions_in(part))
        bits = {name: 1 << place for place, name in enumerate(names)}
        for part in parts.values():
            if isinstance(part, OverBlocks):
                joined = reduce(int.__or__, [bits[name] for name, _ in part.axes], 0)
                bits = {name: own | joined if own & joined else own for name, own in bits.items()}
        needs: dict[int, Bits] = {}
        for key, part in parts.items():  # a part comes behind those that it is made of
            own = [bits[name] for name in decisions_in(part)] + [needs[id(p)] for p in parts_of(part)]
            needs[key] = reduce(int.__or__, own, 0)
        return Parts(cost, bits, needs)


def _gather(cost: Cost, found: dict[int, Cost]) -> None:
    for part in parts_of(cost):
        if id(part) not in found:
            _gather(part, found)
    found[id(cost)] = cost


def cut_bounds(parts: Parts, boxes: Boxes, cuts: Boxes) -> dict[str, Numbers]:
    """Per cut, which are other boxes of one decision, what the cost is never below with them instead.

    Shapes: boxes (count,) or one for all; cuts and what is returned (2, count).
    """
    places = {name: 1 << place for place, name in enumerate(parts.bits) if name in cuts}
    rows = _Rows(parts, places, sum(places.values()), {})
    for name, box in boxes.items():
        if name in parts.bits:
            rows.boxes[name] = _with_cut(rows, name, box, cuts.get(name))
    with np.errstate(all="ignore"):
        low = _bounded(parts.cost, rows)[0]
    count = max(cut[0].shape[-1] for cut in cuts.values()) if cuts else 0
    own = rows.own(parts.needs[id(parts.cost)])
    found: dict[str, Numbers] = {}
    for name in cuts:
        first = 0 if name not in places or len(low) == 1 else _first_row(places[name], own)
        found[name] = np.broadcast_to(low[first : first + 2] if first else low[:1], (2, count))
    return found


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is known of parts: between what each lies, in rows.

    `places` are the cut decisions, `open` all of these. Shapes: least and most (or one that is both), rows
    (or one that is all), boxes (or one for all).
    """

    parts: Parts
    places: Mapping[str, Bits]
    open: Bits
    boxes: dict[str, Numbers]
    known: dict[int, Numbers] = field(default_factory=dict[int, Numbers])
    masks: dict[tuple[str, int], Mask | bool] = field(default_factory=dict[tuple[str, int], "Mask | bool"])

    def own(self, needs: Bits) -> Bits:
        """The cuts among some decisions."""
        return needs & self.open

    def lined(self, value: NDArray[Kind], needs: Bits, whole: Bits) -> NDArray[Kind]:
        """The rows of something, for what depends on more."""
        have, wanted = needs & self.open, whole & self.open
        if value.shape[1] == 1 or have == wanted:
            return value
        return value.take(_line(have, wanted), axis=1)

    def inside(self, decision: str, key: int) -> Mask | bool:
        """Where a decision may have a value: True or False where that is the same everywhere."""
        found = self.masks.get((decision, key))
        if found is None:
            box = self.boxes[decision]
            found = (box[:1] <= key) & (key <= box[-1:])
            holds = np.count_nonzero(found)
            if holds in (0, found.size):
                found = bool(holds)
            self.masks[decision, key] = found
        return found

    def inside_blocks(self, sizes: Mapping[str, Numbers]) -> _Rows:
        """The same, with register blocks of these sizes."""
        return replace(self, boxes={**self.boxes, **sizes}, known={}, masks={})


def _first_row(place: Bits, own: Bits) -> int:
    """The first of the two rows of a cut, among those of some cuts."""
    return 1 + 2 * (own & (place - 1)).bit_count()


@lru_cache(maxsize=4096)
def _line(have: Bits, wanted: Bits) -> NDArray[np.int64]:
    """For each row of some cuts the row of fewer cuts: the first where a cut is not among them."""
    line = [0]
    for place in (1 << n for n in range(wanted.bit_length())):
        if place & wanted:
            first = _first_row(place, have)
            line += [first, first + 1] if place & have else [0, 0]
    return np.array(line)


def _with_cut(
    rows: _Rows, name: str, box: tuple[Numbers, Numbers], cut: tuple[Numbers, Numbers] | None
) -> Numbers:
    """Between what a decision lies, in rows."""
    both = np.array(box, np.float64).reshape(2, 1, -1)
    own = rows.own(rows.parts.bits[name])
    if cut is not None:
        both = np.repeat(both, 1 + 2 * own.bit_count(), axis=1)
        first = _first_row(rows.places[name], own)
        both[:, first : first + 2] = np.array(cut)
    if both.shape[2] > 1 and (both == both[:, :, :1]).all():
        both = both[:, :, :1]
    return both[:1] if (both[0] == both[1]).all() else both


def _bounded(cost: Cost, rows: _Rows) -> Numbers:
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
            found = _bounded_over_blocks(cost, axes, body, rows)
        case _:
            assert_never(cost)
    rows.known[id(cost)] = found
    return found


def _lined(cost: Cost, parts: Sequence[Cost], rows: _Rows) -> list[Numbers]:
    """Between what each part lies, in the rows of the whole."""
    needs = rows.parts.needs
    whole = needs[id(cost)]
    return [rows.lined(_bounded(part, rows), needs[id(part)], whole) for part in parts]


def _any_of(cost: Cost, decision: str, branches: Sequence[tuple[int, Cost]], rows: _Rows) -> Numbers:
    """Between the least and the most of the branches that a decision leaves."""
    needs = rows.parts.needs
    mine, whole = rows.parts.bits[decision], needs[id(cost)]
    is_decided = len(rows.boxes[decision]) == 1
    found = NOWHERE
    for key, part in branches:
        inside = rows.inside(decision, key)
        if inside is False:
            continue
        own = rows.lined(_bounded(part, rows), needs[id(part)], whole)
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


def _bounded_over_blocks(cost: Cost, axes: Sequence[tuple[str, int]], body: Cost, rows: _Rows) -> Numbers:
    """Where the sizes of blocks are given, their sum; else as few or many as there may be, of any size."""
    needs = rows.parts.needs
    inner, whole = needs[id(body)], needs[id(cost)]
    mine = reduce(int.__or__, [rows.parts.bits[name] for name, _ in axes], 0)
    spans = [rows.boxes[name] for name, _ in axes]
    if all(len(span) == 1 for span in spans):
        total: Numbers | None = None
        for n, made in _block_classes(axes, spans):
            own = rows.lined(_bounded(body, rows.inside_blocks(made)), inner, whole)
            times = rows.lined(n, mine, whole)
            # A class that a box has no block of may have no bounds there, nor does it count.
            own = np.where(times > 0, times * own, 0.0)
            total = own if total is None else total + own
        assert total is not None
        return total
    sizes = {
        name: np.concatenate((np.ones_like(span[-1:]), span[-1:]))
        for (name, _), span in zip(axes, spans, strict=True)
    }
    own = rows.lined(_bounded(body, rows.inside_blocks(sizes)), inner, whole)
    counts = [np.ceil(issues / span[::-1]) for (_, issues), span in zip(axes, spans, strict=True)]
    return rows.lined(reduce(np.multiply, counts), mine, whole) * own


def _block_classes(
    axes: Sequence[tuple[str, int]], spans: Sequence[Numbers]
) -> list[tuple[Numbers, dict[str, Numbers]]]:
    """The sizes of register blocks: how many are alike, and their own sizes; without sizes that none has.

    Where a box has no block of a class, its count is 0 and its sizes are 1.
    """
    found: list[tuple[Numbers, dict[str, Numbers]]] = [(np.ones((1, 1, 1)), {})]
    for (name, issues), size in zip(axes, spans, strict=True):
        whole = np.floor(issues / size)
        rest = issues - whole * size
        kinds = ((whole, size), (np.minimum(rest, 1.0), np.maximum(rest, 1.0)))
        found = [
            (both, {**made, name: own})
            for n, made in found
            for count, own in kinds
            if np.count_nonzero(both := n * count)
        ]
    return found
