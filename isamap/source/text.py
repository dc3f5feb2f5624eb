"""Text with positions: a `Source` holds one input, a `Span` marks a piece of it.

`Span(source, 10, 14)` of a file `gemm.ir` prints as `gemm.ir:2:3`.

The question that a typo is answered with: did you mean `gemm_f32`?
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

# What moves a cursor, colours or turns the direction of writing, and lone halves of characters (file names).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


@dataclass(frozen=True)
class Source:
    """One input text and the name under which a person knows it."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Offsets of the first character of every line."""
        return (0, *(i + 1 for i, c in enumerate(self.text) if c == "\n"))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (both from 1) of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Line `line` (from 1) without its end."""
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def __hash__(self) -> int:
        return hash((self.name, self.text))


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """Span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


def printable(text: str) -> str:
    """The text, safe on a terminal: control characters but line ends and tabs as `\\x1b` or `\\u202e`."""
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_digits(text: str) -> bool:
    """Whether a text is digits from 0 to 9; Python takes those of other scripts for digits, too."""
    return text.isascii() and text.isdigit()


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The question after the nearest names, None where none is near."""
    from difflib import SequenceMatcher, get_close_matches

    near = get_close_matches(word, list(known), n=3)
    ratios = [SequenceMatcher(None, name, word).ratio() for name in near]
    best = sorted(name for name, ratio in zip(near, ratios, strict=True) if ratio == max(ratios))
    return f"did you mean {' or '.join(f'`{name}`' for name in best)}?" if best else None
