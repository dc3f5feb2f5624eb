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
from isamap.stream.accesses import Access

Array = NDArray[Any]
NEVER = -1

Clock = tuple[int, ...]
"""By unit the last command that is known to be done; NEVER if none is."""


def later(one: Clock, other: Clock) -> Clock:
    """Return the later of two clocks, component by component."""
    return tuple(map(max, one, other))


@dataclass(frozen=True, slots=True)
class Conflict:
    """An earlier command that has to be done before an access, and whether it wrote there, or only read."""

    unit: int
    command: int
    access: Access
    wrote: bool


@dataclass(slots=True)
class Touched:
    """By memory and byte, the last command that wrote it, and by unit the last that read it."""

    units: tuple[int, ...]
    """The unit of each command."""
    count: int
    """The number of units."""
    _writers: dict[str, Array] = field(default_factory=dict[str, Array])
    _readers: dict[tuple[str, int], Array] = field(default_factory=dict[tuple[str, int], Array])

    def touch(self, access: Access, command: int) -> Iterator[Conflict]:
        """Yield earlier commands that an access conflicts with, the last of each unit; then it is noted itself."""
        if not access.at.size:
            return
        size = int(access.at.max()) + 1
        writers = self._writers[access.memory] = room(self._writers.get(access.memory), size)
        for last in map(int, np.unique(writers[access.at])):
            if last != NEVER:
                yield Conflict(self.units[last], last, access, wrote=True)
        for unit in range(self.count) if access.is_written else ():
            readers = self._readers.get((access.memory, unit))
            inside = access.at[access.at < readers.size] if readers is not None else access.at[:0]
            if readers is not None and inside.size and (last := int(readers[inside].max())) != NEVER:
                yield Conflict(unit, last, access, wrote=False)
        if access.is_read:
            key = access.memory, self.units[command]
            self._readers[key] = room(self._readers.get(key), size)
            self._readers[key][access.at] = command
        if access.is_written:
            writers[access.at] = command


def room(numbers: Array | None, size: int) -> Array:
    """Return the numbers extended to a size; new bytes have the value NEVER."""
    if numbers is None:
        return np.full(size, NEVER, np.int32)
    if numbers.size >= size:
        return numbers
    more = np.full(max(size, 2 * numbers.size) - numbers.size, NEVER, np.int32)
    return np.concatenate((numbers, more))
