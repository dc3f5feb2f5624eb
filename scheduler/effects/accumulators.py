"""Price the loads of accumulators into registers, and their stores."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Const, Cost, times, total
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.tiling import Tiling, by_stage
from isamap.scheduler.effects.carrying import carrying
from isamap.scheduler.effects.following import if_followed
from isamap.scheduler.effects.least import Way
from isamap.scheduler.effects.overlapping import entries
from isamap.source import added


def in_and_out(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Accumulators in and out of registers, and the last sums of each block, whose latency nothing hides.

    Where loads follow rows out of memory, all of that waits for them, and shows as little as other moves do.
    """
    space = tiling.space
    if operand.flow is not None:
        return Const(0)  # among what flows
    own = prod(issues_along(axis) for axis in space.option.axes if axis.name in operand.axes)
    again = [tiling.blocks[axis.name] for axis in space.axes if axis.name not in operand.axes]
    moved = by_stage(
        space,
        operand,
        times(own, operand.direct_ns or 0.0, *again),
        times(own, operand.staged_ns or 0.0, *again),
    )
    if space.option.carried is not None:
        moved = carrying(tiling, space.option.carried, moved, problem)
    held = total([moved, times(space.option.latency_ns, *entries(tiling)) if again else Const(0)])
    return if_followed(tiling, problem, times(problem.model.leak_factor, held), held)


def least_in_and_out(way: Way) -> float:
    """Return each accumulator once; behind rows that loads follow out of memory it shows by a share.

    What streams is not known of outlines yet.
    """
    streams = way.problem.memory_streams
    follows = streams is not None and streams.swept_start_ns is not None
    shown = way.problem.model.leak_factor if follows else 1.0
    return shown * added(b.moved_ns for b in way.operands if b.operand.is_accumulator)
