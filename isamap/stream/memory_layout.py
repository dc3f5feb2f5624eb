"""Lay out a program's arrays: tensors and workspace buffers in main memory, others in scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm, prod

from isamap.ir import DType
from isamap.lower.program import Issue, LoweredProgram, MemoryRef
from isamap.lower.walk import walk
from isamap.machine import Machine, home_of, main_memories
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
    env, memory = dict(program.sizes), home_of(machine)
    step = main_step(machine)
    found: dict[str, StreamArray] = dict(placed or {})
    ends = dict.fromkeys(main_memories(machine), align_up(first_address(machine), step))
    ends |= {} if end is None else {memory: align_up(end, step)}
    homes = memories_of(program, machine)
    for t in (t for t in program.tensors if t.name not in found):
        shape = tuple(_number(extent.evaluate(env)) for extent in t.given or t.shape)
        own = homes.get(t.name, memory)
        found[t.name] = StreamArray(t.name, t.role, own, t.dtype, shape, ends[own])
        ends[own] = align_up(ends[own] + found[t.name].size_bytes, step)
    end = ends[memory]
    for b in program.buffers:
        shape = (_number(b.elements.evaluate(env)),)
        if b.memory and b.offset is None:
            raise UsageProblem.of("stream-unsupported", f"`{b.name}` has no address in {b.memory}")
        place = end if not b.memory else b.offset or 0
        found[b.name] = StreamArray(b.name, "buffer", b.memory or memory, b.dtype, shape, place)
        end = align_up(end + found[b.name].size_bytes, step) if not b.memory else end
    return found


def memories_of(program: LoweredProgram, machine: Machine) -> dict[str, str]:
    """Return the memory in which issues access each tensor, if a machine has several main memories.

    Raises: UsageProblem for a tensor that they access in two of them.
    """
    mains, names = main_memories(machine), {t.name for t in program.tensors}
    found: dict[str, str] = {}
    if len(mains) == 1:
        return found
    for issue in (n for node in program.body for n in walk([node]) if isinstance(n, Issue)):
        item = machine.instructions[issue.instruction].instruction
        for operand, where in issue.operands:
            memory = item.operand(operand).memory
            if not isinstance(where, MemoryRef) or where.buffer not in names or memory not in mains:
                continue
            if found.setdefault(where.buffer, memory) != memory:
                said = f"`{where.buffer}` is accessed in {found[where.buffer]} and in {memory}"
                advice = f"name its memory in the kernel, for example `@ {memory}`"
                raise UsageProblem.of("stream-unsupported", said, help=advice)
    return found


def first_address(machine: Machine) -> int:
    """Return the address of the first array in main memory. Units: bytes."""
    step = main_step(machine)
    return align_up(max(step, machine.program.first_address if machine.program is not None else 0), step)


def main_step(machine: Machine) -> int:
    """Return the alignment in main memory that makes addresses fit their fields. Units: bytes."""
    mains = main_memories(machine)
    units = (
        item.encoding.unit_of(operand.name)
        for item in machine.instructions.values()
        for operand in item.instruction.operands
        if operand.memory in mains and item.encoding is not None
    )
    return lcm(ALIGNMENT, *units)


def end_of(arrays: Mapping[str, StreamArray], memory: str) -> int:
    """Return the first free aligned offset after all arrays of a memory. Units: bytes."""
    ends = (align_up(a.offset + a.size_bytes, ALIGNMENT) for a in arrays.values() if a.memory == memory)
    return max(ends, default=0)


def memory_sizes(machine: Machine, arrays: Mapping[str, StreamArray], used: int) -> dict[str, int]:
    """Return the sizes of the memories with arrays. Units: bytes.

    Of main memories it is the part with arrays; `used` is that of the one with inputs and results.
    """
    scratch = {
        name: size
        for name, memory in machine.memories.items()
        if memory.kind == "scratchpad" and (size := memory.capacity_bytes) is not None
    }
    return {m: end_of(arrays, m) for m in main_memories(machine)} | {home_of(machine): used} | scratch


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a dense array. Units: elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _number(value: object) -> int:
    assert isinstance(value, int), "sizes are numbers here"
    return value


def align_up(end: int, step: int) -> int:
    """Return `end` rounded up to a multiple of `step`."""
    return -(-end // step) * step
