"""Which inputs stream through from beyond all caches, and take longer to come than all issues together.

Where a description says nothing of streams, they cost what other inputs do: none is told apart.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from isamap.plan.caches import Memories
from isamap.plan.problem import NestOption, TileOperand


def with_streams(option: NestOption, memories: Memories) -> NestOption:
    """The option, each of whose inputs says whether it does."""
    stated = memories.beyond_streams
    if stated is None:
        return option
    axes = {axis.name: axis for axis in option.axes}
    issues_ns = prod(-(-axis.extent // axis.tile) for axis in option.axes) * option.interval_ns

    def streams(operand: TileOperand) -> bool:
        plain = operand.in_rows and operand.dense_axis and operand.pitch_bytes and not operand.subscripts
        if not plain or operand.is_accumulator or operand.packed or not memories.caches:
            return False
        size = prod(axes[name].extent for name in operand.axes) * operand.tensor_bytes
        beyond = operand.cold or size > memories.caches[-1].capacity_bytes
        return beyond and issues_ns < size / memories.beyond_bytes_per_ns

    def marked(operand: TileOperand) -> TileOperand:
        in_pieces = not axes[operand.dense_axis].is_reduction
        swept = in_pieces and stated.swept_start_ns is not None
        return replace(operand, streams=True, ahead_bytes=stated.ahead_bytes, swept=swept)

    return replace(option, operands=tuple(marked(o) if streams(o) else o for o in option.operands))
