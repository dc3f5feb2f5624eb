"""The text of a schedule, perhaps edited by hand, back to a Schedule.

Comments run from `#` to the end of the line; spaces and line ends inside a nest do not matter.

gemm.schedule:9:5: error[schedule-syntax]: `fro` cannot stand here: expected `for`, `hold`, ... or `unroll`
  help: did you mean `for`?
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from isamap.plan.loops import LOOP_KINDS, LoopStep, UnrolledLoop
from isamap.plan.schedule import NestSchedule, Prefetch, Schedule, Spread, Stage
from isamap.plan.steady import Pipeline
from isamap.plan.text.cursor import Reader
from isamap.plan.text.header import parse_header, standing
from isamap.plan.text.stages import parse_stage, take_turns
from isamap.plan.text.writing import FORMAT
from isamap.source import Diagnostic, Source, SyntaxProblem

MAX_TEXT_CHARACTERS = 1_000_000
MAX_DEPTH = 200
# A hint takes no room.
MAX_HINTED_AHEAD = 256

_WORDS = ("carry", "for", "fuse", "hold", "issue", "par", "pipeline", "prefetch", "spread", "stage", "unroll")
_LOOPS: dict[str, type[LoopStep]] = {kind.word: kind for kind in LOOP_KINDS}


def parse_schedule(source: Source) -> Schedule:
    """The schedule that a text says; of a text that was changed nothing about its cost is believed.

    Raises: SyntaxProblem where it is not a schedule.
    """
    if len(source.text) > MAX_TEXT_CHARACTERS:
        raise SyntaxProblem(
            Diagnostic(
                "schedule-syntax",
                f"{source.name} has {len(source.text)} characters; the limit is {MAX_TEXT_CHARACTERS}",
            )
        )
    reader = Reader(source)
    reader.skip_blank()
    if not source.text.startswith(FORMAT, reader.position):
        raise reader.problem("this is not a schedule", reader.line_span(), f"its first line is `{FORMAT}`")
    reader.position += len(FORMAT)
    schedule, digest = parse_header(reader)
    nests: list[NestSchedule] = []
    while not reader.at_end():
        start = reader.peek_span()
        nest = _parse_nest(reader)
        if any(n.statement == nest.statement for n in nests):
            raise reader.problem(f"there are two nests {nest.statement}", start)
        nests.append(nest)
    if not nests:
        raise reader.problem("a schedule has at least one `nest`", reader.peek_span())
    return standing(replace(schedule, nests=tuple(nests)), digest)


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
    carried: str = ""


def _parse_nest(reader: Reader) -> NestSchedule:
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
        body.carried,
    )


def _parse_loops(reader: Reader, body: _Body) -> None:
    """Everything from behind the mapping to `issue;`."""
    while True:
        span = reader.peek_span()
        match reader.take_one_of(_WORDS):
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
                    raise reader.problem(f"`carry {body.carried}` stands around unrolled loops only", span)
                body.loops.append(_parse_loop(reader, _LOOPS[kind]))
                if len(body.loops) > MAX_DEPTH:
                    raise reader.problem(f"these are more than {MAX_DEPTH} loops in one nest", span)


def _parse_pipeline(reader: Reader) -> Pipeline:
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


def _parse_prefetch(reader: Reader, depth: int) -> Prefetch:
    operand = reader.take_name("an operand")
    reader.take_one_of(("ahead",))
    ahead = take_turns(reader, MAX_HINTED_AHEAD)
    reader.take_one_of(("into",))
    cache = reader.take_name("a cache")
    reader.take_one_of((";",))
    return Prefetch(operand, depth, ahead, cache)


def _parse_spread(reader: Reader, body: _Body) -> Spread:
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


def _parse_loop(reader: Reader, kind: type[LoopStep]) -> LoopStep:
    axis = reader.take_name("an axis")
    reader.take_one_of(("by",))
    span = reader.peek_span()
    step = reader.take_number()
    if step < 1:
        raise reader.problem("a step is at least 1", span)
    if kind is UnrolledLoop:
        reader.take_one_of(("{",))
        return UnrolledLoop(axis, step)
    rest: list[int] = []
    if reader.take_one_of(("rest", "{")) == "rest":
        while not rest or reader.peek_span().text != "{":
            rest.append(reader.take_number())
        reader.take_one_of(("{",))
    return replace(kind(axis, step), rest=tuple(rest))
