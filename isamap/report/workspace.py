"""The workspace of a program: what lies where, from when to when."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.lower.program import LoweredProgram
from isamap.lower.workspace import fixed_bytes, padded_bytes


def workspace_json(program: LoweredProgram) -> dict[str, object]:
    """Buffers with bytes, offset and life (None: known at run time only); bytes with and without sharing."""
    sizes = [padded_bytes(b) for b in program.buffers]
    return {
        "fixed_bytes": fixed_bytes(program),
        "unshared_bytes": sum(size for size in sizes if size is not None),
        "buffers": [
            {
                "name": b.name,
                "dtype": b.dtype.name,
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
        yield f"workspace {b.name}: {b.dtype}, {shown}{place}{why}{life}"
    unshared = sum(padded_bytes(b) or 0 for b in program.buffers)
    if fixed_bytes(program) < unshared:
        yield f"workspace: {fixed_bytes(program)} bytes; {unshared} if nothing were shared"
