"""Compute lower bounds for all register blocks of an option at once, and costs of many moves at once.

One pass over the cost expression with arrays replaces one pass per register block. An option has hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isamap.plan.cost import Assignment, Cost
from isamap.plan.cost.arrays import Some, evaluate_all
from isamap.scheduler.deciding.choices import Boxes, choices_of
from isamap.scheduler.deciding.space import RegisterBlock, Space

MAX_OPERANDS = 4  # of an option whose stagings are bounded one by one


def floors_of(cost: Cost, space: Space, blocks: Sequence[RegisterBlock]) -> tuple[float, ...]:
    """Return a lower bound for the schedules with each of these register blocks. Units: nanoseconds.

    Each staging of the operands is bounded separately, unless there are too many: the cheap part of an
    operand in place and the cheap part of its buffer do not occur together.
    """
    choices = list(choices_of(space, blocks))
    made = len(space.option.operands) if len(space.option.operands) <= MAX_OPERANDS else 0
    boxes = Boxes(np.arange(len(blocks)), {}, np.zeros(len(blocks)))
    for choice in choices[:made]:
        boxes = boxes.cut(choice)
    found = np.full(len(blocks), np.inf)
    np.minimum.at(found, boxes.owner, boxes.bounded(cost, choices[made:]).floors)
    return tuple(found.tolist())


def costs_of(cost: Cost, current: Assignment, moves: Sequence[Assignment]) -> list[float]:
    """Return the cost of an assignment after each of these changes. Units: nanoseconds."""
    values: dict[str, Some] = {name: float(value) for name, value in current.items()}
    for name in {name for move in moves for name in move}:
        values[name] = np.array([move.get(name, current.get(name, 0)) for move in moves], np.float64)
    return evaluate_all(cost, values, len(moves)).tolist()
