"""Bounds of a cost in many boxes, each of them cut along each of its decisions in turn: all cuts at once.

    cut_bounds(Parts.of(cost), boxes, {"nest0.block.k": (least, most)})  ->  {"nest0.block.k": floors}

Each part of the cost is bounded once (`isamap.plan.bounding`), in as many rows as there are cuts on which it
depends (`isamap.plan.rows`): to the last bit what bounding the boxes of each cut by themselves gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from isamap.plan.batch import Numbers
from isamap.plan.bounding import bounded
from isamap.plan.cost import Cost, OverBlocks, decisions_in, parts_of
from isamap.plan.rows import Bits, Rows, first_row, in_fewest

Boxes = Mapping[str, tuple[Numbers, Numbers]]


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
    is_open = sum(places.values())
    rows = {
        name: _with_cut(box, cuts.get(name), places.get(name, 0), parts.bits[name] & is_open)
        for name, box in boxes.items()
        if name in parts.bits
    }
    low = bounded(parts.cost, Rows(rows, is_open, parts.bits, parts.needs))[0]
    count = max(cut[0].shape[-1] for cut in cuts.values()) if cuts else 0
    own = parts.needs[id(parts.cost)] & is_open
    found: dict[str, Numbers] = {}
    for name in cuts:
        first = 0 if name not in places or len(low) == 1 else first_row(places[name], own)
        found[name] = np.broadcast_to(low[first : first + 2] if first else low[:1], (2, count))
    return found


def _with_cut(
    box: tuple[Numbers, Numbers], cut: tuple[Numbers, Numbers] | None, place: Bits, own: Bits
) -> Numbers:
    """Between what a decision lies, in the rows of its `own` cuts, of which its cut has one place."""
    both = np.array(box, np.float64).reshape(2, 1, -1)
    if cut is not None:
        both = np.repeat(both, 1 + 2 * own.bit_count(), axis=1)
        first = first_row(place, own)
        both[:, first : first + 2] = np.array(cut)
    return in_fewest(both)
