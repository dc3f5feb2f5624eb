"""What the compiler has to say about an input, and how it is printed.

gemm.ir:5:16: error[type-mismatch]: `+` takes operands of one type
    C[i, j] += A[i, k] + B[k, j];
               ^^^^^^^^^^^^^^^^^
  note: left is f32, right is bf16
  help: cast one side, as in `f32(B[k, j])`

Edits applied to a text: each replaces one span, all at once.

`apply_edits("a + b", (Edit(span of "b", "f32(b)"),))` is `"a + f32(b)"`.

What is said about a diagnostic code, at length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from isamap.source.text import Span, printable

_WIDTH = 120

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `span` by `replacement`: the smallest change that would help."""

    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: stable code, message, place, reasons and the next step."""

    code: str
    message: str
    span: Span | None = None
    severity: Severity = "error"
    notes: tuple[str, ...] = ()
    help: str | None = None
    edits: tuple[Edit, ...] = ()

    def render(self) -> str:
        """The finding as people read it, several lines, no trailing newline, control characters escaped."""
        place = f"{self.span}: " if self.span else ""
        lines = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        if self.span:
            lines += _underlined(self.span)
        lines += [f"  note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"  help: {self.help}")
        return printable("\n".join(lines))

    def as_json(self) -> dict[str, object]:
        """The finding as one JSON object of the `diagnostics` array."""
        place: dict[str, object] = {}
        if self.span:
            end_line, end_column = self.span.source.position(self.span.end)
            place = {
                "file": self.span.source.name,
                "line": self.span.line,
                "column": self.span.column,
                "end_line": end_line,
                "end_column": end_column,
            }
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            **place,
            "notes": list(self.notes),
            "help": self.help,
            "edits": [
                {"start": e.span.start, "end": e.span.end, "replacement": e.replacement} for e in self.edits
            ],
        }


def _underlined(span: Span) -> list[str]:
    """The source line of a span and carets below it, both without indentation of their own."""
    line = span.source.line_text(span.line)
    shown = line.expandtabs(1)
    stripped = shown.strip()
    if not stripped:
        return []
    offset = max(0, span.column - 1 - (len(shown) - len(shown.lstrip())))
    width = max(1, min(span.end - span.start, len(stripped) - offset))
    end = offset + width
    offset, width = len(printable(stripped[:offset])), max(1, len(printable(stripped[offset:end])))
    text, offset = _window(printable(stripped), offset)
    return [f"    {text}", f"    {' ' * offset}{'^' * min(width, max(1, len(text) - offset))}"]


def _window(line: str, offset: int) -> tuple[str, int]:
    """The part of a long line around an offset, and the offset in that part."""
    if len(line) <= _WIDTH:
        return line, offset
    start = max(0, min(offset - _WIDTH // 4, len(line) - _WIDTH))
    lead = "..." if start else ""
    tail = "..." if start + _WIDTH < len(line) else ""
    return lead + line[start + len(lead) : start + _WIDTH - len(tail)] + tail, offset - start


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with every edit made; edits do not overlap, and stand in any order."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        assert edit.span.start >= at, "edits do not overlap"
        pieces += [text[at : edit.span.start], edit.replacement]
        at = edit.span.end
    return "".join((*pieces, text[at:]))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means, in one line and at length, and a text that is refused with it."""

    title: str
    text: str
    example: str | None = None
