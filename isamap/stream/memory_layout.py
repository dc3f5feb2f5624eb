"""Lay out a program's arrays: tensors and workspace buffers in main memory, others in scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm, prod

from isamap.ir import DType
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.source import UsageProblem, dataclass

ALIGNMENT = 64
"""Arrays begin at multiples of it, and none at 0, which some machines read as zeros. Units: bytes."""


@dataclass(frozen=True, slots=True)
class StreamArray:
    """An array of a program. Units: `offset` in bytes from the start of its memory.

    `role` is that of a tensor, or `buffer`.
    """

    name: str
    role: str
    memory: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.size_bytes


def lay_out(
    program: LoweredProgram,
    machine: Machine,
    placed: Mapping[str, StreamArray] | None = None,
    end: int | None = None,
) -> dict[str, StreamArray]:
    """Return all arrays by name, with dense tensors. Raises: UsageProblem if an address is unknown."""
    env, memory = dict(program.sizes), main_memory(machine)
    step = main_step(machine)
    found: dict[str, StreamArray] = dict(placed or {})
    end = align_up(first_address(machine) if end is None else end, step)
    for t in (t for t in program.tensors if t.name not in found):
        shape = tuple(_number(extent.evaluate(env)) for extent in t.given or t.shape)
        found[t.name] = StreamArray(t.name, t.role, memory, t.dtype, shape, end)
        end = align_up(end + found[t.name].size_bytes, step)
    for b in program.buffers:
        shape = (_number(b.elements.evaluate(env)),)
        if b.memory and b.offset is None:
            raise UsageProblem.of("stream-unsupported", f"`{b.name}` has no address in {b.memory}")
        place = end if not b.memory else b.offset or 0
        found[b.name] = StreamArray(b.name, "buffer", b.memory or memory, b.dtype, shape, place)
        end = align_up(end + found[b.name].size_bytes, step) if not b.memory else end
    return found


def main_memory(machine: Machine) -> str:
    """Return the memory of callers' arrays. Raises: UsageProblem if there are several."""
    names = [m.name for m in machine.memories.values() if m.kind == "addressable" and m.base is None]
    if len(names) != 1:
        said = f"a program has one image of memory, and {machine.name} has {len(names)} addressable ones"
        raise UsageProblem.of("stream-unsupported", said)
    return names[0]


def first_address(machine: Machine) -> int:
    """Return the address of the first array in main memory. Units: bytes."""
    step = main_step(machine)
    return align_up(max(step, machine.program.first_address if machine.program is not None else 0), step)


def main_step(machine: Machine) -> int:
    """Return the alignment in main memory that makes addresses fit their fields. Units: bytes."""
    memory = main_memory(machine)
    units = (
        item.encoding.unit_of(operand.name)
        for item in machine.instructions.values()
        for operand in item.instruction.operands
        if operand.memory == memory and item.encoding is not None
    )
    return lcm(ALIGNMENT, *units)


def end_of(arrays: Mapping[str, StreamArray], memory: str) -> int:
    """Return the first free aligned offset after all arrays of a memory. Units: bytes."""
    return max(align_up(a.offset + a.size_bytes, ALIGNMENT) for a in arrays.values() if a.memory == memory)


def memory_sizes(machine: Machine, used: int) -> dict[str, int]:
    """Return the sizes of the memories with arrays. For main memory, it is the used part. Units: bytes."""
    scratch = {
        name: size
        for name, memory in machine.memories.items()
        if memory.kind == "scratchpad" and (size := memory.capacity_bytes) is not None
    }
    return {main_memory(machine): used, **scratch}


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a dense array. Units: elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _number(value: object) -> int:
    assert isinstance(value, int), "sizes are numbers here"
    return value


def align_up(end: int, step: int) -> int:
    """Return `end` rounded up to a multiple of `step`."""
    return -(-end // step) * step
