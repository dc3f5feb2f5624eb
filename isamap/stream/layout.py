"""Where a program's arrays lie: tensors and buffers of the workspace in memory, others in scratchpads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from isamap.ir import DType
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.source import Diagnostic, UsageProblem

ALIGNMENT = 64
"""Arrays begin at multiples of it, and none at 0, which some machines read as zeros. Units: bytes."""


@dataclass(frozen=True, slots=True)
class StreamArray:
    """An array of a program. Units: `offset` in bytes from the beginning of its memory.

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


def lay_out(program: LoweredProgram, machine: Machine) -> dict[str, StreamArray]:
    """All arrays by name, tensors dense. Raises: UsageProblem where an address is not known."""
    env, memory = dict(program.sizes), main_memory(machine)
    found: dict[str, StreamArray] = {}
    end = ALIGNMENT
    for t in program.tensors:
        shape = tuple(_number(extent.evaluate(env)) for extent in t.given or t.shape)
        found[t.name] = StreamArray(t.name, t.role, memory, t.dtype, shape, end)
        end = _aligned(end + found[t.name].size_bytes)
    for b in program.buffers:
        shape = (_number(b.elements.evaluate(env)),)
        if b.memory and b.offset is None:
            raise UsageProblem(Diagnostic("stream-unsupported", f"`{b.name}` has no address in {b.memory}"))
        place = end if not b.memory else b.offset or 0
        found[b.name] = StreamArray(b.name, "buffer", b.memory or memory, b.dtype, shape, place)
        end = _aligned(end + found[b.name].size_bytes) if not b.memory else end
    return found


def main_memory(machine: Machine) -> str:
    """The memory in which callers' arrays lie. Raises: UsageProblem where there are several."""
    names = [m.name for m in machine.memories.values() if m.kind == "addressable" and m.base is None]
    if len(names) != 1:
        said = f"a program has one image of memory, and {machine.name} has {len(names)} addressable ones"
        raise UsageProblem(Diagnostic("stream-unsupported", said))
    return names[0]


def memory_sizes(machine: Machine, arrays: Mapping[str, StreamArray]) -> dict[str, int]:
    """How large the memories with arrays are: of main memory what is used. Units: bytes."""
    main = main_memory(machine)
    used = max(_aligned(a.offset + a.size_bytes) for a in arrays.values() if a.memory == main)
    scratch = {
        name: size
        for name, memory in machine.memories.items()
        if memory.kind == "scratchpad" and (size := memory.capacity_bytes) is not None
    }
    return {main: used, **scratch}


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps. Units: elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _number(value: object) -> int:
    assert isinstance(value, int), "sizes are numbers here"
    return value


def _aligned(end: int) -> int:
    return -(-end // ALIGNMENT) * ALIGNMENT
