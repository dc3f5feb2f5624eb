"""The workspace of a program: what lies where, from when to when."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.lower.lifetimes import exact_bytes, fixed_bytes, padded_bytes, scratch_regions
from isamap.lower.program import LoweredProgram


def workspace_json(program: LoweredProgram) -> dict[str, object]:
    """Buffers with bytes, offset and life (None: known at run time only); bytes with and without sharing."""
    sizes = [exact_bytes(b) for b in program.buffers]
    return {
        "fixed_bytes": fixed_bytes(program),
        "unshared_bytes": _unshared_bytes(program),
        "scratchpad_bytes": {name: size for name, (_, size) in scratch_regions(program).items()},
        "buffers": [
            {
                "name": b.name,
                "dtype": b.dtype.name,
                "memory": b.memory,
                "bytes": size,
                "offset_bytes": b.offset,
                "life": list(b.life) if b.life is not None else None,
                "why": b.why,
            }
            for b, size in zip(program.buffers, sizes, strict=True)
        ],
    }


def workspace_lines(program: LoweredProgram) -> Iterator[str]:
    """One line for each buffer, and what sharing saves where it saves anything."""
    for b in program.buffers:
        size = b.elements.value
        shown = f"{size * b.dtype.size_bytes} bytes" if size is not None else f"{b.elements} elements"
        why = f", {b.why}" if b.why else ""
        place = f" at {b.offset}" if b.offset is not None else ""
        life = f", needed from {b.life[0]} to {b.life[1]}" if b.life is not None else ""
        yield f"{b.memory or 'workspace'} {b.name}: {b.dtype}, {shown}{place}{why}{life}"
    if fixed_bytes(program) < (unshared := _unshared_bytes(program)):
        yield f"workspace: {fixed_bytes(program)} bytes; {unshared} if nothing were shared"
    for name, (_, size) in scratch_regions(program).items():
        yield f"{name}: {size} bytes in use"


def _unshared_bytes(program: LoweredProgram) -> int:
    """What the workspace's buffers of known size would take each for itself."""
    return sum(padded_bytes(b) or 0 for b in program.buffers if not b.memory)
