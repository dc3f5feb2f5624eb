"""The tensors that a program takes packed: what packs them, how they are laid out, how large they are."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.lower.program import LoweredProgram


def packed_json(program: LoweredProgram) -> list[dict[str, object]]:
    """Per packed tensor its layout and its bytes (None: known at run time only), header included."""
    return [
        {
            "tensor": t.header.source,
            "argument": t.name,
            "program": pack.name,
            "layout": t.header.layout,
            "bytes": (t.shape[0] * t.dtype.size_bytes).value,
        }
        for pack in program.packs
        for t in pack.tensors
        if t.header is not None
    ]


def packed_lines(program: LoweredProgram) -> Iterator[str]:
    """One line for each packed tensor."""
    for entry in packed_json(program):
        size = entry["bytes"] if entry["bytes"] is not None else "a run-time number of"
        yield (
            f"packed {entry['tensor']}: {size} bytes, written by {entry['program']}, layout {entry['layout']}"
        )
