"""The memory bytes that a command reads and writes, operand by operand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Instruction, Operand
from isamap.source.records import dataclass
from isamap.stream.command import Address, Command, Register, bound_instruction, extents, integers

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class AccessedBytes:
    """Bytes of a memory, or one register of it, that an operand accesses.

    Shapes: `strides` has one number for each axis of `shape`. Units: bytes. `end` is behind the last one.
    """

    operand: str
    memory: str
    address: int
    end: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_read: bool
    is_written: bool

    def of(self, numbers: Array) -> Array:
        """Return a view of the numbers of these bytes, given one number for each byte of the memory."""
        size = numbers.itemsize
        steps = tuple(stride * size for stride in self.strides)
        return np.ndarray(self.shape, numbers.dtype, numbers, self.address * size, steps)


def accesses(command: Command, instruction: Instruction) -> Iterator[AccessedBytes]:
    """Yield the accesses of a command. A register counts as one byte of a separate memory."""
    strides = tuple(where.strides if isinstance(where, Address) else None for _, where in command.operands)
    found = _shapes_of(instruction, integers(instruction, command.params), strides)
    for one, (name, where) in zip(found, command.operands, strict=True):
        match where:
            case Register(memory, number):
                yield AccessedBytes(name, f"{memory}{number}", 0, 1, (1,), (1,), one.is_read, one.is_written)
            case Address(memory, address):
                own = address, address + one.end, one.shape, one.strides
                yield AccessedBytes(name, memory, *own, one.is_read, one.is_written)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The bytes of an operand relative to the first one, with as few axes as possible."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    end: int
    is_read: bool
    is_written: bool


@lru_cache(maxsize=16384)
def _shapes_of(
    instruction: Instruction, params: tuple[tuple[str, int], ...], strides: tuple[tuple[int, ...] | None, ...]
) -> tuple[_Shape, ...]:
    found: list[_Shape] = []
    for operand, steps in zip(bound_instruction(instruction, params).operands, strides, strict=True):
        roles = operand.role != "out", operand.role != "in"
        if steps is None:
            found.append(_Shape((1,), (1,), 1, *roles))
            continue
        shape, joined = _join_axes(extents(operand), steps, operand.dtype.size_bytes)
        found.append(_Shape(shape, joined, span_of(operand, Address("", 0, steps)).stop, *roles))
    return tuple(found)


def _join_axes(
    shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return extents and strides in bytes, with contiguous axes merged and repeated elements counted once."""
    found = [(item_bytes, 1)]
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride == found[0][0] * found[0][1]:
            found[0] = (extent * found[0][0], found[0][1])
        elif extent != 1 and stride:
            found.insert(0, (extent, stride))
    return tuple(extent for extent, _ in found), tuple(stride for _, stride in found)


def span_of(operand: Operand, where: Address) -> range:
    """Return the addresses from the first to the last byte of a bound operand."""
    shape = extents(operand)
    if 0 in shape:
        return range(where.address, where.address)
    ends = [stride * (extent - 1) for extent, stride in zip(shape, where.strides, strict=True)]
    first, last = (where.address + sum(pick(0, end) for end in ends) for pick in (min, max))
    return range(first, last + operand.dtype.size_bytes)
