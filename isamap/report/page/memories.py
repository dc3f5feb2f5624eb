"""Report the contents of each memory: scratchpads over simulated time, the workspace over program leaves.

A buffer stays from its first access to its last one, or until another buffer takes its bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf

from isamap.lower.lifetimes import exact_bytes, fixed_bytes
from isamap.lower.program import Buffer, LoweredProgram
from isamap.machine import Machine
from isamap.simulate.recording import Recorded
from isamap.source.records import dataclass

WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class Stay:
    """The time for which a buffer occupies bytes. Units: bytes. Its picture has the unit of `start` and `end`."""

    buffer: str
    why: str
    start: float
    end: float
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        """The offset of the first byte after it."""
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A memory with its contents.

    `span` is the duration of the whole: nanoseconds if it `is_timed`, else leaves of the program in their
    order. `capacity_bytes` is None without a limit.
    """

    memory: str
    capacity_bytes: int | None
    is_timed: bool
    span: float
    stays: tuple[Stay, ...]

    def used_at(self, moment: float) -> int:
        """Return the number of bytes in use at a moment."""
        return sum(s.size_bytes for s in self.stays if s.start <= moment < s.end)

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes that buffers occupy at once."""
        return max((self.used_at(stay.start) for stay in self.stays), default=0)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of all buffers by address, each once."""
        return tuple(dict.fromkeys(s.buffer for s in sorted(self.stays, key=lambda s: s.offset_bytes)))


def memories_of(
    program: LoweredProgram, machine: Machine, recorded: Recorded | None
) -> tuple[MemoryUse, ...]:
    """Return every used scratchpad of a recorded simulation, and the workspace if there is one."""
    found: list[MemoryUse] = []
    for memory in sorted({b.memory for b in program.buffers if b.memory}) if recorded is not None else ():
        assert recorded is not None, "asked above"
        buffers = [b for b in program.buffers if b.memory == memory and b.offset is not None]
        stays = tuple(_stays(buffers, recorded))
        capacity = machine.memories[memory].capacity_bytes
        found.append(MemoryUse(memory, capacity, True, recorded.simulation.total_ns, stays))
    own = tuple(s for b in program.buffers if not b.memory for s in _find_stays(b))
    if own:
        span = max(stay.end for stay in own)
        found.append(MemoryUse(WORKSPACE, fixed_bytes(program), False, span, own))
    return tuple(found)


def _find_stays(buffer: Buffer) -> Iterator[Stay]:
    """Yield the times for which workspace buffers with known offsets occupy bytes."""
    size = exact_bytes(buffer)
    if size is not None and buffer.offset is not None and buffer.life is not None:
        yield Stay(buffer.name, buffer.why, *buffer.life, buffer.offset, size)


@dataclass(slots=True)
class _Open:
    """A buffer that occupies bytes at present."""

    start: float
    end: float


def _stays(buffers: Sequence[Buffer], recorded: Recorded) -> Iterator[Stay]:
    known = {b.name: b for b in buffers}
    places = {b.name: (b.offset or 0, (b.offset or 0) + (exact_bytes(b) or 0)) for b in buffers}
    shared = {
        name: [o for o, (first, last) in places.items() if o != name and first < end and start < last]
        for name, (start, end) in places.items()
    }
    here: dict[str, _Open] = {}

    def closed(name: str, by: float) -> Stay:
        stay, (start, end) = here.pop(name), places[name]
        return Stay(name, known[name].why, stay.start, min(stay.end, by), start, end - start)

    for name, start, end in _touches(recorded):
        if name not in known:
            continue
        yield from (closed(other, start) for other in shared[name] if other in here)
        stay = here.setdefault(name, _Open(start, end))
        stay.end = max(stay.end, end)
    yield from [closed(name, inf) for name in tuple(here)]


def _touches(recorded: Recorded) -> list[tuple[str, float, float]]:
    """Return the accesses to each array, in order. Skipped iterations have the accesses of the last one before."""
    found = sorted(
        ((name, i.begin_ns, i.end_ns) for i in recorded.issued for name in i.arrays),
        key=lambda touch: touch[1],
    )
    begins = [touch[1] for touch in found]
    later: list[tuple[str, float, float]] = []
    for turn in recorded.repeated:
        by = turn.end_ns - turn.begin_ns
        own = found[bisect_left(begins, turn.since_ns) : bisect_left(begins, turn.begin_ns)]
        last = {name: (name, start + by, end + by) for name, start, end in own}
        later += last.values()
    return sorted((*found, *later), key=lambda touch: touch[1])
