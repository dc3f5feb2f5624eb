"""Unroll the innermost reduction loop: the possible factors, and the cache blocks that they allow.

    for k by 4 { unroll k by 2 { unroll m by 1 { unroll n by 16 { issue; } } } }

is `unroll.k` = 2: the loop over k has half as many iterations, each with twice as many issues. It needs no
more registers if every input follows the axis, so that no operand stays live until the next iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from isamap.plan.problem import NestOption, TileAxis
from isamap.scheduler.deciding.space import MAX_UNROLLED, Assignment, RegisterBlock, Space, issues_along
from isamap.scheduler.deciding.sums import summed_axis, sweeping_axis

# Limit of the search: a person may fix any factor that a loop body has room for. SWEPT rows are read together, each
# by its own loads. Source: docs/decisions/0024-prefetch-hints.md, whose table has eight of them.
FACTORS = (1, 2, 4)
SWEPT = 8


def sum_factors(space: Space, block: RegisterBlock) -> tuple[int, ...]:
    """Return the factors by which the innermost reduction axis may be unrolled under a register block."""
    axis = summed_axis(space.option)
    if axis is None:
        return (1,)
    fixed = space.fixed.get(space.unroll(axis))
    tried = FACTORS if sweeping_axis(space.option) is None else (*FACTORS, SWEPT)
    most = min(issues_along(axis), MAX_UNROLLED // max(1, prod(block.values())))
    return tuple(factor for factor in (tried if fixed is None else (fixed,)) if 1 <= factor <= max(1, most))


def sum_choices(space: Space, block: RegisterBlock) -> list[dict[str, int]]:
    """Return the unroll factors of the sum as decisions, or one empty decision if they are not open."""
    axis = summed_axis(space.option)
    if axis is None:
        return [{}]
    return [{space.unroll(axis): factor} for factor in sum_factors(space, block)]


def vary_factors(space: Space, current: Assignment) -> list[dict[str, int]]:
    """Return other unroll factors, each with the nearest cache blocks that fit it."""
    axis = summed_axis(space.option)
    if axis is None:
        return []
    block = {other.name: current[space.unroll(other)] for other in space.register_axes}
    return [
        {space.unroll(axis): factor, space.block(axis): nearest(sizes, current[space.block(axis)])}
        for factor in sum_factors(space, block)
        if factor != current[space.unroll(axis)] and (sizes := space.blocks(axis, factor))
    ]


def nearest(sizes: Sequence[int], target: int) -> int:
    """Return the size nearest to the target."""
    return min(sizes, key=lambda size: abs(size - target))


def may_unroll(option: NestOption, axis: TileAxis) -> bool:
    """Return whether the unroll factor of an axis is an open decision."""
    return issues_along(axis) > 1 and (not axis.is_reduction or axis == summed_axis(option))
