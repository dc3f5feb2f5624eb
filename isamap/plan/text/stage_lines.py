"""The line of a stage: the options after its operand, defined once for reading and writing.

    stage b;    stage b by rows;    stage b ahead 1 into k;    stage c in spad at 256;    stage b packed;

A new word is a field of `Stage` and a row of the table.
"""

from __future__ import annotations

from collections.abc import Callable

from isamap.plan.schedule import Stage
from isamap.plan.text.cursor import TextReader
from isamap.source.records import dataclass, replace

# Of a buffer each iteration ahead is a copy.
MAX_AHEAD = 16


def read_iterations(reader: TextReader, most: int) -> int:
    """Return the number of iterations that a move is ahead."""
    span = reader.peek_span()
    iterations = reader.take_number()
    if not 1 <= iterations <= most:
        raise reader.problem(f"data is moved 1 to {most} iterations ahead", span)
    return iterations


@dataclass(frozen=True, slots=True)
class Clause:
    """An option of the line: the field of the stage that it sets, its reader, and the options that may follow."""

    said: Callable[[Stage], str | None]
    read: Callable[[TextReader, Stage], Stage]
    then: tuple[str, ...] = ()


def _number_or_none(number: int | None) -> str | None:
    return None if number is None else str(number)


CLAUSES: dict[str, Clause] = {
    "packed": Clause(
        lambda stage: "" if stage.packed else None, lambda _, stage: replace(stage, packed=True)
    ),
    "by": Clause(
        lambda stage: "rows" if stage.by_rows else None,
        lambda reader, stage: replace(stage, by_rows=bool(reader.take_one_of(("rows",)))),
        ("ahead", "in"),
    ),
    "ahead": Clause(
        lambda stage: _number_or_none(stage.ahead or None),
        lambda reader, stage: replace(stage, ahead=read_iterations(reader, MAX_AHEAD)),
        ("behind", "into", "in"),
    ),
    "behind": Clause(
        lambda stage: _number_or_none(stage.behind or None),
        lambda reader, stage: replace(stage, behind=read_iterations(reader, MAX_AHEAD)),
        ("into", "in"),
    ),
    "into": Clause(
        lambda stage: stage.into or None,
        lambda reader, stage: replace(stage, into=reader.take_name("an axis")),
        ("in",),
    ),
    "in": Clause(
        lambda stage: stage.memory or None,
        lambda reader, stage: replace(stage, memory=reader.take_name("a scratchpad")),
        ("at",),
    ),
    "at": Clause(
        lambda stage: _number_or_none(stage.address if stage.memory else None),
        lambda reader, stage: replace(stage, address=reader.take_number()),
    ),
}
"""By word, in the order in which they are written."""
FIRST = ("ahead", "by", "in", "packed")


def print_stage(stage: Stage) -> str:
    """Return the line of a stage."""
    words = ["stage", stage.operand]
    for word, clause in CLAUSES.items():
        said = clause.said(stage)
        if said is not None:
            words += [word, said] if said else [word]
    return " ".join(words) + ";"


def parse_stage(reader: TextReader, depth: int) -> Stage:
    """Return the stage in a line after the word `stage`, inside `depth` loops."""
    stage, then = Stage(reader.take_name("an operand"), depth), FIRST
    while (word := reader.take_one_of((*then, ";"))) != ";":
        stage, then = CLAUSES[word].read(reader, stage), CLAUSES[word].then
    return stage
