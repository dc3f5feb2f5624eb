"""The words of `emit`: text to a template of a call, with variables of a family still in it.

    c = (__m512) _mm512_fmadd_$P(a, b, c)

    emission = [operand "="] call
    call     = ["(" type ")"] function "(" [argument {"," argument}] ")"
    argument = call | ["(" type ")"] (integer | name | name "." attribute)

What the names mean is checked in `calls`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from isamap.machine.model import EmitNothing, EmitSemantics
from isamap.machine.texts import text_region
from isamap.machine.tree import Scalar
from isamap.source import Diagnostic, Source, Span, SpecProblem, is_digits

MOST_NESTED = 8
"""How deep calls may stand in each other: hardware has no instruction that takes so many words to say."""

_TOKEN = re.compile(r"\s*(?:([A-Za-z_$][A-Za-z0-9_$]*|-?(?:0x[0-9a-fA-F]+|[0-9]+))|([=(),.*])|(\S))")


@dataclass(frozen=True, slots=True)
class Word:
    """A name, a number or a C type, and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """`(cast) name.attribute`; a number's `name` is its text."""

    name: Word
    attribute: Word | None
    cast: Word | None


@dataclass(frozen=True, slots=True)
class Nested:
    """A call, `(cast) function(args)`, names unresolved."""

    cast: Word | None
    function: Word
    args: tuple[Argument | Nested, ...]


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """`result = (cast) function(args)`, names unresolved."""

    result: Word | None
    call: Nested
    span: Span

    @property
    def function(self) -> Word:
        """The function that is called last."""
        return self.call.function


def parse_emit(text: Scalar) -> CallTemplate | EmitSemantics | EmitNothing:
    """What an `emit` writes: a call, or one of the words `semantics` and `none`. Raises: SpecProblem."""
    match text.text.strip():
        case "semantics":
            return EmitSemantics()
        case "none":
            return EmitNothing()
        case _:
            return _Parser(text).call()


class _Parser:
    """Reads one call, token by token."""

    def __init__(self, text: Scalar) -> None:
        start, end = text_region(text)
        self.source: Source = text.span.source
        self.words = _tokens(self.source, start, end)
        self.whole = Span(self.source, start, end)
        self.at = 0

    def call(self) -> CallTemplate:
        result = None
        if self.follows("=", 1):
            result = self.name("an operand")
            self.take("=")
        call = self.nested(self.cast(), self.name("a function"), 1)
        if (rest := self.peek()) is not None:
            raise self.problem("the call ends before this", rest, "an emission is one call")
        return CallTemplate(result, call, self.whole)

    def nested(self, cast: Word | None, function: Word, depth: int) -> Nested:
        if depth > MOST_NESTED:
            raise self.problem(
                f"calls stand {MOST_NESTED} deep in each other at most", function, "split the instruction"
            )
        self.take("(")
        args: list[Argument | Nested] = []
        while not self.follows(")"):
            if args:
                self.take(",")
            args.append(self.argument(depth))
        self.take(")")
        return Nested(cast, function, tuple(args))

    def argument(self, depth: int) -> Argument | Nested:
        cast = self.cast()
        name = self.name("an argument", numbers=True)
        if self.follows("(") and not is_digits(name.text.lstrip("-")[:1]):
            return self.nested(cast, name, depth + 1)
        attribute = None
        if self.follows("."):
            self.take(".")
            attribute = self.name("an attribute")
        return Argument(name, attribute, cast)

    def cast(self) -> Word | None:
        if not self.follows("("):
            return None
        opened = self.take("(")
        words: list[str] = []
        while not self.follows(")"):
            words.append(self.take("*").text if self.follows("*") else self.name("a C type").text)
        return Word(" ".join(words), opened.span.to(self.take(")").span))

    # --- tokens

    def peek(self, ahead: int = 0) -> Word | None:
        index = self.at + ahead
        return self.words[index] if index < len(self.words) else None

    def follows(self, text: str, ahead: int = 0) -> bool:
        word = self.peek(ahead)
        return word is not None and word.text == text

    def take(self, text: str) -> Word:
        word = self.peek()
        if word is None or word.text != text:
            raise self.problem(f"expected `{text}`", word)
        self.at += 1
        return word

    def name(self, what: str, numbers: bool = False) -> Word:
        word = self.peek()
        if word is None or not (
            re.match(r"[A-Za-z_$]", word.text) or (numbers and re.match(r"-?[0-9]", word.text))
        ):
            raise self.problem(f"expected {what}", word)
        self.at += 1
        return word

    def problem(self, message: str, word: Word | None, advice: str | None = None) -> SpecProblem:
        end = self.whole.end
        place = word.span if word is not None else Span(self.source, max(self.whole.start, end - 1), end)
        said = message if word is not None else f"the emission ends too early: {message}"
        return SpecProblem(
            Diagnostic(
                "emit-syntax",
                said,
                place,
                help=advice or "write `result = function(argument, …)`, or `semantics`",
            )
        )


def _tokens(source: Source, start: int, end: int) -> tuple[Word, ...]:
    words: list[Word] = []
    at = start
    while (match := _TOKEN.match(source.text, at, end)) is not None:
        at = match.end()
        group = match.lastindex or 0
        span = Span(source, match.start(group), match.end(group))
        if group == 3:
            raise SpecProblem(
                Diagnostic(
                    "emit-syntax",
                    f"`{match[3]}` is not of an emission",
                    span,
                    help="an emission is a call with names, whole numbers and calls as arguments",
                )
            )
        words.append(Word(match[group], span))
    return tuple(words)
