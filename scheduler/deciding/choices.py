"""List the decisions about an option once: for lower bounds, for boxes and for the solver's literals.

    choices_of(space, ({"m": 6}, {"m": 4}))
    ->  stage of a: 0, 2     block and unrolling of m: (96, 6), (48, 6) or (64, 4)     order of m and k: 0, 1

Register blocks that allow the same values of a choice form one kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from isamap.plan.cost import Cost
from isamap.plan.cost.arrays import Numbers
from isamap.plan.cost.intervals import Box, bounds_all
from isamap.plan.problem import TileAxis
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import RegisterBlock, Space
from isamap.scheduler.deciding.summing import sum_factors
from isamap.scheduler.deciding.sums import summed_axis
from isamap.source.records import dataclass

Places = NDArray[np.int64]
Way = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Decisions that are made together, with their possible values for each kind of register block.

    A block without any way is infeasible. Shapes: `values` (names, kinds, most ways), padded; `counts`
    (kinds,); `kinds` (blocks,).
    """

    names: tuple[str, ...]
    ways: tuple[tuple[Way, ...], ...]
    kinds: Places
    values: Numbers
    counts: Places

    @staticmethod
    def of(
        names: tuple[str, ...],
        ways: Sequence[Sequence[Way]],
        kinds: Sequence[int],
        instead: Sequence[Way] = (),
    ) -> Choice:
        """Return the choice of these values by kind of register block. `instead` bounds kinds without values."""
        most = max(1, *map(len, ways))
        listed = [[*own] or [instead[kind]] for kind, own in enumerate(ways)]
        padded = [[*own, *[own[-1]] * (most - len(own))] for own in listed]
        values = np.array(padded, np.float64).transpose(2, 0, 1)
        counts = np.array([len(own) for own in ways], np.int64)
        return Choice(names, tuple(map(tuple, ways)), np.asarray(kinds, np.int64), values, counts)

    def spans(self, owner: Places) -> Iterator[tuple[str, Box]]:
        """Yield the ranges of each decision for some of the register blocks."""
        kinds = self.kinds[owner]
        for name, own in zip(self.names, self.values, strict=True):
            yield name, (own.min(axis=1)[kinds], own.max(axis=1)[kinds])


def choices_of(space: Space, blocks: Sequence[RegisterBlock]) -> Iterator[Choice]:
    """Yield the decisions other than the register block in the order of the search: sizes come first."""

    def alike(name: str, values: Sequence[int]) -> Choice:
        return Choice.of((name,), [[(value,) for value in values]], [0] * len(blocks), [(0,)])

    for operand in space.option.operands:
        yield alike(space.stage(operand), space.stage_values(operand))
    for axis in sorted(space.axes, key=lambda axis: not axis.is_reduction):
        yield _sizes(space, axis, blocks)
    for name, _, _ in (*space.order_pairs(), *space.sweep_pairs()):
        yield alike(name, (space.fixed[name],) if name in space.fixed else (0, 1))
    for name, values in open_values(space).items():
        yield alike(name, values)


def _sizes(space: Space, axis: TileAxis, blocks: Sequence[RegisterBlock]) -> Choice:
    """Return the choice of an axis' cache block, together with its unroll factor if that is open."""
    summed = axis == summed_axis(space.option)
    factors = [sum_factors(space, block) if summed else (block.get(axis.name, 1),) for block in blocks]
    kinds = {own: kind for kind, own in enumerate(dict.fromkeys(factors))}
    ways = [[(size, factor) for factor in own for size in space.blocks(axis, factor)] for own in kinds]
    spare = [(axis.extent, *(own[:1] or (1,))) for own in kinds]
    names = (space.block(axis), space.unroll(axis))
    if axis.is_reduction and not summed:
        names, ways, spare = (
            names[:1],
            [[way[:1] for way in own] for own in ways],
            [(axis.extent,)] * len(ways),
        )
    return Choice.of(names, ways, [kinds[own] for own in factors], spare)


@dataclass(frozen=True, slots=True)
class Boxes:
    """Register blocks by number, with the decisions made so far and lower bounds. Units: nanoseconds."""

    owner: Places
    made: Mapping[str, Numbers]
    floors: Numbers

    def taken(self, numbers: Places | NDArray[np.bool_]) -> Boxes:
        """Return the boxes with these numbers."""
        made = {name: values[numbers] for name, values in self.made.items()}
        return Boxes(self.owner[numbers], made, self.floors[numbers])

    def cut(self, choice: Choice) -> Boxes:
        """Return the boxes, each copied once for each value of a choice."""
        counts = choice.counts[choice.kinds[self.owner]]
        parts = self.taken(np.repeat(np.arange(len(counts)), counts))
        way = np.arange(len(parts.owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        own = zip(choice.names, choice.values[:, choice.kinds[parts.owner], way], strict=True)
        return Boxes(parts.owner, {**parts.made, **dict(own)}, parts.floors)

    def bounded(self, cost: Cost, left: Sequence[Choice]) -> Boxes:
        """Return the boxes with lower bounds that follow from the decisions made so far."""
        spans: dict[str, Box] = {name: (values, values) for name, values in self.made.items()}
        for choice in left:
            spans |= dict(choice.spans(self.owner))
        floors, _ = bounds_all(cost, spans, len(self.owner))
        return Boxes(self.owner, self.made, np.maximum(self.floors, floors))
