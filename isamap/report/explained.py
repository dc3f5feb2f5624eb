"""What is to be seen of a schedule: what bounds it, its tree, its time in parts, roofline, runners-up.

The schedules behind the best one: what each costs by the model, and what it decides otherwise.

number  cost_ns  more   decides otherwise
1       65962.8
2       66034.3  0.1 %  block.n 200 to 96, stage.b 0 to 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime
from isamap.report.columns import Row, indented, table
from isamap.report.nest_tree import NestTree, nest_tree, registers_text, tree_json, tree_rows
from isamap.report.roofline import (
    Roofline,
    roofline_json,
    roofline_rows,
    roofline_sentence,
    roofline_svg,
    rooflines,
)
from isamap.report.time_spent import Spent, bound_sentence, spent_by_statement, spent_json, spent_rows

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


@dataclass(frozen=True, slots=True)
class Explained:
    """The views of one schedule; `runners` are it and the next cheapest ones, or nothing."""

    schedule: Schedule
    problem: Problem
    trees: tuple[NestTree, ...]
    spent: tuple[Spent, ...]
    roofs: tuple[Roofline, ...]
    runners: tuple[Runner, ...]

    @property
    def sentence(self) -> str:
        """What bounds it."""
        return bound_sentence(self.spent)

    def svg(self) -> str:
        """The roofline as a picture."""
        return roofline_svg(f"{self.problem.kernel} on {self.problem.machine}", self.roofs)


def explain_schedule(
    schedule: Schedule,
    problem: Problem,
    machine: Machine,
    times: Sequence[NestTime | None],
    runners: Sequence[Runner] = (),
) -> Explained:
    """The views of a schedule whose statements spend `times`, in the order of the problem."""
    questions = {nest.statement: nest for nest in problem.nests}
    trees: list[NestTree] = []
    for nest in schedule.nests:
        option = next(o for o in questions[nest.statement].options if o.mapping == nest.mapping)
        trees.append(nest_tree(nest, option, problem))
    return Explained(
        schedule,
        problem,
        tuple(trees),
        spent_by_statement(schedule, problem, machine, times),
        rooflines(schedule, problem, times),
        tuple(runners),
    )


def explained_text(explained: Explained) -> str:
    """All views as text, what bounds the schedule first."""
    parts = [explained.sentence]
    for tree in explained.trees:
        rows = tree_rows(tree)
        head = f"statement {tree.statement}: {tree.mapping}"
        numbers = range(1, len(rows[0]) - 1)
        parts.append("\n".join([head, indented(table(rows, right=tuple(numbers)))]))
        if tree.registers:
            parts[-1] += f"\n  registers: {registers_text(tree)}"
    for spent in explained.spent:
        if spent.parts:
            rows = spent_rows(spent)
            parts.append(f"time of statement {spent.statement}\n{indented(table(rows, right=(1, 2)))}")
    for roof in explained.roofs:
        head = f"roofline of statement {roof.statement}: {roofline_sentence(roof)}"
        parts.append(f"{head}\n{indented(table(roofline_rows(roof), right=(1, 2, 3, 4)))}")
    if explained.runners:
        rows = runner_rows(explained.runners)
        parts.append(f"runners-up\n{indented(table(rows, right=(0, 1, 2)))}")
    return "\n\n".join(parts)


def explained_json(explained: Explained) -> dict[str, object]:
    """All views as JSON."""
    return {
        "bound": explained.sentence,
        "trees": [tree_json(tree) for tree in explained.trees],
        "time": [spent_json(spent) for spent in explained.spent],
        "rooflines": [roofline_json(roof) for roof in explained.roofs],
        "runners_up": runners_json(explained.runners),
    }
