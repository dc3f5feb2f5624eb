"""What lies in a memory over time, as a picture: addresses down, a box for each buffer in its bytes.

spad: at most 24 KiB of 512 KiB
a_tiles0  ████████████████████████████          0  4 KiB
b_tiles0        ████████████████████       4 KiB  4 KiB
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.report.columns import bytes_text, percent_text
from isamap.report.page.memories import MemoryUse, Stay
from isamap.report.picture import (
    COLUMNS,
    LEFT,
    RIGHT,
    WIDTH,
    Across,
    Picture,
    box,
    colour,
    fitting,
    words,
)

TOP, USED, LEAST, FREE = 56, 200, 18, 16
"""Units: pixels; all used bytes together, any piece of them at least, and free bytes, however many."""


@dataclass(frozen=True, slots=True)
class _Down:
    """Addresses as places down: used pieces by their size, free ones all alike. Units: bytes, pixels."""

    places: tuple[tuple[int, float], ...]

    @staticmethod
    def of(use: MemoryUse) -> _Down:
        edges = sorted(
            {0, *(e for s in use.stays for e in (s.offset_bytes, s.last_byte)), use.capacity_bytes or 0}
        )
        used = [_is_used(use, a) for a in edges[:-1]]
        total = sum(b - a for a, b, is_used in zip(edges, edges[1:], used, strict=False) if is_used) or 1
        places, y = [(edges[0], float(TOP))], float(TOP)
        for start, end, is_used in zip(edges, edges[1:], used, strict=False):
            y += max(LEAST, USED * (end - start) / total) if is_used else FREE
            places.append((end, y))
        return _Down(tuple(places))

    def at(self, address: int) -> float:
        """Pixels from the top; all edges of buffers have one."""
        return dict(self.places)[address]

    @property
    def bottom(self) -> float:
        return self.places[-1][1]


def _is_used(use: MemoryUse, address: int) -> bool:
    return any(s.offset_bytes <= address < s.last_byte for s in use.stays)


def memory_picture(title: str, use: MemoryUse) -> Picture:
    """The picture of one memory."""
    across, down = Across(0.0, use.span or 1.0, use.is_timed), _Down.of(use)
    said = (
        f"{title}: {use.memory} over {'time' if use.is_timed else 'the program, in leaves'}, {peak_text(use)}"
    )
    body = (
        words(24, 28, said, "title"),
        *across.grid(TOP, down.bottom),
        *_addresses(use, down),
        *(one for stay in use.stays for one in _stay(use, stay, across, down)),
    )
    return Picture(f"memory-{use.memory}", said, round(down.bottom) + 34, body, _text(use, across, said))


def peak_text(use: MemoryUse) -> str:
    """`at most 24 KiB of 512 KiB, 4.7 %`."""
    most = f"at most {bytes_text(use.peak_bytes)}"
    if not use.capacity_bytes:
        return most
    return f"{most} of {bytes_text(use.capacity_bytes)}, {percent_text(use.peak_bytes / use.capacity_bytes)}"


def _addresses(use: MemoryUse, down: _Down) -> Iterator[str]:
    for (start, y), (end, below) in zip(down.places, down.places[1:], strict=False):
        yield words(LEFT - 10, y + 12, bytes_text(start) if start else "0", "soft small", "end")
        if not _is_used(use, start):
            yield box(LEFT, y, WIDTH - LEFT - RIGHT, below - y, "pad")
            free = f"{bytes_text(end - start)} without a buffer"
            yield words((LEFT + WIDTH - RIGHT) / 2, y + 12, free, "soft small", "middle")
    yield f'<path class="frame" d="M{LEFT} {TOP}V{down.bottom:.1f}H{WIDTH - RIGHT}"/>'


def _stay(use: MemoryUse, stay: Stay, across: Across, down: _Down) -> Iterator[str]:
    x, end = across.at(stay.start), across.at(stay.end)
    y, below = down.at(stay.offset_bytes), down.at(stay.last_byte)
    when = f"{across.text(stay.start)} to {across.text(stay.end)}"
    tip = f"{stay.buffer}: {bytes_text(stay.size_bytes)} at {stay.offset_bytes}, {when}; {stay.why}"
    yield box(x, y, end - x, below - y, "bar", colour(use.buffers.index(stay.buffer)), tip)
    if shown := fitting(stay.buffer, end - x):
        yield words(x + 5, (y + below) / 2 + 4, shown, "small")


def _text(use: MemoryUse, across: Across, said: str) -> str:
    indent = max((len(name) for name in use.buffers), default=0) + 2
    lines = [said]
    for name in use.buffers:
        stays = [s for s in use.stays if s.buffer == name]
        cells = [" "] * COLUMNS
        for stay in stays:
            first, last = int(across.column(stay.start)), int(across.column(stay.end) - 1e-9)
            for column in range(min(first, COLUMNS - 1), min(last, COLUMNS - 1) + 1):
                cells[column] = "█"
        place = f"{bytes_text(stays[0].size_bytes)} at {stays[0].offset_bytes}"
        lines.append(f"{name:<{indent}}{''.join(cells)} {place}")
    return "\n".join([*lines, across.scale(indent)])
