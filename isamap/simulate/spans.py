"""When each byte of a scratchpad was last written, or read: times of spans of bytes, split where they differ.

latest(0, 64)   what an issue on 64 bytes waits for
set(0, 64, t)   these are written at t;   lift(0, 64, t)  these are read at t, or later already
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class Spans:
    """Times of bytes: those from `begins[i]` up to `begins[i + 1]`, or for ever, have `times[i]`.

    Units: bytes; nanoseconds.
    """

    begins: list[int] = field(default_factory=lambda: [0])
    times: list[float] = field(default_factory=lambda: [0.0])

    def latest(self, begin: int, end: int) -> float:
        """The latest time of bytes from `begin` on that lie before `end`."""
        first = bisect_right(self.begins, begin) - 1
        last = bisect_left(self.begins, end, first)
        return self.times[first] if last == first + 1 else max(self.times[first:last])

    def set(self, begin: int, end: int, time: float) -> None:
        """Give all of these bytes one time."""
        first, last = self._cut(begin), self._cut(end)
        self.begins[first:last] = [begin]
        self.times[first:last] = [time]

    def lift(self, begin: int, end: int, time: float) -> None:
        """Give a time to those of these bytes that have an earlier one."""
        first, last = self._cut(begin), self._cut(end)
        self.times[first:last] = [max(time, before) for before in self.times[first:last]]

    def between(self, begin: int, end: int) -> list[tuple[int, int, float]]:
        """The spans of these bytes, each with its time."""
        first = bisect_right(self.begins, begin) - 1
        last = bisect_left(self.begins, end, first)
        ends = [*self.begins[first + 1 : last], end]
        return list(zip([begin, *self.begins[first + 1 : last]], ends, self.times[first:last], strict=True))

    def _cut(self, at: int) -> int:
        """The span that begins at a byte, split off where none does."""
        place = bisect_left(self.begins, at)
        if place == len(self.begins) or self.begins[place] != at:
            self.begins.insert(place, at)
            self.times.insert(place, self.times[place - 1])
        return place
