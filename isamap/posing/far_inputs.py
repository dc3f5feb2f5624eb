"""Inputs that come from far: which stream through from beyond all caches, and for which hints may pay.

A stream takes longer to come than all issues together. Where a description says nothing of streams, they cost
what other inputs do: none is told apart. A hint names an operand's lines to a cache ahead of their use.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from isamap.machine import Machine, cost_params, cost_value, line_hints
from isamap.plan.problem import NestOption, TileOperand
from isamap.posing.hierarchy import Memories


def with_hints(operand: TileOperand, machine: Machine) -> TileOperand:
    """An input with the caches that the machine has hints for, where iterations read boxes of one array."""
    if operand.is_accumulator or operand.registers == 0 or not operand.in_rows or operand.packed:
        return operand
    found: list[tuple[str, float]] = []
    line_bytes = 0
    for cache, hint in sorted(line_hints(machine).items()):
        line_bytes = max(line_bytes, hint.line_bytes)
        count = max(1, machine.units[hint.item.cost.unit].count)
        found.append(
            (
                cache,
                cost_value(hint.item.cost.interval_ns, cost_params(hint.item, machine, {}))
                / count
                / hint.line_bytes,
            )
        )
    ahead = machine.model.near_ahead_count, machine.model.shared_ahead_count
    return replace(operand, hints=tuple(found), line_bytes=line_bytes, ahead_counts=ahead)


def with_late(option: NestOption, memories: Memories) -> NestOption:
    """The option, each of whose inputs says whether hints about pieces of its rows may save time.

    Its tensors lie in the nearest cache that holds them all, or farther where that one does not keep them.
    """
    extents = {axis.name: axis.extent for axis in option.axes}
    size_bytes = sum(o.tensor_bytes * prod(extents[name] for name in o.axes) for o in option.operands)
    rows = [cache.rows for cache in memories.caches[1:] if size_bytes <= cache.capacity_bytes]
    if not any(found.hinted_swept_count for found in (*rows, memories.beyond_rows)):
        return option
    free = {axis.name for axis in option.axes if not axis.is_reduction}

    def is_late(operand: TileOperand) -> bool:
        known = operand.hints and operand.pitch_bytes and not operand.subscripts
        return bool(known) and operand.dense_axis in free and not operand.streams

    ahead_bytes = memories.beyond_streams.ahead_bytes if memories.beyond_streams is not None else 0
    return replace(
        option,
        operands=tuple(
            replace(o, late=True, ahead_bytes=ahead_bytes) if is_late(o) else o for o in option.operands
        ),
    )


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
