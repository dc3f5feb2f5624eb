"""What no schedule undercuts, for every register block of an option at once; costs of many moves at once.

One pass over the cost expression with arrays instead of one pass per register block: an option has hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from isamap.plan.cost import Cost
from isamap.plan.cost.arrays import Numbers, Some, evaluate_all
from isamap.plan.cost.intervals import Box, Ends, bounds_all
from isamap.plan.problem import TileAxis, TileOperand
from isamap.scheduler.crossing import open_values
from isamap.scheduler.space import Assignment, RegisterBlock, Space
from isamap.scheduler.summing import sum_factors
from isamap.scheduler.sums import summed_axis

MAX_OPERANDS = 4  # of an option whose stagings are bounded one by one


def floors_of(cost: Cost, space: Space, blocks: Sequence[RegisterBlock]) -> tuple[float, ...]:
    """What no schedule with each of these register blocks undercuts. Units: nanoseconds.

    Each way of staging the operands is bounded by itself, as far as there are not too many: what is cheap in
    place and what is cheap from a buffer do not come together.
    """
    stagings = list(product(*(_staged(space, operand) for operand in space.option.operands)))
    low, _ = bounds_all(cost, _boxes(space, blocks, stagings), len(blocks) * len(stagings))
    return tuple(low.reshape(len(stagings), len(blocks)).min(axis=0).tolist())


def _staged(space: Space, operand: TileOperand) -> list[tuple[int, int]]:
    """Between which values the stage of an operand lies: a box each, or one where operands are many."""
    values = space.stage_values(operand)
    if len(space.option.operands) > MAX_OPERANDS:
        return [(min(values), max(values))]
    return [(value, value) for value in values]


def _boxes(
    space: Space, blocks: Sequence[RegisterBlock], stagings: Sequence[Sequence[tuple[int, int]]]
) -> Mapping[str, Box]:
    """Between which values each decision lies, per staging and register block."""
    boxes: dict[str, Box] = {}
    for axis in space.axes:
        factors = [block.get(axis.name, 1) for block in blocks]
        least, most = _reach(space, axis, factors)
        if axis == summed_axis(space.option):
            turns = [sum_factors(space, block) or (1,) for block in blocks]
            few, many = _numbers([min(own) for own in turns]), _numbers([max(own) for own in turns])
            boxes[space.unroll(axis)] = np.tile(few, len(stagings)), np.tile(many, len(stagings))
            reaches = [_reach(space, axis, [end(own) for own in turns]) for end in (min, max)]
            least, most = np.minimum(*(low for low, _ in reaches)), np.maximum(*(high for _, high in reaches))
        boxes[space.block(axis)] = np.tile(least, len(stagings)), np.tile(most, len(stagings))
        if not axis.is_reduction:
            unrolled = np.tile(_numbers(factors), len(stagings))
            boxes[space.unroll(axis)] = unrolled, unrolled
    for name, _, _ in (*space.order_pairs(), *space.sweep_pairs()):
        boxes[name] = float(space.fixed.get(name, 0)), float(space.fixed.get(name, 1))
    for name, values in open_values(space).items():
        boxes[name] = float(min(values)), float(max(values))
    for position, operand in enumerate(space.option.operands):
        least, most = (np.repeat([s[position][end] for s in stagings], len(blocks)) for end in (0, 1))
        boxes[space.stage(operand)] = least.astype(np.float64), most.astype(np.float64)
    return boxes


def _reach(space: Space, axis: TileAxis, factors: Sequence[int]) -> Ends:
    """The smallest and the largest cache block of an axis that is unrolled so often."""
    sizes = {factor: space.blocks(axis, factor) or (axis.extent,) for factor in set(factors)}
    return _numbers([min(sizes[f]) for f in factors]), _numbers([max(sizes[f]) for f in factors])


def costs_of(cost: Cost, current: Assignment, moves: Sequence[Assignment]) -> list[float]:
    """What an assignment costs after each of these changes. Units: nanoseconds."""
    values: dict[str, Some] = {name: float(value) for name, value in current.items()}
    for name in {name for move in moves for name in move}:
        values[name] = _numbers([move.get(name, current.get(name, 0)) for move in moves])
    return evaluate_all(cost, values, len(moves)).tolist()


def _numbers(values: Sequence[int]) -> Numbers:
    return np.asarray(values, np.float64)
