"""The text of a schedule, perhaps edited by hand, back to a Schedule.

Comments run from `#` to the end of the line; spaces and line ends inside a nest do not matter.

gemm.schedule:9:5: error[schedule-syntax]: `fro` cannot stand here: expected `for`, `hold`, ... or `unroll`
  help: did you mean `for`?
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from isamap.plan.schedule import LoopKind, LoopStep, NestSchedule, Prefetch, Schedule, Spread, Stage
from isamap.plan.steady import Pipeline
from isamap.plan.text import FORMAT, LOOP_WORDS
from isamap.source import Diagnostic, Source, Span, SyntaxProblem

MAX_TEXT_CHARACTERS = 1_000_000
MAX_DEPTH = 200
# Of a buffer each turn ahead is a copy; a hint takes no room.
MAX_AHEAD = 16
MAX_HINTED_AHEAD = 256

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9.*]*|[0-9]+|\S")
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_SIZE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(?:(-?\d{1,20})|(-?\d{1,20}\.\.-?\d{1,20}(?:@-?\d{1,20})?))\s*$")
_HEADERS = ("kernel", "machine", "sizes", "model", "profile", "cost", "bound", "status", "reproducible")
_PROFILE = re.compile(r"[0-9a-f]{12}")
_STATUSES = ("OPTIMAL", "FEASIBLE", "HEURISTIC", "MANUAL")
_LOOP_KINDS: dict[str, LoopKind] = {word: kind for kind, word in LOOP_WORDS.items()}


def parse_schedule(source: Source) -> Schedule:
    """The schedule that a text says.

    Raises: SyntaxProblem where it is not a schedule.
    """
    if len(source.text) > MAX_TEXT_CHARACTERS:
        raise SyntaxProblem(
            Diagnostic(
                "schedule-syntax",
                f"{source.name} has {len(source.text)} characters; the limit is {MAX_TEXT_CHARACTERS}",
            )
        )
    reader = _Reader(source)
    reader.skip_blank()
    if not source.text.startswith(FORMAT, reader.position):
        raise reader.problem("this is not a schedule", reader.line_span(), f"its first line is `{FORMAT}`")
    reader.position += len(FORMAT)
    schedule = _parse_header(reader)
    nests: list[NestSchedule] = []
    while not reader.at_end():
        start = reader.peek_span()
        nest = _parse_nest(reader)
        if any(n.statement == nest.statement for n in nests):
            raise reader.problem(f"there are two nests {nest.statement}", start)
        nests.append(nest)
    if not nests:
        raise reader.problem("a schedule has at least one `nest`", reader.peek_span())
    return replace(schedule, nests=tuple(nests))


@dataclass(slots=True)
class _Reader:
    """A place in a text, and what may be read from there."""

    source: Source
    position: int = 0

    def skip_blank(self) -> None:
        blank = _BLANK.match(self.source.text, self.position)
        self.position = blank.end() if blank else self.position

    def at_end(self) -> bool:
        self.skip_blank()
        return self.position >= len(self.source.text)

    def peek_span(self) -> Span:
        """The next token; the last character where there is none."""
        self.skip_blank()
        token = _TOKEN.match(self.source.text, self.position)
        end = len(self.source.text.rstrip())
        return Span(self.source, *token.span()) if token else Span(self.source, max(0, end - 1), end)

    def line_span(self) -> Span:
        """The rest of this line, without its comment and the blanks around it."""
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
        if self.at_end() or not span.text.isascii() or not span.text.isdigit():
            raise self.unexpected(("a number",))
        if len(span.text) > 18:
            raise self.problem("this number is too large", span)
        self.position = span.end
        return int(span.text)

    def take_until(self, stop: str) -> Span:
        """Everything up to a character, which is read as well."""
        self.skip_blank()
        end = self.source.text.find(stop, self.position)
        if end < 0:
            raise self.problem(f"`{stop}` is missing behind this", self.line_span())
        span = Span(self.source, self.position, end)
        self.position = end + 1
        return span

    def unexpected(self, expected: Sequence[str]) -> SyntaxProblem:
        words = [f"`{w}`" if " " not in w else w for w in expected]
        wanted = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
        if self.at_end():
            return self.problem(f"the text ends too early: expected {wanted}", self.peek_span())
        span = self.peek_span()
        near = get_close_matches(span.text, [w for w in expected if w.isalpha()], n=1, cutoff=0.6)
        advice = f"did you mean `{near[0]}`?" if near else None
        return self.problem(f"`{span.text}` cannot stand here: expected {wanted}", span, advice)

    def problem(self, message: str, span: Span, advice: str | None = None) -> SyntaxProblem:
        return SyntaxProblem(Diagnostic("schedule-syntax", message, span, help=advice))


# --- header -----------------------------------------------------------------------------------------------


def _parse_header(reader: _Reader) -> Schedule:
    """The lines before the first nest, as a schedule without nests."""
    schedule = Schedule("", "", (), ())
    seen: set[str] = set()
    while not reader.at_end() and reader.peek_span().text != "nest":
        key_span = reader.peek_span()
        key = reader.take_one_of((*_HEADERS, "nest"))
        if key in seen:
            raise reader.problem(f"`{key}` is given twice", key_span)
        seen.add(key)
        value = reader.line_span()
        if not value.text:
            raise reader.problem(f"`{key}` needs a value on this line", key_span)
        schedule = _HEADER_READERS[key](schedule, reader, value)
        reader.position = value.end
    for key in ("kernel", "machine"):
        if key not in seen:
            raise reader.problem(
                f"the schedule does not say its {key}", reader.peek_span(), f"add a line `{key} NAME`"
            )
    return schedule


def _read_sizes(schedule: Schedule, reader: _Reader, value: Span) -> Schedule:
    sizes: list[tuple[str, int | str]] = []
    for word in value.text.split(","):
        match = _SIZE.match(word)
        if not match:
            raise reader.problem(
                f"`{word.strip()}` is not a size",
                value,
                "write `M = 1024`, or a range `M = 1..8192@512`",
            )
        sizes.append((match[1], int(match[2]) if match[2] else match[3]))
    return replace(schedule, sizes=tuple(sizes))


def _read_time(reader: _Reader, value: Span) -> float:
    number, _, unit = value.text.partition(" ")
    try:
        time_ns = float(number)
    except ValueError:
        time_ns = -1.0
    if unit.strip() != "ns" or not 0 <= time_ns < float("inf"):
        raise reader.problem(f"`{value.text}` is not a time", value, "write it as `12.5 ns`")
    return time_ns


def _read_profile(schedule: Schedule, reader: _Reader, value: Span) -> Schedule:
    if not _PROFILE.fullmatch(value.text):
        raise reader.problem(
            f"`{value.text}` is no digest of a profile", value, "leave the line out, or write its 12 digits"
        )
    return replace(schedule, profile=value.text)


def _read_status(schedule: Schedule, reader: _Reader, value: Span) -> Schedule:
    if value.text not in _STATUSES:
        reader.position = value.start
        raise reader.unexpected(_STATUSES)
    return replace(schedule, status=value.text)


def _read_reproducible(schedule: Schedule, reader: _Reader, value: Span) -> Schedule:
    if value.text not in ("yes", "no"):
        reader.position = value.start
        raise reader.unexpected(("yes", "no"))
    return replace(schedule, reproducible=value.text == "yes")


_HEADER_READERS: dict[str, Callable[[Schedule, _Reader, Span], Schedule]] = {
    "kernel": lambda s, _, value: replace(s, kernel=value.text),
    "machine": lambda s, _, value: replace(s, machine=value.text),
    "sizes": _read_sizes,
    "model": lambda s, _, value: replace(s, model=value.text),
    "cost": lambda s, reader, value: replace(s, cost_ns=_read_time(reader, value)),
    "bound": lambda s, reader, value: replace(s, lower_bound_ns=_read_time(reader, value)),
    "profile": _read_profile,
    "status": _read_status,
    "reproducible": _read_reproducible,
}


# --- nests ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Body:
    """What the loops of a nest have said so far."""

    loops: list[LoopStep] = field(default_factory=list[LoopStep])
    stages: list[Stage] = field(default_factory=list[Stage])
    hold: int | None = None
    spread: list[Spread] = field(default_factory=list[Spread])
    fused: list[int] = field(default_factory=list[int])
    prefetches: list[Prefetch] = field(default_factory=list[Prefetch])
    pipeline: Pipeline | None = None


def _parse_nest(reader: _Reader) -> NestSchedule:
    reader.take_one_of(("nest",))
    statement = reader.take_number()
    reader.take_one_of(("{",))
    reader.take_one_of(("map",))
    mapping = " ".join(reader.take_until(";").text.split())
    choose: list[tuple[str, int]] = []
    if reader.peek_span().text == "choose":
        reader.take_one_of(("choose",))
        while not choose or reader.take_one_of((",", ";")) == ",":
            name = reader.take_name("a parameter")
            reader.take_one_of(("=",))
            choose.append((name, reader.take_number()))
    body = _Body()
    _parse_loops(reader, body)
    for _ in range(len(body.loops) + 1):
        reader.take_one_of(("}",))
    hold = body.hold if body.hold is not None else 0
    return NestSchedule(
        statement,
        mapping,
        tuple(choose),
        tuple(body.loops),
        tuple(body.stages),
        hold,
        tuple(body.spread),
        tuple(sorted(body.fused)),
        tuple(body.prefetches),
        body.pipeline,
    )


def _parse_loops(reader: _Reader, body: _Body) -> None:
    """Everything from behind the mapping to `issue;`."""
    while True:
        span = reader.peek_span()
        words = ("for", "fuse", "hold", "issue", "par", "pipeline", "prefetch", "spread", "stage", "unroll")
        match reader.take_one_of(words):
            case "issue":
                reader.take_one_of((";",))
                if body.hold is None:
                    raise reader.problem(
                        "no `hold` stands around this issue", span, "add `hold;` between two loops"
                    )
                return
            case "hold":
                reader.take_one_of((";",))
                if body.hold is not None:
                    raise reader.problem("a nest has one `hold`", span)
                body.hold = len(body.loops)
            case "fuse":
                if body.fused:
                    raise reader.problem("a nest has one `fuse`", span)
                while not body.fused or reader.take_one_of((",", ";")) == ",":
                    body.fused.append(reader.take_number())
            case "stage":
                body.stages.append(_parse_stage(reader, len(body.loops)))
            case "pipeline":
                if body.pipeline is not None:
                    raise reader.problem("a nest has one `pipeline`", span)
                body.pipeline = _parse_pipeline(reader)
            case "prefetch":
                body.prefetches.append(_parse_prefetch(reader, len(body.loops)))
            case "spread":
                body.spread.append(_parse_spread(reader, body))
            case kind:
                body.loops.append(_parse_loop(reader, _LOOP_KINDS[kind]))
                if len(body.loops) > MAX_DEPTH:
                    raise reader.problem(f"these are more than {MAX_DEPTH} loops in one nest", span)


def _parse_stage(reader: _Reader, depth: int) -> Stage:
    operand = reader.take_name("an operand")
    ahead, memory, address = 0, "", None
    word = reader.take_one_of(("ahead", "in", "packed", ";"))
    if word == "packed":
        reader.take_one_of((";",))
        return Stage(operand, depth, packed=True)
    if word == "ahead":
        ahead = _parse_turns(reader, MAX_AHEAD)
        word = reader.take_one_of(("in", ";"))
    if word == "in":
        memory = reader.take_name("a scratchpad")
        word = reader.take_one_of(("at", ";"))
    if word == "at":
        address = reader.take_number()
        reader.take_one_of((";",))
    return Stage(operand, depth, ahead, memory, address)


def _parse_turns(reader: _Reader, most: int) -> int:
    span = reader.peek_span()
    turns = reader.take_number()
    if not 1 <= turns <= most:
        raise reader.problem(f"data is moved 1 to {most} turns ahead", span)
    return turns


def _parse_pipeline(reader: _Reader) -> Pipeline:
    reader.take_one_of(("every",))
    span = reader.peek_span()
    interval = reader.take_number()
    if interval < 1:
        raise reader.problem("turns start one or more ticks apart", span)
    reader.take_one_of(("at",))
    starts = [reader.take_number()]
    while reader.peek_span().text != ";":
        starts.append(reader.take_number())
    reader.take_one_of((";",))
    return Pipeline(interval, tuple(starts))


def _parse_prefetch(reader: _Reader, depth: int) -> Prefetch:
    operand = reader.take_name("an operand")
    reader.take_one_of(("ahead",))
    ahead = _parse_turns(reader, MAX_HINTED_AHEAD)
    reader.take_one_of(("into",))
    cache = reader.take_name("a cache")
    reader.take_one_of((";",))
    return Prefetch(operand, depth, ahead, cache)


def _parse_spread(reader: _Reader, body: _Body) -> Spread:
    reader.take_one_of(("write",))
    span = reader.peek_span()
    operand = reader.take_name("an operand")
    if not body.stages or body.stages[-1].operand != operand or body.stages[-1].depth != len(body.loops):
        raise reader.problem(
            f"`spread write {operand}` does not follow a `stage {operand};`",
            span,
            "what is written back late waits in a staging buffer: the two stand together",
        )
    reader.take_one_of(("into",))
    axis = reader.take_name("an axis")
    reader.take_one_of((";",))
    return Spread(operand, axis)


def _parse_loop(reader: _Reader, kind: LoopKind) -> LoopStep:
    axis = reader.take_name("an axis")
    reader.take_one_of(("by",))
    span = reader.peek_span()
    step = reader.take_number()
    if step < 1:
        raise reader.problem("a step is at least 1", span)
    rest: list[int] = []
    if reader.take_one_of(("{",) if kind == "unroll" else ("rest", "{")) == "rest":
        while not rest or reader.peek_span().text != "{":
            rest.append(reader.take_number())
        reader.take_one_of(("{",))
    return LoopStep(axis, step, kind, tuple(rest))
