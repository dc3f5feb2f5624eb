"""Rows of words as columns of text.

instruction  whole  split
tdpbf16ps        0      2

The module also formats numbers with units: bytes and shares of a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Row = Sequence[str]


def align(rows: Sequence[Row], right: Collection[int] = ()) -> str:
    """Return rows as columns of equal width, left-aligned except for those in `right`."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(_line(row, widths, right) for row in rows)


def _line(row: Row, widths: Sequence[int], right: Collection[int]) -> str:
    cells = [
        cell.rjust(w) if i in right else cell.ljust(w)
        for i, (cell, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def indent(text: str, by: str = "  ") -> str:
    """Return the text with each nonempty line indented."""
    return "\n".join(f"{by}{line}" if line else "" for line in text.splitlines())


def shorten(text: str, width: int) -> str:
    """Return the text, shortened to a width with a sign for the omitted rest."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def bytes_text(size: float) -> str:
    """Return a number of bytes in a readable unit: `48 B`, `1.5 KiB`, `128 MiB`."""
    unit, scale = next(((u, s) for u, s in _UNITS if size >= s), ("B", 1))
    value = size / scale
    return f"{value:.0f} {unit}" if value >= 100 or value == int(value) else f"{value:.3g} {unit}"


def percent_text(share: float) -> str:
    """Return a fraction as a percentage: `87 %`, `0.4 %`, `0 %`."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun: `1 way`, `2 ways`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


_JOULES = (("J", 1e12), ("mJ", 1e9), ("µJ", 1e6), ("nJ", 1e3), ("pJ", 1.0))


def energy_text(pj: float) -> str:
    """Return an energy in a readable unit: `126.6 µJ`, `3.20 nJ`."""
    unit, scale = next(((u, s) for u, s in _JOULES if pj >= s), _JOULES[-1])
    return f"{pj / scale:.4g} {unit}"
