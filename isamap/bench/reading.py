"""Reading the weights of a ring by themselves, in turns with the contenders that multiply by them.

What memory gives one core of a shared computer changes from minute to minute: the roof that a row in
memory is compared with is measured in the row's own rounds, by plain loops over the very copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from isamap.bench.loops import READS, load_loops
from isamap.bench.memory import Array

CHUNK = 512  # what loops.h reads at once. Units: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """One way of reading the copies, as something that takes turns."""

    name: str
    loops: str
    copies: Sequence[Array]

    @property
    def size_bytes(self) -> int:
        """How much of a copy is read."""
        return self.copies[0].nbytes // CHUNK * CHUNK

    def time(self, calls: int, first: int = 0) -> int:
        """Nanoseconds of reading so many copies, from that number on."""
        read, sink = getattr(load_loops(self.loops), self.name), ctypes.c_int64(0)
        copies = (self.copies[(first + n) % len(self.copies)] for n in range(calls))
        return sum(read(c.ctypes.data, self.size_bytes, 1, ctypes.addressof(sink)) for c in copies)


def readings(loops: str, copies: Sequence[Array]) -> tuple[Reading, ...]:
    """The ways of reading: in one stream, and in eight; none where there is nothing to read."""
    ways = tuple(Reading(name, loops, copies) for name in READS)
    return ways if ways[0].size_bytes else ()


def fastest_bytes_per_ns(ways: Sequence[Reading], seconds: Mapping[str, Sequence[float]]) -> float:
    """The faster way's bytes per nanosecond, by the median of its rounds."""
    return max((way.size_bytes / (1e9 * median(seconds[way.name])) for way in ways), default=0.0)
