"""Floors of register blocks raised by splitting what is not decided, again and again where they are lowest.

A floor takes the least that each part of a cost can be: a loop order that suits one operand, a cache block
that suits another. With a decision cut into two halves, each half has a floor of its own, and the lower of
both is a floor of the whole. For the lowest boxes all cuts are tried at once, and the best one is kept.
What no half undercuts is proven, whatever else is decided, and the solver need not look there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from isamap.plan.batch import Box, bounds_all
from isamap.plan.problem import TileAxis
from isamap.scheduler.candidates import OpenOption
from isamap.scheduler.crossing import open_values
from isamap.scheduler.space import RegisterBlock, Space, summed_axis
from isamap.scheduler.summing import sum_factors

# How often boxes are cut, and so many at a time: some 10 ms each.
ROUNDS = 40
AT_ONCE = 128
# What the higher half of a cut counts beside the lower one.
PULL = 0.01

Places = NDArray[np.int64]
Floats = NDArray[np.float64]


def raised_floors(
    option: OpenOption,
    blocks: Sequence[RegisterBlock],
    floors_ns: Sequence[float],
    price_ns: float,
    stop: float = inf,
) -> tuple[float, ...]:
    """What no schedule with each of these register blocks undercuts, at most a price that is known.

    Never below the floors that are given, and no more is looked for from `stop` on the monotonic clock.
    Units: nanoseconds.
    """
    domains = _domains(option.space, blocks)
    known = np.minimum(np.asarray(floors_ns, np.float64), price_ns)
    owner = np.flatnonzero(known < price_ns)
    low, high = np.zeros((len(owner), len(domains.names)), np.int64), domains.last[owner]
    floors = known[owner]
    for _ in range(ROUNDS):
        open_ = np.flatnonzero((floors < price_ns) & (high > low).any(axis=1))
        if not len(open_) or time.monotonic() > stop:
            break
        cut = open_[np.argsort(floors[open_], kind="stable")[:AT_ONCE]]
        halves = _halves(option, domains, owner[cut], low[cut], high[cut])
        rest = np.setdiff1d(np.arange(len(owner)), cut)
        raised = np.minimum(np.maximum(np.tile(floors[cut], 2), halves.floors), price_ns)
        owner = np.concatenate([owner[rest], np.tile(owner[cut], 2)])
        low, high = np.concatenate([low[rest], halves.low]), np.concatenate([high[rest], halves.high])
        floors = np.concatenate([floors[rest], raised])
    for number in np.unique(owner):
        known[number] = floors[owner == number].min()
    return tuple(known.tolist())


@dataclass(frozen=True, slots=True)
class _Domains:
    """The values of each decision, rising, and the place of the last one.

    Shapes: `values` (blocks, most values) each, `last` (blocks, names).
    """

    names: tuple[str, ...]
    values: tuple[Floats, ...]
    last: Places

    def box(self, number: int, owner: Places, low: Places, high: Places) -> Box:
        """Between which values a decision lies, given by places."""
        values = self.values[number]
        return values[owner, low[:, number]], values[owner, high[:, number]]


def _domains(space: Space, blocks: Sequence[RegisterBlock]) -> _Domains:
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
    return _Domains(
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


@dataclass(frozen=True, slots=True)
class _Halves:
    """The two halves of each box, all first ones before all second ones. Units: `floors` in nanoseconds."""

    low: Places
    high: Places
    floors: Floats


def _halves(option: OpenOption, domains: _Domains, owner: Places, low: Places, high: Places) -> _Halves:
    """Each box cut along the decision whose lower half is highest."""
    count, names = low.shape
    middle = (low + high) // 2
    lows, highs = (np.repeat(ends[None, None], names, axis=1).repeat(2, axis=0) for ends in (low, high))
    each = np.arange(names, dtype=np.int64)
    highs[0, each, :, each] = middle.T
    lows[1, each, :, each] = np.minimum(middle + 1, high).T
    owners = np.tile(owner, 2 * names)
    flat = lows.reshape(-1, names), highs.reshape(-1, names)
    boxes = {name: domains.box(n, owners, *flat) for n, name in enumerate(domains.names)}
    floors = bounds_all(option.cost, boxes, len(owners))[0].reshape(2, names, count)
    # Where no cut raises both halves, one that raises the other one most.
    worth = floors.min(axis=0) + PULL * floors.max(axis=0)
    best = np.where((high > low).T, worth, -np.inf).argmax(axis=0)
    chosen = np.arange(count, dtype=np.int64)
    return _Halves(
        lows[:, best, chosen].reshape(-1, names),
        highs[:, best, chosen].reshape(-1, names),
        floors[:, best, chosen].reshape(-1),
    )
