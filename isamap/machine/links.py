"""Time transfers over links that units share: the instructions that use them, and traffic in whole bursts.

Over a link with bursts of 16 bytes, each row of 24 bytes counts as 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import mul

from isamap.ir import Index, Operand
from isamap.machine.model import ExecutionLevel, Link, Machine, Memory
from isamap.source.records import replace


def shared_link(machine: Machine, instruction: str) -> tuple[Link, str] | None:
    """Return the shared link that an instruction's transfer uses, and the operand in the farther memory.

    The shared links of a memory are its port, which moves as much as the fastest of them: the link returned has that
    bandwidth. A slower link keeps the port busy no longer; its own time bounds the instruction.
    """
    operands = machine.instructions[instruction].instruction.operands
    ends = {o.memory: o.name for o in operands if o.memory is not None}
    for link in machine.links:
        if link.shared and link.source_memory in ends and link.target_memory in ends:
            port = [
                other for other in machine.links if other.shared and other.source_memory == link.source_memory
            ]
            fastest = max(other.bandwidth_bytes_per_ns for other in port)
            return replace(link, bandwidth_bytes_per_ns=fastest), ends[link.source_memory]
    return None


def cached_bytes_per_ns(memory: Memory, levels: Sequence[ExecutionLevel]) -> float:
    """Return the rate at which each instance receives what a memory transfers once for all, or 0 without such data.

    The instances read a cache in front of the memory, or receive a multicast.
    """
    rate = memory.number("cache_bytes_per_ns") or memory.number("multicast_bytes_per_ns") or 0
    return rate / prod(level.at_once for level in levels)


def carried_amount(link: Link, operand: Operand, shape: Sequence[Index]) -> tuple[Index, int]:
    """Return how much a link transfers for an operand of this shape, and the bits of the unit (1 or 8).

    Contiguous elements form a row, which takes whole bursts as if it started with one.
    """
    bits, burst = operand.dtype.bits, 8 * link.burst_bytes
    if link.burst_bytes == 1:
        elements = reduce(mul, shape, Index.of(1))
        return (elements * (bits // 8), 8) if bits % 8 == 0 else (elements * bits, 1)
    first = _row_begins(operand, shape)
    rows, row = (reduce(mul, part, Index.of(1)) for part in (shape[:first], shape[first:]))
    return rows * (row * bits + (burst - 1)).floordiv(burst) * link.burst_bytes, 8


def carried_ns(link: Link, operand: Operand, extents: Sequence[int]) -> float:
    """Return the transfer time of an operand with these extents over a link. Units: nanoseconds."""
    amount, unit = carried_amount(link, operand, [Index.of(extent) for extent in extents])
    assert amount.value is not None, "extents are numbers"
    return amount.value * unit / 8 / link.bandwidth_bytes_per_ns


def _row_begins(operand: Operand, shape: Sequence[Index]) -> int:
    """Return the outermost axis from which on the elements of an operand are contiguous."""
    if operand.strides is None:
        return 0
    dense, first = Index.of(1), len(shape)
    for extent, stride in zip(reversed(shape), reversed(operand.strides), strict=True):
        if stride is None or (stride != dense and extent.value != 1):
            break
        dense, first = dense * extent, first - 1
    return first
