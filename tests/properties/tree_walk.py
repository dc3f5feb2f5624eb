"""The loops of a nest, as `tree_price` walks them.

A loop that stands alone for its axis is one over register blocks, unless something inside it says that it is
one over cache blocks: another such loop, or a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule


@dataclass(frozen=True)
class Turn:
    """A loop around `hold`: how often it runs, and what its body covers of each axis, in elements."""

    axis: str
    trips: int
    inside: Mapping[str, int]


@dataclass(frozen=True)
class Walk:
    """`stages` as 1 per block and 2 as a whole; `depths` are the loops around each copy, `crossed` are the
    operands whose copies cross iterations, `beside` those whose copies stand in the loop that sums, `by_rows`
    those that are copied row after row.
    """

    option: NestOption
    turns: tuple[Turn, ...]
    held: Mapping[str, int]
    stages: Mapping[str, int]
    depths: Mapping[str, int]
    crossed: frozenset[str]
    copied: str
    copies: int
    beside: frozenset[str]
    by_rows: frozenset[str]

    @property
    def running(self) -> list[str]:
        return [axis.name for axis in self.option.axes if axis.extent > axis.tile]

    def steps(self, name: str) -> int:
        """Register blocks along an axis, issues of a summing one."""
        axis = next(a for a in self.option.axes if a.name == name)
        return ceil(axis.extent / (axis.tile if axis.is_reduction else self.held[name]))

    def entries(self, name: str) -> int:
        """Return how often accumulators come in along an axis."""
        axis = next(a for a in self.option.axes if a.name == name)
        return ceil(axis.extent / self.held[name])


def walked(option: NestOption, nest: NestSchedule) -> Walk:
    """Return the loops around `hold` inside those that are dealt; `held` is what stands inside of all of them."""
    covered = {axis.name: axis.extent for axis in option.axes}
    single = {axis.name for axis in option.axes if axis.extent <= axis.tile}
    around = nest.loops[nest.parallel : nest.hold]
    turns: list[Turn] = []
    for loop in around:
        if loop.axis in single:
            turns.append(Turn(loop.axis, 1, dict(covered)))
            continue
        trips = ceil(covered[loop.axis] / loop.step)
        covered[loop.axis] = loop.step
        turns.append(Turn(loop.axis, trips, dict(covered)))
    depths = {stage.operand: max(0, stage.depth - nest.parallel) for stage in nest.stages}
    blocks = turns[: _last_block(option, nest, [loop.axis for loop in around], depths)]
    stages = {
        s.operand: 2
        if s.depth == 0
        and s.operand in (o.name for o in option.operands if not o.is_accumulator)
        and (nest.parallel or _follows(option, s.operand, blocks))
        else 1
        for s in nest.stages
    }
    early = {stage.operand for stage in nest.stages if stage.ahead}
    crossed = frozenset(early | {spread.operand for spread in nest.spread})
    sums = {axis.name: axis for axis in option.axes if axis.is_reduction}
    copied = next((n.axis for n in nest.loops if n.is_unrolled and n.axis in sums), "")
    copies = 1
    if copied:
        steps = [n.step for n in nest.loops if n.axis == copied]
        copies = ceil((steps[-2] if len(steps) > 1 else sums[copied].extent) / sums[copied].tile)
    beside = frozenset(stage.operand for stage in nest.stages if stage.into)
    by_rows = frozenset(stage.operand for stage in nest.stages if stage.by_rows)
    return Walk(option, tuple(turns), covered, stages, depths, crossed, copied, copies, beside, by_rows)


def _follows(option: NestOption, operand: str, blocks: Iterable[Turn]) -> bool:
    axes = next(o.axes for o in option.operands if o.name == operand)
    return any(turn.axis in axes and turn.trips > 1 for turn in blocks)


def _last_block(option: NestOption, nest: NestSchedule, around: list[str], depths: Mapping[str, int]) -> int:
    """Return how many of the loops go over cache blocks."""
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    inputs = {operand.name for operand in option.operands if not operand.is_accumulator}
    certain = [n + 1 for n, name in enumerate(around) if name in sums or name in around[n + 1 :]]
    return max([0, *certain, *(depth for name, depth in depths.items() if name in inputs)])
