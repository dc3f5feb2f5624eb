"""The schedules behind the best one: what each costs by the model, and what it decides otherwise.

number  cost_ns  more   decides otherwise
1       65962.8
2       66034.3  0.1 %  block.n 200 to 96, stage.b 0 to 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isamap.report.columns import Row

MOST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Runner:
    """A schedule by its cost in nanoseconds, and by its decisions; a mapping is known by its name."""

    cost_ns: float
    decisions: Mapping[str, int | str]


def runner_rows(runners: Sequence[Runner]) -> list[Row]:
    """The list as a table's rows, the header first; the first is what the others are compared with."""
    rows: list[Row] = [("number", "cost_ns", "more", "decides otherwise")]
    best = runners[0].cost_ns
    for number, runner in enumerate(runners, 1):
        more = f"{100 * (runner.cost_ns / best - 1):.1f} %" if number > 1 and best else ""
        words = differences(runners[0], runner)
        shown = ", ".join(words[:MOST_WORDS]) + (", …" if len(words) > MOST_WORDS else "")
        rows.append((str(number), f"{runner.cost_ns:.1f}", more, shown))
    return rows


def differences(one: Runner, other: Runner) -> list[str]:
    """The decisions that differ, each with both values; without the statement where there is one only."""
    names = sorted({*one.decisions, *other.decisions})
    single = len({name.split(".")[0] for name in names}) == 1
    found = [(name, one.decisions.get(name, "none"), other.decisions.get(name, "none")) for name in names]
    return [f"{name.split('.', 1)[1] if single else name} {a} to {b}" for name, a, b in found if a != b]


def runners_json(runners: Sequence[Runner]) -> list[dict[str, object]]:
    """The list as JSON."""
    return [{"cost_ns": r.cost_ns, "differences": differences(runners[0], r)} for r in runners]
