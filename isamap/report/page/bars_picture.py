"""Amounts as bars beside each other: parts of the time of a statement, bytes per level of memory.

the fma units         ██████████████████████████████████████████████████████  3.15 µs  91 %
loads into registers  ███████████████████                                     1.12 µs  32 %  hidden
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isamap.report.columns import bytes_text, percent_text
from isamap.report.explained import SMALL, Spent
from isamap.report.mappings import time_text
from isamap.report.page.traffic import LevelBytes
from isamap.report.picture import COLUMNS, WIDTH, Picture, box, colour, words

AMOUNTS, ROW, TOP, LETTER = 190, 26, 52, 6.4
"""Units: pixels; what stands behind the bars, and a letter of what stands in front of them."""
TEXT_COLUMNS = COLUMNS - 24


@dataclass(frozen=True, slots=True)
class _Amount:
    """A bar: how long it is of the longest possible one, in pieces; what stands beside it."""

    name: str
    pieces: tuple[float, ...]
    said: str
    is_hidden: bool = False


def time_picture(title: str, spent: Spent) -> Picture:
    """Parts of the time of a statement; those that others hide are pale."""
    longest = next((part for part in spent.parts if part.hides), None)
    amounts = [
        _Amount(
            part.words,
            (min(1.0, spent.share(part)),),
            f"{time_text(part.ns)}, {percent_text(spent.share(part))}"
            + (", hidden" if part.hides and part is not longest else ""),
            part.hides and part is not longest,
        )
        for part in spent.parts
        if spent.share(part) >= SMALL
    ]
    said = f"{title}: time of statement {spent.statement}, {time_text(spent.total_ns)} by the model"
    return _picture(f"time-{spent.statement}", said, amounts)


def traffic_picture(title: str, levels: Sequence[LevelBytes]) -> Picture:
    """Bytes per level: read, and behind that written."""
    most = max((level.total_bytes for level in levels), default=0.0) or 1.0
    amounts = [
        _Amount(level.level, (level.read_bytes / most, level.written_bytes / most), _read_and_written(level))
        for level in levels
    ]
    return _picture("traffic", f"{title}: bytes read from each level, and written to it", amounts)


def _read_and_written(level: LevelBytes) -> str:
    read = bytes_text(round(level.read_bytes))
    return f"{read} + {bytes_text(round(level.written_bytes))}" if level.written_bytes else read


def _picture(name: str, title: str, amounts: Sequence[_Amount]) -> Picture:
    names = 30 + LETTER * max((len(amount.name) for amount in amounts), default=0)
    room = WIDTH - names - AMOUNTS
    body: list[str] = [words(24, 28, title, "title")]
    for number, amount in enumerate(amounts):
        y, x = TOP + ROW * number, names
        body.append(words(names - 10, y + 15, amount.name, "", "end"))
        for piece, part in enumerate(amount.pieces):
            body.append(box(x, y + 2, room * part, ROW - 8, _kind(amount), colour(piece)))
            x += room * part
        body.append(words(x + 8, y + 15, amount.said))
    return Picture(name, title, TOP + ROW * len(amounts) + 12, tuple(body), "\n".join(_lines(title, amounts)))


def _kind(amount: _Amount) -> str:
    return "bar hidden" if amount.is_hidden else "bar"


def _lines(title: str, amounts: Sequence[_Amount]) -> Iterator[str]:
    yield title
    indent = max((len(amount.name) for amount in amounts), default=0) + 2
    for amount in amounts:
        marks = "▒" if amount.is_hidden else "█"
        cells = "".join(
            round(TEXT_COLUMNS * part) * (marks, "░")[piece] for piece, part in enumerate(amount.pieces)
        )
        yield f"{amount.name:<{indent}}{cells or '▏'} {amount.said}"
