"""Read the text of a schedule, perhaps edited by hand, as a Schedule.

Comments run from `#` to the end of the line. Spaces and line ends inside a nest do not matter.

    gemm.schedule:9:5: error[schedule-syntax]: `fro` is not allowed here: expected `for`, `hold`, ... or `unroll`
      help: did you mean `for`?
"""

from __future__ import annotations

import re
from collections.abc import Callable

from isamap.plan import schedule as schedules
from isamap.plan.steady import Pipeline
from isamap.plan.text.cursor import TextReader
from isamap.plan.text.stage_lines import parse_stage, read_iterations
from isamap.plan.text.writing import FORMAT, text_digest
from isamap.source import Source, Span, SyntaxProblem, dataclass, field, replace

MAX_TEXT_CHARACTERS = 1_000_000
MAX_DEPTH = 200
# A hint takes no room.
MAX_HINTED_AHEAD = 256

_WORDS = ("carry", "for", "fuse", "hold", "issue", "par", "pipeline", "prefetch", "spread", "stage", "unroll")
_LOOPS: dict[str, type[schedules.LoopStep]] = {kind.word: kind for kind in schedules.LOOP_KINDS}


def parse_schedule(source: Source) -> schedules.Schedule:
    """Return the schedule in a text. In an edited text, its claims about cost are dropped.

    Raises: SyntaxProblem if it is not a schedule.
    """
    if len(source.text) > MAX_TEXT_CHARACTERS:
        raise SyntaxProblem.of(
            "schedule-syntax",
            f"{source.name} has {len(source.text)} characters; the limit is {MAX_TEXT_CHARACTERS}",
        )
    reader = TextReader(source)
    reader.skip_blank()
    if not source.text.startswith(FORMAT, reader.position):
        raise reader.problem(
            f"this is not a schedule that this version reads: its first line is not `{FORMAT}`",
            reader.line_span(),
        )
    reader.position += len(FORMAT)
    schedule, digest = parse_header(reader)
    nests: list[schedules.NestSchedule] = []
    while not reader.at_end():
        start = reader.peek_span()
        nest = _parse_nest(reader)
        if any(n.statement == nest.statement for n in nests):
            raise reader.problem(f"there are two nests {nest.statement}", start)
        nests.append(nest)
    if not nests:
        raise reader.problem("a schedule has at least one `nest`", reader.peek_span())
    return forget_stale_cost(replace(schedule, nests=tuple(nests)), digest)


# --- nests ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Body:
    """The parts of a nest that its loops have stated so far."""

    loops: list[schedules.LoopStep] = field(default_factory=list[schedules.LoopStep])
    stages: list[schedules.Stage] = field(default_factory=list[schedules.Stage])
    hold: int | None = None
    spread: list[schedules.DeferredWriteBack] = field(default_factory=list[schedules.DeferredWriteBack])
    fused: list[int] = field(default_factory=list[int])
    prefetches: list[schedules.Prefetch] = field(default_factory=list[schedules.Prefetch])
    pipeline: Pipeline | None = None
    carried: str = ""


def _parse_nest(reader: TextReader) -> schedules.NestSchedule:
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
    return schedules.NestSchedule(
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
        body.carried,
    )


def _parse_loops(reader: TextReader, body: _Body) -> None:
    """Parse the loops after the mapping up to `issue;`."""
    while True:
        span = reader.peek_span()
        match reader.take_one_of(_WORDS):
            case "issue":
                reader.take_one_of((";",))
                if body.hold is None:
                    raise reader.problem(
                        "no `hold` is around this issue", span, "add `hold;` between two loops"
                    )
                return
            case "hold":
                reader.take_one_of((";",))
                if body.hold is not None:
                    raise reader.problem("a nest has one `hold`", span)
                body.hold = len(body.loops)
            case "carry":
                if body.carried:
                    raise reader.problem("a nest has one `carry`", span)
                body.carried = reader.take_name("an axis")
                reader.take_one_of((";",))
            case "fuse":
                if body.fused:
                    raise reader.problem("a nest has one `fuse`", span)
                while not body.fused or reader.take_one_of((",", ";")) == ",":
                    body.fused.append(reader.take_number())
            case "stage":
                body.stages.append(parse_stage(reader, len(body.loops)))
            case "pipeline":
                if body.pipeline is not None:
                    raise reader.problem("a nest has one `pipeline`", span)
                body.pipeline = _parse_pipeline(reader)
            case "prefetch":
                body.prefetches.append(_parse_prefetch(reader, len(body.loops)))
            case "spread":
                body.spread.append(_parse_spread(reader, body))
            case kind:
                if body.carried and kind != "unroll":
                    raise reader.problem(f"`carry {body.carried}` may be around unrolled loops only", span)
                body.loops.append(_parse_loop(reader, _LOOPS[kind]))
                if len(body.loops) > MAX_DEPTH:
                    raise reader.problem(f"these are more than {MAX_DEPTH} loops in one nest", span)


def _parse_pipeline(reader: TextReader) -> Pipeline:
    reader.take_one_of(("every",))
    span = reader.peek_span()
    interval = reader.take_number()
    if interval < 1:
        raise reader.problem("iterations start one or more ticks apart", span)
    reader.take_one_of(("at",))
    starts = [reader.take_number()]
    while reader.peek_span().text != ";":
        starts.append(reader.take_number())
    reader.take_one_of((";",))
    return Pipeline(interval, tuple(starts))


def _parse_prefetch(reader: TextReader, depth: int) -> schedules.Prefetch:
    operand = reader.take_name("an operand")
    reader.take_one_of(("ahead",))
    ahead = read_iterations(reader, MAX_HINTED_AHEAD)
    reader.take_one_of(("into",))
    cache = reader.take_name("a cache")
    reader.take_one_of((";",))
    return schedules.Prefetch(operand, depth, ahead, cache)


def _parse_spread(reader: TextReader, body: _Body) -> schedules.DeferredWriteBack:
    reader.take_one_of(("write",))
    span = reader.peek_span()
    operand = reader.take_name("an operand")
    if not body.stages or body.stages[-1].operand != operand or body.stages[-1].depth != len(body.loops):
        raise reader.problem(
            f"`spread write {operand}` does not follow a `stage {operand};`",
            span,
            "a deferred write-back needs a staging buffer: write the two lines together",
        )
    reader.take_one_of(("into",))
    axis = reader.take_name("an axis")
    reader.take_one_of((";",))
    return schedules.DeferredWriteBack(operand, axis)


def _parse_loop(reader: TextReader, kind: type[schedules.LoopStep]) -> schedules.LoopStep:
    axis = reader.take_name("an axis")
    reader.take_one_of(("by",))
    span = reader.peek_span()
    step = reader.take_number()
    if step < 1:
        raise reader.problem("a step is at least 1", span)
    if kind is schedules.UnrolledLoop:
        reader.take_one_of(("{",))
        return schedules.UnrolledLoop(axis, step)
    rest: list[int] = []
    if reader.take_one_of(("rest", "{")) == "rest":
        while not rest or reader.peek_span().text != "{":
            rest.append(reader.take_number())
        reader.take_one_of(("{",))
    return replace(kind(axis, step), rest=tuple(rest))


# The lines of a schedule's text before its first nest: what it is for, and what is claimed about it.
#
# What is claimed is the solver's word, and stands only in a text that was not changed since: the line
# `digest` says so of all others. Without it, or where it differs, the schedule is one that a person wrote.


_SIZE = re.compile(
    r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:(-?[0-9]{1,20})|(-?[0-9]{1,20}\.\.-?[0-9]{1,20}(?:@-?[0-9]{1,20})?))\s*$"
)
_DIGEST = re.compile(r"[0-9a-f]{12}")
_STATUSES = ("OPTIMAL", "FEASIBLE", "HEURISTIC", "MANUAL")
_BLOCKS = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s+by\s+([1-9][0-9]{0,17})\s*")
_FIXED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*([0-9]{1,18})\s*")


def forget_stale_cost(schedule: schedules.Schedule, digest: str) -> schedules.Schedule:
    """Return the schedule. If the digest does not match its text, claims of cost and bound are dropped."""
    return schedule if digest == text_digest(schedule) else schedules.forget_cost(schedule)


def parse_header(reader: TextReader) -> tuple[schedules.Schedule, str]:
    """Return the lines before the first nest as a schedule without nests, and the digest in them."""
    schedule, digest = schedules.Schedule("", "", (), ()), ""
    seen: set[str] = set()
    while not reader.at_end() and reader.peek_span().text != "nest":
        key_span = reader.peek_span()
        key = reader.take_one_of((*_HEADER_READERS, "digest", "nest"))
        if key in seen:
            raise reader.problem(f"`{key}` is given twice", key_span)
        seen.add(key)
        value = reader.line_span()
        if not value.text:
            raise reader.problem(f"`{key}` needs a value on this line", key_span)
        if key == "digest":
            digest = _read_digest(reader, value)
        else:
            schedule = _HEADER_READERS[key](schedule, reader, value)
        reader.position = value.end
    for key in ("kernel", "machine"):
        if key not in seen:
            raise reader.problem(
                f"the schedule does not say its {key}", reader.peek_span(), f"add a line `{key} NAME`"
            )
    return schedule, digest


def _read_sizes(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    sizes: list[tuple[str, int | str]] = []
    for word in value.text.split(","):
        match = _SIZE.match(word)
        if not match:
            raise reader.problem(
                f"`{word.strip()}` is not a size", value, "write `M = 1024`, or a range `M = 1..8192@512`"
            )
        sizes.append((match[1], int(match[2]) if match[2] else match[3]))
    return replace(schedule, sizes=tuple(sizes))


def _read_time(reader: TextReader, value: Span) -> float:
    number, _, unit = value.text.partition(" ")
    try:
        time_ns = float(number)
    except ValueError:
        time_ns = -1.0
    if unit.strip() not in ("ns", *schedules.COST_UNITS.values()) or not 0 <= time_ns < float("inf"):
        raise reader.problem(f"`{value.text}` is not a time", value, "write it as `12.5 ns`")
    return time_ns


def _read_digest(reader: TextReader, value: Span) -> str:
    if not _DIGEST.fullmatch(value.text):
        raise reader.problem(
            f"`{value.text}` is not a digest", value, "leave the line out, or write its 12 digits"
        )
    return value.text


def _read_fixed(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    pairs = [_FIXED.fullmatch(word) for word in value.text.split(",")]
    found = [(pair[1], int(pair[2])) for pair in pairs if pair]
    if len(found) != len(pairs):
        raise reader.problem(
            f"`{value.text}` fixes no decisions",
            value,
            "write `nest0.unroll.m = 2`, with commas between them",
        )
    return replace(schedule, fixed=tuple(found))


def _read_blocks(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    pairs = [_BLOCKS.fullmatch(word) for word in value.text.split(",")]
    found = [(pair[1], int(pair[2])) for pair in pairs if pair]
    if len(found) != len(pairs) or len(dict(found)) != len(found):
        raise reader.problem(
            f"`{value.text}` lists no blocks", value, "write `p by 4`, with commas between different axes"
        )
    return replace(schedule, blocks=tuple(found))


def _read_profile(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    if not _DIGEST.fullmatch(value.text):
        raise reader.problem(
            f"`{value.text}` is not a digest of a profile",
            value,
            "leave the line out, or write its 12 digits",
        )
    return replace(schedule, profile=value.text)


def _read_status(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    if value.text not in _STATUSES:
        reader.position = value.start
        raise reader.unexpected(_STATUSES)
    return replace(schedule, status=value.text)


def _read_engines(reader: TextReader, value: Span) -> str:
    word, _, engines = value.text.partition(" ")
    if word != "by" or not engines:
        raise reader.problem(f"`{value.text}` names no engine", value, "write it as `by greedy`")
    return engines.strip()


def _read_reproducible(schedule: schedules.Schedule, reader: TextReader, value: Span) -> schedules.Schedule:
    if value.text not in ("yes", "no"):
        reader.position = value.start
        raise reader.unexpected(("yes", "no"))
    return replace(schedule, reproducible=value.text == "yes")


_HEADER_READERS: dict[str, Callable[[schedules.Schedule, TextReader, Span], schedules.Schedule]] = {
    "kernel": lambda s, _, value: replace(s, kernel=value.text),
    "machine": lambda s, _, value: replace(s, machine=value.text),
    "sizes": _read_sizes,
    "blocks": _read_blocks,
    "model": lambda s, _, value: replace(s, model=value.text),
    "cost": lambda s, reader, value: replace(s, cost_ns=_read_time(reader, value)),
    "bound": lambda s, reader, value: replace(s, lower_bound_ns=_read_time(reader, value)),
    "profile": _read_profile,
    "question": lambda s, reader, value: replace(s, question=_read_digest(reader, value)),
    "fixed": _read_fixed,
    "status": _read_status,
    "found": lambda s, reader, value: replace(s, found_by=_read_engines(reader, value)),
    "proved": lambda s, reader, value: replace(s, proved_by=_read_engines(reader, value)),
    "reproducible": _read_reproducible,
}
