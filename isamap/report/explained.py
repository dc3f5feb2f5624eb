"""What is to be seen of a schedule: what bounds it, its tree, its time in parts, roofline, runners-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.plan.time_shares import NestTime
from isamap.report.columns import indented, table
from isamap.report.nest_tree import NestTree, nest_tree, registers_text, tree_json, tree_rows
from isamap.report.roofline import Roofline, roofline_json, roofline_rows, roofline_sentence, rooflines
from isamap.report.roofline_svg import roofline_svg
from isamap.report.runners_up import Runner, runner_rows, runners_json
from isamap.report.time_spent import Spent, bound_sentence, spent_by_statement, spent_json, spent_rows


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
