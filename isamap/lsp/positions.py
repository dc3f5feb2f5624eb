"""Places in a text as editors count them: lines from 0, and columns in units of UTF-16.

Characters beyond the first plane count twice: behind `😀` the column is 2.
"""

from __future__ import annotations

from isamap.source import Source


def position_of(source: Source, offset: int) -> tuple[int, int]:
    """The line and the column of a character."""
    line, column = source.position(min(max(offset, 0), len(source.text)))
    before = source.line_text(line)[: column - 1]
    return line - 1, len(before.encode("utf-16-le", errors="surrogatepass")) // 2


def offset_of(source: Source, line: int, column: int) -> int:
    """The character at a line and a column; the end of the line, or of the text, where there are fewer."""
    if line >= len(source.line_starts):
        return len(source.text)
    units = 0
    text = source.line_text(line + 1)
    for number, character in enumerate(text):
        if units >= column:
            return source.line_starts[line] + number
        units += 2 if ord(character) > 0xFFFF else 1
    return source.line_starts[line] + len(text)
