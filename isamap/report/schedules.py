"""Schedules side by side, and what one changes of another.

heuristic  cost_ns  bound_ns  gap    status     seconds
greedy     4039.0   3950.4    2.2 %  HEURISTIC  0.15
cpsat      4039.0   4039.0    0.0 %  OPTIMAL    0.22
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.text import print_nest


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one heuristic answered, and how long it took. Units: seconds."""

    heuristic: str
    schedule: Schedule
    seconds: float


def attempt_rows(attempts: Sequence[Attempt]) -> list[tuple[str, ...]]:
    """The comparison as a table's rows, the header first."""
    rows: list[tuple[str, ...]] = [
        ("heuristic", "cost_ns", "bound_ns", "gap", "status", "found by", "proved by", "seconds")
    ]
    for attempt in attempts:
        found = attempt.schedule
        gap = f"{100 * found.gap:.1f} %" if found.gap is not None else "-"
        rows.append(
            (
                attempt.heuristic,
                _number(found.cost_ns),
                _number(found.lower_bound_ns),
                gap,
                found.status,
                found.found_by or "-",
                found.proved_by or "-",
                f"{attempt.seconds:.2f}",
            )
        )
    return rows


def attempt_json(attempt: Attempt) -> dict[str, object]:
    """One attempt as JSON."""
    found = attempt.schedule
    return {
        "heuristic": attempt.heuristic,
        "model": found.model,
        "cost_ns": found.cost_ns,
        "lower_bound_ns": found.lower_bound_ns,
        "gap": found.gap,
        "status": found.status,
        "found_by": found.found_by or None,
        "proved_by": found.proved_by or None,
        "fixed": dict(found.fixed),
        "reproducible": found.reproducible,
        "seconds": round(attempt.seconds, 3),
    }


@dataclass(frozen=True, slots=True)
class NestChange:
    """What differs in one statement: lines of both texts, and the costs where a model can say them.

    `unpriced` is why it cannot, for the one before and the one after; "" where it can. Units: nanoseconds.
    """

    statement: int
    lines: tuple[str, ...]
    before_ns: float | None
    after_ns: float | None
    unpriced: tuple[str, str]


def changes(
    before: Schedule,
    after: Schedule,
    before_ns: Sequence[float | None],
    after_ns: Sequence[float | None],
    unpriced: Sequence[tuple[str, str]],
) -> tuple[NestChange, ...]:
    """The statements whose nests differ, with what it costs, or why the model cannot say that."""
    found: list[NestChange] = []
    nests = [{nest.statement: nest for nest in schedule.nests} for schedule in (before, after)]
    for statement, (old_ns, new_ns, why) in enumerate(zip(before_ns, after_ns, unpriced, strict=True)):
        old, new = (given.get(statement) for given in nests)
        if old != new:
            found.append(NestChange(statement, _lines(old, new), old_ns, new_ns, why))
    return tuple(found)


def _lines(old: NestSchedule | None, new: NestSchedule | None) -> tuple[str, ...]:
    before, after = ([] if nest is None else print_nest(nest).splitlines() for nest in (old, new))
    return tuple(unified_diff(before, after, n=1, lineterm=""))[2:]


def change_text(change: NestChange) -> str:
    """One change for people."""
    before, after = change.before_ns, change.after_ns
    if before is None or after is None:
        why = [f"{when}: {reason}" for when, reason in _reasons(change).items()]
        cost = f"the model cannot price the one {'; nor the one '.join(why)}"
    elif before <= 0:
        cost = f"{_number(before)} ns before, {_number(after)} ns after"
    else:
        cost = f"{_number(before)} ns before, {_number(after)} ns after: {100 * (after / before - 1):+.1f} %"
    lines = [line for line in change.lines if not line.startswith("@@")]
    return "\n".join([f"statement {change.statement}: {cost}", *lines])


def change_json(change: NestChange) -> dict[str, object]:
    """One change as JSON."""
    return {
        "statement": change.statement,
        "before_ns": change.before_ns,
        "after_ns": change.after_ns,
        "unpriced": _reasons(change),
        "lines": list(change.lines),
    }


def _reasons(change: NestChange) -> dict[str, str]:
    """Why there is no price before, and after; nothing where there is one."""
    return {when: why for when, why in zip(("before", "after"), change.unpriced, strict=True) if why}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
