"""The schedules behind the best one: what each costs by the model, and what it decides otherwise.

number  cost_ns  more   decides otherwise
1       65962.8
2       66034.3  0.1 %  block.n 200 to 96, stage.b 0 to 1
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.report.columns import Row
from isamap.scheduler.pricing import read_nest

MOST_WORDS = 4


def runner_rows(schedules: Sequence[Schedule], problem: Problem) -> list[Row]:
    """The list as a table's rows, the header first; the best of all comes first."""
    rows: list[Row] = [("number", "cost_ns", "more", "decides otherwise")]
    best = schedules[0].cost_ns or 0.0
    for number, schedule in enumerate(schedules, 1):
        cost = schedule.cost_ns or 0.0
        more = f"{100 * (cost / best - 1):.1f} %" if number > 1 and best else ""
        words = differences(schedules[0], schedule, problem)
        shown = ", ".join(words[:MOST_WORDS]) + (", …" if len(words) > MOST_WORDS else "")
        rows.append((str(number), f"{cost:.1f}", more, shown))
    return rows


def differences(one: Schedule, other: Schedule, problem: Problem) -> list[str]:
    """The decisions that differ, each with both values; of one statement without its number."""
    ours, theirs = decisions(one, problem), decisions(other, problem)
    single = len(problem.nests) == 1
    names = sorted({*ours, *theirs})
    found = [(name, ours.get(name, "none"), theirs.get(name, "none")) for name in names]
    return [f"{name.removeprefix('nest0.') if single else name} {a} to {b}" for name, a, b in found if a != b]


def decisions(schedule: Schedule, problem: Problem) -> dict[str, int | str]:
    """The decisions that a schedule stands for, with the mapping by its name."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: dict[str, int | str] = {}
    for question in problem.nests:
        nest = nests.get(question.statement)
        if nest is not None and (read := read_nest(problem, question, nest)) is not None:
            found |= read[1]
            found[f"nest{question.statement}.mapping"] = nest.mapping
    return found


def runners_json(schedules: Sequence[Schedule], problem: Problem) -> list[dict[str, object]]:
    """The list as JSON."""
    return [
        {"cost_ns": schedule.cost_ns, "differences": differences(schedules[0], schedule, problem)}
        for schedule in schedules
    ]
