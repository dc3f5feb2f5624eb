"""Parse the text of `emit` to a call template, which may contain variables of an instruction family.

    c = (__m512) _mm512_fmadd_$P(a, b, c)

    emission = [operand "="] call | step {step}
    call     = ["(" type ")"] function "(" [argument {"," argument}] ")"
    argument = value {("+" | "*" | "<<") value}
    value    = call | ["(" type ")"] (integer | name [place] ["." attribute])
    step     = ["for" name "in" sum {"," name "in" sum} ":"] [operand "=" | type name [place] "="] call ";"
    type     = name {name}
    place    = "[" sum {"," sum} "]"        sum of products of integers and of what `for` counts

The module `calls` checks the meaning of the names.

The module also parses the language text in a description's blocks, all at once, with the file's own
positions.

It replaces all other text by blanks, which keeps every character's position: a span of the syntax tree is a
span of the YAML file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from isamap.machine.emit_nodes import EmitNothing, EmitSemantics
from isamap.machine.tree import MAX_FINDINGS, Findings, ScalarNode
from isamap.source import IsamapError, Source, Span, SpecProblem, dataclass, is_digits
from isamap.syntax import parse_template
from isamap.syntax.ast import DeclarationSyntax

Declarations = tuple[DeclarationSyntax, ...]


def parse_texts(
    source: Source, scalars: Sequence[ScalarNode], findings: Findings
) -> tuple[Declarations | None, ...]:
    """Return the declarations of each text, or None for one that was refused."""
    regions: list[tuple[int, int] | None] = []
    for scalar in scalars:
        region = None
        with findings.collect():
            region = text_region(scalar)
        regions.append(region)
    present = [region for region in regions if region is not None]
    try:
        declarations = parse_template(source, _blank_outside(source.text, present))
    except IsamapError:
        return tuple(_parse_alone(source, region, findings) for region in regions)
    starts = sorted(start for start, _ in present)
    found: dict[int, list[DeclarationSyntax]] = {start: [] for start in starts}
    for declaration in declarations:
        found[starts[bisect_right(starts, declaration.span.start) - 1]].append(declaration)
    return tuple(tuple(found[region[0]]) if region is not None else None for region in regions)


def _parse_alone(source: Source, region: tuple[int, int] | None, findings: Findings) -> Declarations | None:
    """Return the declarations of one text. It is parsed alone, so that its errors hide no errors of other texts.

    A parse takes as long as one of the whole file. Once as many errors are found as are shown, texts are skipped.
    """
    if region is not None and len(findings.diagnostics) < MAX_FINDINGS:
        with findings.collect():
            return parse_template(source, _blank_outside(source.text, [region]))
    return None


def text_region(scalar: ScalarNode) -> tuple[int, int]:
    """Return the range of characters of a scalar's text. Raises: SpecProblem if there is none."""
    span = scalar.span
    raw = span.text
    match scalar.style:
        case "literal":
            newline = raw.find("\n")
            return span.start + (newline + 1 if newline >= 0 else len(raw)), span.end
        case "plain" if raw == scalar.text:
            return span.start, span.end
        case "quoted" if raw[1:-1] == scalar.text:
            return span.start + 1, span.end - 1
        case _:
            raise SpecProblem.of(
                "text-not-literal",
                "write language text in a literal block, so that errors can point into it",
                span,
                help="write `|` behind the key and the text in the lines below",
            )


def _blank_outside(text: str, regions: Sequence[tuple[int, int]]) -> str:
    """Return the text with all characters outside the regions replaced by blanks. Line ends stay."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(regions):
        pieces += [_blanks(text[at:start]), text[start:end]]
        at = end
    return "".join((*pieces, _blanks(text[at:])))


def _blanks(text: str) -> str:
    return "\n".join(" " * len(line) for line in text.split("\n"))


MOST_NESTED = 8
"""The limit on nested calls in one emission. No instruction of real hardware needs this many."""

_TOKEN = re.compile(r"\s*(?:([A-Za-z_$][A-Za-z0-9_$]*|-?(?:0x[0-9a-fA-F]+|[0-9]+))|(<<|[=(),.*+])|(\S))")
_IN_STEPS = re.compile(_TOKEN.pattern.replace(",.*+]", r",.*+\[\]:;]"))
_BINDING = {"<<": 1, "+": 2, "*": 3}


@dataclass(frozen=True, slots=True)
class Word:
    """A name, a number or a C type, with its position in the text."""

    text: str
    span: Span


Sum = tuple[tuple[Word, ...], ...]
"""A sum of products of integers and names, as `2*i + 1`."""


@dataclass(frozen=True, slots=True)
class EmissionArgument:
    """`(cast) name[place].attribute`. A number's `name` is its text."""

    name: Word
    attribute: Word | None
    cast: Word | None
    place: tuple[Sum, ...] = ()

    @property
    def start(self) -> Word:
        return self.name


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`, before names are resolved."""

    operator: Word
    left: Written
    right: Written

    @property
    def start(self) -> Word:
        """The word that errors point at."""
        return self.left.start


@dataclass(frozen=True, slots=True)
class Nested:
    """A call, `(cast) function(args)`, before names are resolved."""

    cast: Word | None
    function: Word
    args: tuple[Written, ...]

    @property
    def start(self) -> Word:
        return self.function


Written = EmissionArgument | Arithmetic | Nested


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """`result = (cast) function(args)`, before names are resolved."""

    result: Word | None
    call: Nested
    span: Span

    @property
    def function(self) -> Word:
        """The name of the outermost function."""
        return self.call.function


@dataclass(frozen=True, slots=True)
class EmissionStep:
    """A step of an emission before names are resolved: `for turn in count, …: type name[place] = call;`.

    Without a type, `name` is an operand in a register.
    """

    iterations: tuple[tuple[Word, Sum], ...]
    c_type: Word | None
    name: Word | None
    place: tuple[Sum, ...]
    call: Nested


@dataclass(frozen=True, slots=True)
class StepsTemplate:
    """Consecutive calls, before names are resolved."""

    steps: tuple[EmissionStep, ...]
    span: Span


Template = CallTemplate | StepsTemplate | EmitSemantics | EmitNothing


def parse_emit(text: ScalarNode) -> Template:
    """Return the template of an `emit`: calls, or the word `semantics` or `none`. Raises: SpecProblem."""
    match text.text.strip():
        case "semantics":
            return EmitSemantics()
        case "none":
            return EmitNothing()
        case written if written.endswith(";"):
            return _Parser(text, _IN_STEPS).steps()
        case _:
            return _Parser(text, _TOKEN).call()


class _Parser:
    """A recursive-descent parser of one call or several steps."""

    def __init__(self, text: ScalarNode, token: re.Pattern[str]) -> None:
        start, end = text_region(text)
        self.source: Source = text.span.source
        self.words = _tokens(self.source, start, end, token)
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

    def steps(self) -> StepsTemplate:
        found: list[EmissionStep] = []
        while self.peek() is not None:
            found.append(self.step())
        return StepsTemplate(tuple(found), self.whole)

    def step(self) -> EmissionStep:
        iterations: list[tuple[Word, Sum]] = []
        if self.follows("for"):
            while not iterations or self.follows(","):
                self.at += 1  # `for`, and each comma
                iteration = self.name("a name to count by")
                self.take("in")
                iterations.append((iteration, self.sum("a whole number")))
            self.take(":")
        c_type, name, place = None, None, ()
        if self.follows("=", 1):
            name = self.name("an operand")
            self.take("=")
        elif not self.follows("(") and not self.follows("(", 1):
            c_type, name = self.c_type(), self.name("a name")
            place = self.place()
            self.take("=")
        call = self.nested(self.cast(), self.name("a function"), 1)
        self.take(";")
        return EmissionStep(tuple(iterations), c_type, name, place, call)

    def c_type(self) -> Word:
        """Return the words before a name, as in `__vector unsigned char r`."""
        words = [self.name("a C type")]
        while (behind := self.peek(1)) is not None and re.match(r"[A-Za-z_$]", behind.text):
            words.append(self.name("a C type"))
        return Word(" ".join(w.text for w in words), words[0].span.to(words[-1].span))

    def place(self) -> tuple[Sum, ...]:
        """Parse `[sum, …]`, which may be missing."""
        found: list[Sum] = []
        while self.follows("," if found else "["):
            self.at += 1
            found.append(self.sum("a place"))
        if found:
            self.take("]")
        return tuple(found)

    def sum(self, what: str) -> Sum:
        """Parse a sum such as `2*i + 1`."""
        terms: list[tuple[Word, ...]] = []
        while not terms or self.follows("+"):
            self.at += bool(terms)
            factors = [self.name(what, numbers=True)]
            while self.follows("*"):
                self.take("*")
                factors.append(self.name(what, numbers=True))
            terms.append(tuple(factors))
        return tuple(terms)

    def nested(self, cast: Word | None, function: Word, depth: int) -> Nested:
        if depth > MOST_NESTED:
            raise self.problem(
                f"calls may be nested at most {MOST_NESTED} deep", function, "split the instruction"
            )
        self.take("(")
        args: list[Written] = []
        while not self.follows(")"):
            if args:
                self.take(",")
            args.append(self.argument(depth))
        self.take(")")
        return Nested(cast, function, tuple(args))

    def argument(self, depth: int, least: int = 1) -> Written:
        """Return a value, or an expression of operators with at least the precedence `least`."""
        left = self.value(depth)
        while (sign := self.peek()) is not None and (own := _BINDING.get(sign.text, 0)) >= least:
            self.at += 1
            left = Arithmetic(sign, left, self.argument(depth, own + 1))
        return left

    def value(self, depth: int) -> EmissionArgument | Nested:
        cast = self.cast()
        name = self.name("an argument", numbers=True)
        if self.follows("(") and not is_digits(name.text.lstrip("-")[:1]):
            return self.nested(cast, name, depth + 1)
        place, attribute = self.place(), None
        if self.follows("."):
            self.take(".")
            attribute = self.name("an attribute")
        return EmissionArgument(name, attribute, cast, place)

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
        return SpecProblem.of(
            "emit-syntax",
            said,
            place,
            help=advice or "write `result = function(argument, …)`, or `semantics`",
        )


def _tokens(source: Source, start: int, end: int, token: re.Pattern[str]) -> tuple[Word, ...]:
    words: list[Word] = []
    at = start
    while (match := token.match(source.text, at, end)) is not None:
        at = match.end()
        group = match.lastindex or 0
        span = Span(source, match.start(group), match.end(group))
        if group == 3:
            raise SpecProblem.of(
                "emit-syntax",
                f"`{match[3]}` is not of an emission",
                span,
                help="an emission is a call with names, whole numbers and calls as arguments",
            )
        words.append(Word(match[group], span))
    return tuple(words)
