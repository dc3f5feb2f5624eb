"""Whether pieces of rows that are hinted have come when they are used: whether enough is computed meanwhile.

    for n by 48 {
      prefetch b ahead 2 into l2;     48 columns of 64 rows of B[k, n], two turns later
      for m by 8 { hold; … }          and what a turn computes on 48 columns: so long may their lines take

Where the register blocks of other axes stand outside that loop instead, or a block of such an axis is
narrow, each turn computes little, and memory is behind as if nobody had asked.
"""

from __future__ import annotations

from math import ceil, prod

from isamap.plan.cost import Cases, Cost, Threshold, largest
from isamap.plan.problem import TileOperand
from isamap.scheduler.prefetching import by_asking
from isamap.scheduler.space import MAX_UNROLLED, Space
from isamap.scheduler.tiling import Tiling


def if_in_time(tiling: Tiling, operand: TileOperand, bandwidth: float, late: Cost, early: Cost) -> Cost:
    """One of two costs of an input's pieces, after whether hints bring them in time.

    Units: `bandwidth` of where they lie, in bytes per nanosecond.
    """
    space = tiling.space
    others = [axis for axis in space.register_axes if axis.name not in operand.axes]
    for name, first, second in space.sweep_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if inner.name == operand.dense_axis and outer in others:
                apart = Threshold(tiling.turns[outer.name], 1, early, largest([early, late]))
                early = Cases(name, tuple(sorted(((value, apart), (1 - value, early)), key=_value)))
    issues = max(others, key=lambda axis: axis.extent, default=None)
    needed = _issues_for_lines(space, operand, bandwidth)
    if issues is None or needed > -(-issues.extent // issues.tile):
        return by_asking(tiling, operand, late, largest([early, late]))
    enough = issues.extent // (needed * issues.tile)
    early = Threshold(tiling.blocks[issues.name], max(1, enough), early, largest([early, late]))
    return by_asking(tiling, operand, late, early)


def _issues_for_lines(space: Space, operand: TileOperand, bandwidth: float) -> int:
    """How many issues on each tile of an operand take as long as its lines."""
    tile = prod(axis.tile for axis in space.option.axes if axis.name in operand.axes)
    line_ns = tile * operand.tensor_bytes / bandwidth
    return ceil(line_ns / space.option.interval_ns) if space.option.interval_ns else MAX_UNROLLED


def _value(branch: tuple[int, Cost]) -> int:
    return branch[0]
