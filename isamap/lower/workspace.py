"""Where the buffers of a lowered program lie in its workspace: what is never needed at one time may share.

    workspace_buffers(program, machine)   what a packer is asked: sizes, lives, alignment
    place_buffers(program, offsets)       the program with its answer

Buffers whose size is known only at run time keep a place of their own behind all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isamap.lower.lifetimes import lifetimes
from isamap.lower.program import Buffer, LoweredProgram
from isamap.machine import Machine
from isamap.plan.placement import Buffer as Placed

ALIGNMENT_BYTES = 64


def exact_bytes(buffer: Buffer) -> int | None:
    """The bytes of a buffer's elements; None when that is known only at run time."""
    return (buffer.elements * buffer.dtype.size_bytes).value


def padded_bytes(buffer: Buffer) -> int | None:
    """The bytes that a buffer takes, whole cache lines; None when that is known only at run time."""
    size = exact_bytes(buffer)
    return None if size is None else -(-max(1, size) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def workspace_buffers(program: LoweredProgram, machine: Machine) -> tuple[Placed, ...]:
    """The buffers of known size with their lives."""
    lives = lifetimes(program, machine)
    found: list[Placed] = []
    for buffer in program.buffers:
        size = padded_bytes(buffer)
        if size is not None and not buffer.memory:
            start, end = lives.get(buffer.name, (0, 1))
            found.append(Placed(buffer.name, start, end, size, ALIGNMENT_BYTES))
    return tuple(found)


def scratch_buffers(program: LoweredProgram, machine: Machine, memory: str) -> tuple[Placed, ...]:
    """The buffers in a scratchpad with their lives; their sizes are known."""
    lives = lifetimes(program, machine)
    return tuple(
        Placed(b.name, *lives.get(b.name, (0, 1)), max(1, exact_bytes(b) or 1))
        for b in program.buffers
        if b.memory == memory
    )


def place_buffers(
    program: LoweredProgram, buffers: tuple[Placed, ...], offsets: Mapping[str, int]
) -> LoweredProgram:
    """The program with offsets and lives of those buffers."""
    lives = {b.name: (b.start, b.end) for b in buffers}
    return replace(
        program,
        buffers=tuple(
            replace(b, offset=offsets[b.name], life=lives[b.name]) if b.name in offsets else b
            for b in program.buffers
        ),
    )


def shared_names(program: LoweredProgram) -> frozenset[str]:
    """Buffers that share bytes with another one."""
    found: set[str] = set()
    placed = [
        (b.name, place, place + (exact_bytes(b) or 0))
        for b in program.buffers
        if (place := place_of(program, b)) is not None
    ]
    for n, (name, start, end) in enumerate(placed):
        for other, first, last in placed[:n]:
            if start < last and first < end:
                found |= {name, other}
    return frozenset(found)


def fixed_bytes(program: LoweredProgram) -> int:
    """Bytes of the workspace's buffers that have offsets."""
    return max(
        (b.offset + (padded_bytes(b) or 0) for b in program.buffers if b.offset is not None and not b.memory),
        default=0,
    )


def scratch_regions(program: LoweredProgram) -> dict[str, tuple[int, int]]:
    """Where a model keeps each scratchpad behind the workspace's buffers: its place, and the bytes in use."""
    at = fixed_bytes(program)
    found: dict[str, tuple[int, int]] = {}
    for memory in sorted({b.memory for b in program.buffers if b.memory}):
        ends = [(b.offset or 0) + (exact_bytes(b) or 0) for b in program.buffers if b.memory == memory]
        size = -(-max(ends) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        found[memory] = (at, size)
        at += size
    return found


def place_of(program: LoweredProgram, buffer: Buffer) -> int | None:
    """Where a buffer begins in what the caller gives; None where only the run time knows."""
    if buffer.offset is None:
        return None
    return buffer.offset + (scratch_regions(program)[buffer.memory][0] if buffer.memory else 0)


def placed_bytes(program: LoweredProgram) -> int:
    """Bytes of all buffers that have places."""
    return fixed_bytes(program) + sum(size for _, size in scratch_regions(program).values())
