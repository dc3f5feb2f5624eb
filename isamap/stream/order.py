"""Order commands: find the last command that accessed each byte, and the commands that a unit waits for.

A unit performs its commands in order. It learns of other units' progress by tokens only. Its knowledge is
the number of the last finished command of each unit, which implies all earlier ones of that unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.source.records import dataclass, field
from isamap.stream.accesses import AccessedBytes

Array = NDArray[Any]
NEVER = -1

Clock = tuple[int, ...]
"""By unit the last command that is known to be done; NEVER if none is."""


def later(one: Clock, other: Clock) -> Clock:
    """Return the later time of each unit in two clocks."""
    return tuple(map(max, one, other))


@dataclass(frozen=True, slots=True)
class Conflict:
    """An earlier command that must finish before an access, and whether it wrote there or only read."""

    unit: int
    command: int
    access: AccessedBytes
    wrote: bool


@dataclass(slots=True)
class LastCommands:
    """For each byte of each memory, the last command that wrote it, and per unit the last that read it."""

    units: tuple[int, ...]
    """The unit of each command."""
    count: int
    """The number of units."""
    _writers: dict[str, Array] = field(default_factory=dict[str, Array])
    _readers: dict[tuple[str, int], Array] = field(default_factory=dict[tuple[str, int], Array])

    def touch(self, access: AccessedBytes, command: int) -> Iterator[Conflict]:
        """Yield earlier commands that conflict with an access, the last of each unit, then record the access."""
        writers = self._writers[access.memory] = room(self._writers.get(access.memory), access.end)
        seen = access.of(writers)
        first, last = int(seen.min()), int(seen.max())
        for writer in (last,) if first == last else map(int, np.unique(seen)):
            if writer != NEVER:
                yield Conflict(self.units[writer], writer, access, wrote=True)
        for unit in range(self.count) if access.is_written else ():
            if (access.memory, unit) in self._readers:
                readers = self._room_of_readers(access, unit)
                if (last := int(access.of(readers).max())) != NEVER:
                    yield Conflict(unit, last, access, wrote=False)
        if access.is_read:
            access.of(self._room_of_readers(access, self.units[command]))[...] = command
        if access.is_written:
            seen[...] = command

    def _room_of_readers(self, access: AccessedBytes, unit: int) -> Array:
        found = self._readers[access.memory, unit] = room(
            self._readers.get((access.memory, unit)), access.end
        )
        return found


def room(numbers: Array | None, size: int) -> Array:
    """Return the numbers extended to a size, with NEVER for new bytes."""
    if numbers is None:
        return np.full(size, NEVER, np.int32)
    if numbers.size >= size:
        return numbers
    more = np.full(max(size, 2 * numbers.size) - numbers.size, NEVER, np.int32)
    return np.concatenate((numbers, more))
