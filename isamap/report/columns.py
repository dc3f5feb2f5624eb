"""Rows of words as columns of text.

instruction  whole  split
tdpbf16ps        0      2
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Row = Sequence[str]


def table(rows: Sequence[Row], right: Collection[int] = ()) -> str:
    """Rows as columns of equal width, the last one ragged; columns in `right` end flush."""
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


def indented(text: str, by: str = "  ") -> str:
    """The text with `by` before each line that is not empty."""
    return "\n".join(f"{by}{line}" if line else "" for line in text.splitlines())


def shortened(text: str, width: int) -> str:
    """The text, or as much of it as fits with a sign that there is more."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
