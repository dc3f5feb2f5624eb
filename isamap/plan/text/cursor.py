"""A cursor in a schedule's text, with functions that read from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from isamap.source import Source, Span, SyntaxProblem, dataclass, is_digits

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9.*]*|[0-9]+|\S")
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")


@dataclass(slots=True)
class TextReader:
    """A position in a text, with functions that read from it."""

    source: Source
    position: int = 0

    def skip_blank(self) -> None:
        blank = _BLANK.match(self.source.text, self.position)
        self.position = blank.end() if blank else self.position

    def at_end(self) -> bool:
        self.skip_blank()
        return self.position >= len(self.source.text)

    def peek_span(self) -> Span:
        """Return the span of the next token, or of the last character at the end."""
        self.skip_blank()
        token = _TOKEN.match(self.source.text, self.position)
        end = len(self.source.text.rstrip())
        return Span(self.source, *token.span()) if token else Span(self.source, max(0, end - 1), end)

    def line_span(self) -> Span:
        """Return the rest of this line without its comment and surrounding blanks."""
        end = self.source.text.find("\n", self.position)
        whole = self.source.text[self.position : len(self.source.text) if end < 0 else end]
        text = whole.partition("#")[0].rstrip()
        start = self.position + len(text) - len(text.lstrip())
        return Span(self.source, start, max(start, self.position + len(text)))

    def take_one_of(self, words: Sequence[str]) -> str:
        span = self.peek_span()
        if self.at_end() or span.text not in words:
            raise self.unexpected(words)
        self.position = span.end
        return span.text

    def take_name(self, what: str) -> str:
        span = self.peek_span()
        if self.at_end() or not (span.text[0].isalpha() or span.text[0] == "_"):
            raise self.unexpected((what,))
        self.position = span.end
        return span.text

    def take_number(self) -> int:
        span = self.peek_span()
        if self.at_end() or not is_digits(span.text):
            raise self.unexpected(("a number",))
        if len(span.text) > 18:
            raise self.problem("this number is too large", span)
        self.position = span.end
        return int(span.text)

    def take_until(self, stop: str) -> Span:
        """Return the text up to a character, which is consumed."""
        self.skip_blank()
        end = self.source.text.find(stop, self.position)
        if end < 0:
            raise self.problem(f"`{stop}` is missing behind this", self.line_span())
        span = Span(self.source, self.position, end)
        self.position = end + 1
        return span

    def unexpected(self, expected: Sequence[str]) -> SyntaxProblem:
        words = [f"`{w}`" if " " not in w else w for w in expected]
        choices = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        if self.at_end():
            return self.problem(f"the text ends too early: expected {choices}", self.peek_span())
        span = self.peek_span()
        near = get_close_matches(span.text, [w for w in expected if w.isalpha()], n=1, cutoff=0.6)
        advice = f"did you mean `{near[0]}`?" if near else None
        return self.problem(f"`{span.text}` is not allowed here: expected {choices}", span, advice)

    def problem(self, message: str, span: Span, advice: str | None = None) -> SyntaxProblem:
        return SyntaxProblem.of("schedule-syntax", message, span, help=advice)
