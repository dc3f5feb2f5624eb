"""Buffers with lifetimes in one memory, and an independent check of their placement.

Buffer("a", start=0, end=3, size_bytes=4)     lives at times 0, 1 and 2
check_placement(buffers, {"a": 0, …}, 12)     () when no two that live at one time overlap
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.source import Diagnostic
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer that needs a place from `start` until before `end`, at a multiple of `alignment_bytes`."""

    name: str
    start: int
    end: int
    size_bytes: int
    alignment_bytes: int = 1

    def __post_init__(self) -> None:
        assert self.start < self.end
        assert self.size_bytes > 0
        assert self.alignment_bytes > 0


def check_placement(
    buffers: Sequence[Buffer], offsets: Mapping[str, int], capacity_bytes: int
) -> tuple[Diagnostic, ...]:
    """Return the errors in a placement; () if it is right.

    It is quadratic on purpose, and shares no code with the packers, so that it is obviously right.
    """
    found: list[Diagnostic] = []
    for n, one in enumerate(buffers):
        offset = offsets.get(one.name)
        if offset is None:
            found.append(_finding(f"{one.name} has no place"))
            continue
        if offset < 0 or offset + one.size_bytes > capacity_bytes:
            end = offset + one.size_bytes
            found.append(_finding(f"{one.name} lies at {offset} to {end}, outside of {capacity_bytes} bytes"))
        if offset % one.alignment_bytes:
            found.append(_finding(f"{one.name} lies at {offset}, no multiple of {one.alignment_bytes}"))
        for other in buffers[:n]:
            their = offsets.get(other.name)
            if their is None or one.start >= other.end or other.start >= one.end:
                continue
            if offset < their + other.size_bytes and their < offset + one.size_bytes:
                found.append(_finding(f"{other.name} and {one.name} overlap while both live"))
    return tuple(found)


def _finding(message: str) -> Diagnostic:
    return Diagnostic("placement-wrong", message)
