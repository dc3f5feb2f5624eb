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
from isamap.plan.memory import Buffer as Placed

ALIGNMENT_BYTES = 64


def padded_bytes(buffer: Buffer) -> int | None:
    """The bytes that a buffer takes, whole cache lines; None when that is known only at run time."""
    size = (buffer.elements * buffer.dtype.size_bytes).value
    return None if size is None else -(-max(1, size) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def workspace_buffers(program: LoweredProgram, machine: Machine) -> tuple[Placed, ...]:
    """The buffers of known size with their lives."""
    lives = lifetimes(program, machine)
    found: list[Placed] = []
    for buffer in program.buffers:
        size = padded_bytes(buffer)
        if size is not None:
            start, end = lives.get(buffer.name, (0, 1))
            found.append(Placed(buffer.name, start, end, size, ALIGNMENT_BYTES))
    return tuple(found)


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
        (b.name, b.offset, b.offset + (padded_bytes(b) or 0)) for b in program.buffers if b.offset is not None
    ]
    for n, (name, start, end) in enumerate(placed):
        for other, first, last in placed[:n]:
            if start < last and first < end:
                found |= {name, other}
    return frozenset(found)


def fixed_bytes(program: LoweredProgram) -> int:
    """Bytes of the buffers that have offsets."""
    return max(
        (b.offset + (padded_bytes(b) or 0) for b in program.buffers if b.offset is not None), default=0
    )
