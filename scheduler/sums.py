"""The innermost summing axis: whether its loop may be unrolled, and without a loop over it inside."""

from __future__ import annotations

from isamap.plan.problem import NestOption, TileAxis

# Of rows that come in fours and more, each by a load, there are too many to follow.
MOST_SWEPT_TILE = 2


def summed_axis(option: NestOption) -> TileAxis | None:
    """The innermost summing axis, where its loop may be unrolled: it runs, and every input follows it.

    What does not follow it would have to wait in registers for the next iteration.
    """
    running = [axis for axis in option.axes if axis.is_reduction and axis.extent > axis.tile]
    inputs = [o for o in option.operands if not o.is_accumulator and o.registers]
    return running[-1] if running and all(running[-1].name in o.axes for o in inputs) else None


def sweeping_axis(option: NestOption) -> TileAxis | None:
    """The summing axis of which a register block may take a few rows of what streams, each by own loads."""
    axis = summed_axis(option)
    if axis is None or axis.tile > MOST_SWEPT_TILE:
        return None
    return axis if any(o.swept and axis.name in o.axes for o in option.operands) else None
