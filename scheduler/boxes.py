"""What is not decided yet about register blocks, as boxes: between which values each decision lies.

Decisions are columns of arrays, values are places in rising lists, so that hundreds of boxes are cut at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isamap.plan.bounding import Ends
from isamap.plan.problem import TileAxis
from isamap.scheduler.crossing import open_values
from isamap.scheduler.space import RegisterBlock, Space
from isamap.scheduler.summing import sum_factors
from isamap.scheduler.sums import summed_axis

Places = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Boxes:
    """What is left of register blocks: between which places each decision lies, and what costs no less.

    Shapes: `owner` (boxes), the number of the register block; `low` and `high` (boxes, names); `floors`
    (boxes), in nanoseconds.
    """

    owner: Places
    low: Places
    high: Places
    floors: Floats

    def can_be_cut(self) -> Mask:
        """Which of them leave anything open."""
        return np.any(self.high > self.low, axis=1)

    def taken(self, numbers: Places) -> Boxes:
        """Some of them."""
        return Boxes(self.owner[numbers], self.low[numbers], self.high[numbers], self.floors[numbers])


class Waiting(NamedTuple):
    """A box by itself. `number` tells boxes of one floor apart: those come first that were there first."""

    floor: float
    number: int
    owner: int
    low: Places
    high: Places


@dataclass(slots=True)
class Queue:
    """Boxes that wait to be cut, by their floors. `waiting` is a heap, `count` how many there have been."""

    waiting: list[Waiting] = field(default_factory=list[Waiting])
    count: int = 0

    def least_ns(self) -> float:
        """What no box here undercuts; infinite without any."""
        return self.waiting[0].floor if self.waiting else inf

    def add(self, boxes: Boxes, price_ns: float) -> None:
        """Lets those wait whose floor is below the price."""
        for position in np.flatnonzero(boxes.floors < price_ns).tolist():
            floor, owner = float(boxes.floors[position]), int(boxes.owner[position])
            heappush(
                self.waiting, Waiting(floor, self.count, owner, boxes.low[position], boxes.high[position])
            )
            self.count += 1

    def lowest(self, most: int, price_ns: float) -> Boxes:
        """The lowest boxes, which wait no more: up to so many, and only those below the price."""
        found: list[Waiting] = []
        while len(found) < most and self.least_ns() < price_ns:
            found.append(heappop(self.waiting))
        _, _, owner, low, high = zip(*found, strict=True)
        floors = np.array([box.floor for box in found], np.float64)
        return Boxes(np.array(owner, np.int64), np.stack(low), np.stack(high), floors)


@dataclass(frozen=True, slots=True)
class Domains:
    """The values of each decision, rising, and the place of the last one.

    Shapes: `values` (blocks, most values) each, `last` (blocks, names).
    """

    names: tuple[str, ...]
    values: tuple[Floats, ...]
    last: Places

    def box(self, number: int, owner: Places, low: Places, high: Places) -> Ends:
        """Between which values a decision lies, given by places."""
        values = self.values[number]
        return values[owner, low[:, number]], values[owner, high[:, number]]

    def ends(self, boxes: Boxes, number: int) -> dict[str, tuple[int, int]]:
        """Between which values each decision lies in one of the boxes."""
        owner, places = boxes.owner[number], zip(boxes.low[number], boxes.high[number], strict=True)
        pairs = zip(self.names, self.values, places, strict=True)
        return {name: (int(own[owner, low]), int(own[owner, high])) for name, own, (low, high) in pairs}


def domains_of(space: Space, blocks: Sequence[RegisterBlock]) -> Domains:
    """What may be decided beside each of these register blocks."""
    own: dict[str, list[list[int]]] = {}
    for axis in space.axes:
        if axis == summed_axis(space.option):
            own |= _summed(space, axis, blocks)
            continue
        factors = [block.get(axis.name, 1) for block in blocks]
        sizes = {f: sorted(space.blocks(axis, f) or (axis.extent,)) for f in set(factors)}
        own[space.block(axis)] = [sizes[f] for f in factors]
        if not axis.is_reduction:
            own[space.unroll(axis)] = [[f] for f in factors]
    same = {name: [0, 1] for name, _, _ in (*space.order_pairs(), *space.sweep_pairs())}
    same = {name: [space.fixed[name]] if name in space.fixed else values for name, values in same.items()}
    same |= {name: sorted(values) for name, values in open_values(space).items()}
    same |= {space.stage(o): sorted(space.stage_values(o)) for o in space.option.operands}
    own |= {name: [values] * len(blocks) for name, values in same.items()}
    return Domains(
        tuple(own),
        tuple(_padded(lists) for lists in own.values()),
        np.array([[len(values) - 1 for values in lists] for lists in own.values()], np.int64).T,
    )


def _summed(space: Space, axis: TileAxis, blocks: Sequence[RegisterBlock]) -> dict[str, list[list[int]]]:
    """Per register block how a sum is unrolled, and its cache blocks under any of that."""
    factors = [sorted(sum_factors(space, block)) or [1] for block in blocks]
    sizes = {f: space.blocks(axis, f) or (axis.extent,) for own in factors for f in own}
    joined = [sorted({size for factor in own for size in sizes[factor]}) for own in factors]
    return {space.block(axis): joined, space.unroll(axis): factors}


def _padded(lists: Sequence[Sequence[int]]) -> Floats:
    most = max(map(len, lists))
    return np.array([[*values, *[values[-1]] * (most - len(values))] for values in lists], np.float64)


def ordered(space: Space, domains: Domains, boxes: Boxes) -> Boxes:
    """The boxes, with orders that follow from their sizes and from other orders; without those of nothing.

    As in the solver's model, loops that run once stand innermost, in their order, and none goes in circles.
    """
    low, high = boxes.low.copy(), boxes.high.copy()
    place = {name: number for number, name in enumerate(domains.names)}
    for sweep, axes, pairs in (
        (False, space.axes, space.order_pairs()),
        (True, space.register_axes, space.sweep_pairs()),
    ):
        if any(name in space.fixed for name, _, _ in pairs):
            continue
        once, never = dict[str, Mask](), dict[str, Mask]()
        for axis in axes:
            least, most = domains.box(place[space.block(axis)], boxes.owner, low, high)
            if sweep:
                step = axis.tile * domains.box(place[space.unroll(axis)], boxes.owner, low, high)[0]
                once[axis.name], never[axis.name] = most <= step, least > step
            else:
                once[axis.name], never[axis.name] = least >= axis.extent, most < axis.extent
        around = {(first.name, second.name): place[name] for name, first, second in pairs}
        for (first, second), number in around.items():
            low[:, number] |= once[second]
            high[:, number] &= ~(once[first] & never[second])
        for a, b, c in combinations([axis.name for axis in axes], 3):
            _no_circle(low, high, around[a, b], around[b, c], around[a, c])
    possible = np.flatnonzero((low <= high).all(axis=1))
    return Boxes(boxes.owner, low, high, boxes.floors).taken(possible)


def _no_circle(low: Places, high: Places, ab: int, bc: int, ac: int) -> None:
    """Three pairs of loops, as far as two of them decide the third: a around b, b around c, a around c."""
    low[:, ac] |= low[:, ab] & low[:, bc]
    high[:, ac] &= high[:, ab] | high[:, bc]
    high[:, ab] &= high[:, ac] | (1 - low[:, bc])
    high[:, bc] &= high[:, ac] | (1 - low[:, ab])
    low[:, ab] |= low[:, ac] & (1 - high[:, bc])
    low[:, bc] |= low[:, ac] & (1 - high[:, ab])
