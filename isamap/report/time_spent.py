"""Where the time of a schedule goes by its model, with what bounds it in one sentence.

bound by the fma units: 87 % of the time; next: traffic from l2, most of it of b, 61 %

part               time     share
the fma units      54.6 µs  87 %   hides the others
traffic from l2    38.1 µs  61 %   hidden: b 36 µs, c 2.1 µs
packing            1.2 µs   1.9 %  on top: b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime, TimeShare
from isamap.report.columns import Row, percent_text
from isamap.report.mappings import time_text
from isamap.source import added

# A part that takes less than this share of the time is not named.
SMALL = 0.0005


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time of a statement, and of which operands. Units: nanoseconds."""

    name: str
    words: str
    ns: float
    hides: bool
    operands: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of a statement in parts, the largest first; none where the model names none."""

    statement: int
    total_ns: float
    parts: tuple[Part, ...]

    def share(self, part: Part) -> float:
        """The part of the time that this takes."""
        return part.ns / self.total_ns if self.total_ns else 0.0


def spent_by_statement(
    schedule: Schedule, problem: Problem, machine: Machine, times: Sequence[NestTime | None]
) -> tuple[Spent, ...]:
    """What each statement spends, of those that have a nest and a price."""
    mappings = {nest.statement: nest.mapping for nest in schedule.nests}
    return tuple(
        _spent(time, mappings[nest.statement], machine)
        for nest, time in zip(problem.nests, times, strict=True)
        if time is not None and nest.statement in mappings
    )


def _spent(time: NestTime, mapping: str, machine: Machine) -> Spent:
    named = {share.name: share for share in time.shares}
    parts: list[Part] = []
    for name, ns in time.sums().items():
        own = [(s.operand, s.ns) for s in time.shares if s.name == name and s.operand and s.ns > 0]
        own.sort(key=lambda pair: -pair[1])
        parts.append(Part(name, _words(named[name], mapping, machine), ns, named[name].overlaps, tuple(own)))
    if abs(time.rest_ns) > SMALL * time.total_ns and parts:
        parts.append(Part("other", "what the model does not name", time.rest_ns, False, ()))
    parts.sort(key=lambda part: -part.ns)
    return Spent(time.statement, time.total_ns, tuple(parts))


def _words(share: TimeShare, mapping: str, machine: Machine) -> str:
    """What people call a part: units and instructions by the machine's own names."""
    instruction = mapping.split(maxsplit=1)[0]
    known = machine.instructions.get(instruction)
    if known is None and "{units}" in share.words:
        return share.name
    unit = "" if known is None else known.cost.unit
    units = f"{unit} unit{'s' if unit and machine.units[unit].count > 1 else ''}"
    return share.words.replace("{units}", units).replace("{instruction}", instruction)


def bound_sentence(spent: Sequence[Spent]) -> str:
    """What bounds a schedule, in one sentence."""
    named = [s for s in spent if s.parts]
    if not named:
        return "the model does not say of what its cost is made"
    longest = max(named, key=lambda s: s.total_ns)
    whole = added(s.total_ns for s in spent)
    first, *others = longest.parts
    said = f"bound by {_named(first)}: {percent_text(longest.share(first))} of the time"
    if others and longest.share(others[0]) >= SMALL:
        said += f"; next: {_named(others[0])}, {percent_text(longest.share(others[0]))}"
    if len(spent) > 1:
        part = longest.total_ns / whole if whole else 0.0
        return f"statement {longest.statement} takes {percent_text(part)} of the time and is {said}"
    return said


def _named(part: Part) -> str:
    """A part with the operand that causes most of it."""
    if not part.operands:
        return part.words
    name, ns = part.operands[0]
    most = "most of it " if ns < part.ns * (1 - SMALL) else ""
    return f"{part.words}{',' if most else ''} {most}of {name}"


def spent_rows(spent: Spent) -> list[Row]:
    """The parts as a table's rows, the header first."""
    rows: list[Row] = [("part", "time", "share", "")]
    longest = next((part for part in spent.parts if part.hides), None)
    for part in spent.parts:
        if spent.share(part) < SMALL:
            continue
        many = len(part.operands) > 1
        of = ", ".join(f"{name} {time_text(ns)}" if many else name for name, ns in part.operands)
        how = "on top" if not part.hides else "hides the others" if part is longest else "hidden"
        cells = (part.words, time_text(part.ns), percent_text(spent.share(part)))
        rows.append((*cells, f"{how}: {of}" if of else how))
    return rows


def spent_json(spent: Spent) -> dict[str, object]:
    """The parts as JSON."""
    return {
        "statement": spent.statement,
        "total_ns": spent.total_ns,
        "parts": [
            {
                "name": part.name,
                "words": part.words,
                "ns": part.ns,
                "share": spent.share(part),
                "hides_others": part.hides,
                "operands_ns": dict(part.operands),
            }
            for part in spent.parts
        ],
    }
