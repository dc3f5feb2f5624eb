"""What no schedule undercuts, for every register block of an option at once; costs of many moves at once.

One pass over the cost expression with arrays instead of one pass per register block: an option has hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isamap.plan.batch import Box, Numbers, bounds_all, evaluate_all
from isamap.plan.cost import Cost
from isamap.plan.problem import TileAxis
from isamap.scheduler.space import Assignment, RegisterBlock, Space


def floors_of(cost: Cost, space: Space, blocks: Sequence[RegisterBlock]) -> tuple[float, ...]:
    """What no schedule with each of these register blocks undercuts. Units: nanoseconds."""
    low, _ = bounds_all(cost, _boxes(space, blocks), len(blocks))
    return tuple(low.tolist())


def _boxes(space: Space, blocks: Sequence[RegisterBlock]) -> Mapping[str, Box]:
    """Between which values each decision lies, per register block."""
    boxes: dict[str, Box] = {}
    for axis in space.axes:
        factors = [block.get(axis.name, 1) for block in blocks]
        boxes[space.block(axis)] = _reach(space, axis, factors)
        if not axis.is_reduction:
            boxes[space.unroll(axis)] = _numbers(factors), _numbers(factors)
    for name, _, _ in (*space.order_pairs(), *space.sweep_pairs()):
        boxes[name] = _numbers(space.fixed.get(name, 0)), _numbers(space.fixed.get(name, 1))
    for operand in space.option.operands:
        values = space.stage_values(operand)
        boxes[space.stage(operand)] = _numbers(min(values)), _numbers(max(values))
    return boxes


def _reach(space: Space, axis: TileAxis, factors: Sequence[int]) -> Box:
    """The smallest and the largest cache block of an axis that is unrolled so often."""
    sizes = {factor: space.blocks(axis, factor) or (axis.extent,) for factor in set(factors)}
    return _numbers([min(sizes[f]) for f in factors]), _numbers([max(sizes[f]) for f in factors])


def costs_of(cost: Cost, current: Assignment, moves: Sequence[Assignment]) -> list[float]:
    """What an assignment costs after each of these changes. Units: nanoseconds."""
    values: dict[str, Numbers] = {name: _numbers(value) for name, value in current.items()}
    for name in {name for move in moves for name in move}:
        values[name] = _numbers([move.get(name, current.get(name, 0)) for move in moves])
    return evaluate_all(cost, values, len(moves)).tolist()


def _numbers(values: int | Sequence[int]) -> Numbers:
    return np.asarray(values, np.float64)
