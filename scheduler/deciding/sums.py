"""Sums: whether the innermost reduction loop may be unrolled, and the backing memory of partial sums."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from isamap.plan.cost import Const, Cost, Decision, times
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.translation.constraints import AtMost, DecisionClause, Is, Not, stays_whole

# Limit of the search: rows of one tile that are swept. Of four and more, each by a load, too many are read together.
MOST_SWEPT_TILE = 2


def summed_axis(option: NestOption) -> TileAxis | None:
    """Return the innermost reduction axis with several iterations, or None unless all inputs depend on it.

    An input that does not follow it would have to stay in registers until the next iteration.
    """
    running = [axis for axis in option.axes if axis.is_reduction and axis.extent > axis.tile]
    inputs = [o for o in option.operands if not o.is_accumulator and o.registers]
    return running[-1] if running and all(running[-1].name in o.axes for o in inputs) else None


def sweeping_axis(option: NestOption) -> TileAxis | None:
    """Return the reduction axis along which separate loads may read a few rows of a stream, or None."""
    axis = summed_axis(option)
    if axis is None or axis.tile > MOST_SWEPT_TILE:
        return None
    return axis if any(o.prefetching.is_swept and axis.name in o.axes for o in option.operands) else None


def keeps_sums(option: NestOption) -> bool:
    """Return whether sums stay in registers while other units fill the buffers of inputs block by block.

    Lanes do so. Other machines keep the sums of blocks in their scratchpads, or copy through registers.
    """
    staged = [o.staging for o in option.operands if not o.is_accumulator and o.costs.staged_ns is not None]
    return not option.shares_work and option.carried is None and all(s.homes[0] and s.mover for s in staged)


def sums_going_on(space: Choices) -> Iterator[tuple[str, Not]]:
    """Yield each reduction axis with the fact that its loop inside a register block has a next iteration."""
    summed = summed_axis(space.option)

    def one(axis: TileAxis) -> Cost:
        """Return the number of elements that one iteration of the sum covers."""
        return times(axis.tile, Decision(space.unroll(axis))) if axis == summed else Const(axis.tile)

    for axis in space.axes:
        if axis.is_reduction:
            yield axis.name, Not(AtMost(Decision(space.block(axis)), one(axis)))


def sum_constraints(space: Choices) -> Iterator[DecisionClause]:
    """Yield the constraint that partial sums have a buffer if their tensor has a narrower type."""
    for operand in space.option.operands:
        if operand.is_accumulator and operand.staging.stage_whole:
            stage = space.stage(operand)
            widths = (
                f"an element of {operand.tensor} has {operand.layout.tensor_bytes} bytes, "
                f"a partial sum {operand.staging.staged_bytes}: partial sums need a buffer, {stage} = 1"
            )
            for axis in (axis for axis in space.axes if axis.is_reduction):
                facts = stays_whole(space.block(axis), axis.extent), Is(stage, (1,))
                sentence = partial(_cuts, space.block(axis), axis, operand)
                yield DecisionClause(facts, "fix-sums", sentence, (widths,))


def _cuts(block: str, axis: TileAxis, operand: TileOperand, made: Made) -> str:
    size = made[block]
    return (
        f"{block} = {size} cuts the sum over {axis.name} into {-(-axis.extent // size)} parts, "
        f"which {operand.tensor} cannot hold"
    )
