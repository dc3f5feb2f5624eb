"""Texts with positions, diagnostics about them, their printed form, edits, and the errors that carry them.

gemm.ir:5:16: error[type-mismatch]: `+` takes operands of one type
    C[i, j] += A[i, k] + B[k, j].
               ^^^^^^^^^^^^^^^^^
  note: left is f32, right is bf16
  help: cast one side, as in `f32(B[k, j])`

A `Source` holds one input, a `Span` marks a piece of it: `Span(source, 10, 14)` of `gemm.ir` prints as
`gemm.ir:2:3`. Edits replace one span each, all at once: `apply_edits("a + b", (Edit(span of "b",
"f32(b)"),))` is `"a + f32(b)"`.
"""

from __future__ import annotations

import os
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal, Self, TypeVar

from isamap.source.records import dataclass, replace

# What moves a cursor, colours or turns the direction of writing, and lone halves of characters (file names).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


@dataclass(frozen=True)
class Source:
    """One input text, and the name by which a user knows it."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of the first character of every line."""
        return (0, *(i + 1 for i, c in enumerate(self.text) if c == "\n"))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column (both from 1) of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """Return line `line` (from 1) without its end."""
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
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


def printable(text: str) -> str:
    """Return the text with control characters, except line ends and tabs, escaped as `\\x1b` or `\\u202e`."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_digits(text: str) -> bool:
    """Return whether a text consists of the digits 0 to 9. Python also accepts digits of other scripts."""
    return text.isascii() and text.isdigit()


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a question with the nearest names, or None if none is near."""
    from difflib import SequenceMatcher, get_close_matches

    near = get_close_matches(word, list(known), n=3)
    ratios = [SequenceMatcher(None, name, word).ratio() for name in near]
    best = sorted(name for name, ratio in zip(near, ratios, strict=True) if ratio == max(ratios))
    return f"did you mean {' or '.join(f'`{name}`' for name in best)}?" if best else None


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
        """Return the finding as text of several lines, without a trailing newline, control characters escaped."""
        place = f"{self.span}: " if self.span else ""
        lines = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        if self.span:
            lines += _underline(self.span)
        lines += [f"  note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"  help: {self.help}")
        return printable("\n".join(lines))

    def as_json(self) -> dict[str, object]:
        """Return the finding as one JSON object of the `diagnostics` array."""
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


def _underline(span: Span) -> list[str]:
    """Return the source line of a span and carets below it, both unindented."""
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
    """Return the part of a long line around an offset, and the offset in that part."""
    if len(line) <= _WIDTH:
        return line, offset
    start = max(0, min(offset - _WIDTH // 4, len(line) - _WIDTH))
    lead = "..." if start else ""
    tail = "..." if start + _WIDTH < len(line) else ""
    return lead + line[start + len(lead) : start + _WIDTH - len(tail)] + tail, offset - start


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text after all edits, which must not overlap and may be in any order."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        assert edit.span.start >= at, "edits do not overlap"
        pieces += [text[at : edit.span.start], edit.replacement]
        at = edit.span.end
    return "".join((*pieces, text[at:]))


# --- errors ---------------------------------------------------------------------------------------------

# The error root: every failure that a user can cause is an `IsamapError` with its diagnostics.
#
# A failure to cache a result causes a warning, and never the loss of the result.
#
#     with OnlyWarned():
#         cache.keep(key, content)
#
# Functions that store results raise `Unkept`. A function whose result does not depend on storage uses this
# block, and handles the error nowhere else: a caller in Python gets the warning `NotKept`, and the command line
# shows its diagnostic.


T = TypeVar("T")


class IsamapError(Exception):
    """A failure with one or more findings. `exit_code` is the exit code of the command line."""

    exit_code = 2

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "an error carries at least one diagnostic"
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        notes: tuple[str, ...] = (),
        help: str | None = None,  # noqa: A002 - the name of the field
        edits: tuple[Edit, ...] = (),
    ) -> Self:
        """Return the error with one finding of these fields."""
        return cls(Diagnostic(code, message, span, notes=notes, help=help, edits=edits))

    def __str__(self) -> str:
        """Return the rendered diagnostics with notes and the next step, as Python prints them after the class."""
        return self.render()

    def render(self) -> str:
        """Return all findings, one per line."""
        return "\n".join(d.render() for d in self.diagnostics)


class SyntaxProblem(IsamapError):
    """An error: a text does not follow the grammar of the language."""


class TypeProblem(IsamapError):
    """An error: a text parses, but its names, types or sizes do not fit."""


class SpecProblem(IsamapError):
    """An error in a machine description."""


class UsageProblem(IsamapError):
    """An error: a command or call has invalid arguments."""


class MissingWords(UsageProblem):
    """An error: a command line lacks options. `words` are those to add, with placeholders for values."""

    def __init__(self, diagnostic: Diagnostic, words: tuple[str, ...]) -> None:
        super().__init__(diagnostic)
        self.words = words


class NoMapping(IsamapError):
    """An error: it is proven that no mapping or schedule exists."""

    exit_code = 3


class Infeasible(IsamapError):
    """An error: it is proven that the constraints of a schedule contradict each other."""

    exit_code = 3


class MissingTool(IsamapError):
    """An error: the environment lacks a compiler, a permission or an emulator."""

    exit_code = 5


class VerificationFailed(IsamapError):
    """An error: a check found a difference."""

    exit_code = 1


class Unkept(UsageProblem):
    """An error: a storage folder cannot be used, because it is full, is read-only, or is not a folder."""


class NotKept(UserWarning):
    """A warning: the result is complete, but could not be stored for later runs."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic


class OnlyWarned:
    """A context in which a failure to store a result is only a warning."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Unkept):
            return False
        for diagnostic in error.diagnostics:
            warnings.warn(NotKept(replace(diagnostic, severity="warning")), stacklevel=2)
        return True


def assert_rules(subject: str, find_broken: Callable[[T], Sequence[str]], value: T) -> None:
    """Check rules of an intermediate result if ISAMAP_CHECK_RULES is 1. Raises: AssertionError.

    The tests set it for all their compilations. A user's compilation pays nothing for the rules, and a rule that is
    itself wrong cannot end it.
    """
    if os.environ.get("ISAMAP_CHECK_RULES") == "1" and (broken := find_broken(value)):
        raise AssertionError(f"{subject} broke its rules: {broken[0]}")
