"""The bytes of memories that a command reads and writes, one operand after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Instruction, Operand
from isamap.source.records import dataclass
from isamap.stream.command import Command, Place, Register, bound_instruction, extents, integers

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of a memory, or one register of it, that an operand names. Units: bytes."""

    operand: str
    memory: str
    at: Array
    is_read: bool
    is_written: bool


def accesses(command: Command, instruction: Instruction) -> Iterator[Access]:
    """Yield the accesses of a command; a register is the one byte of a memory of its own."""
    bound = bound_instruction(instruction, integers(instruction, command.params))
    where = dict(command.operands)
    for operand in bound.operands:
        is_read, is_written = operand.role != "out", operand.role != "in"
        match where[operand.name]:
            case Register(memory, number):
                yield Access(operand.name, f"{memory}{number}", np.zeros(1, np.intp), is_read, is_written)
            case Place(memory) as place:
                at = bytes_of(operand, place).reshape(-1)
                yield Access(operand.name, memory, at, is_read, is_written)


def bytes_of(operand: Operand, where: Place) -> Array:
    """Return the addresses of all bytes of a bound operand; the last axis has the bytes of one element."""
    return where.address + _offsets(extents(operand), where.strides, operand.dtype.size_bytes)


def span_of(operand: Operand, where: Place) -> range:
    """Return the addresses from the first byte of a bound operand to the last, however far they are."""
    shape = extents(operand)
    if 0 in shape:
        return range(where.address, where.address)
    ends = [stride * (extent - 1) for extent, stride in zip(shape, where.strides, strict=True)]
    first, last = (where.address + sum(pick(0, end) for end in ends) for pick in (min, max))
    return range(first, last + operand.dtype.size_bytes)


@lru_cache(maxsize=4096)
def _offsets(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int) -> Array:
    """Return where the bytes of an operand lie from its first one on."""
    total = np.arange(item_bytes)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(extent) * stride
        total = total + steps.reshape((extent, *(1 for _ in shape[axis + 1 :]), 1))
    total.setflags(write=False)
    return total
