"""Explain a schedule: its bottleneck, its loop tree, its time in parts, its roofline, and runners-up.

The runners-up have their modelled costs, and the decisions in which they differ.

number  cost_ns  more   decides otherwise
1       65962.8
2       66034.3  0.1 %  block.n 200 to 96, stage.b 0 to 1

The time in parts comes from the cost model, and one sentence names the bottleneck.

bound by the fma units: 87 % of the time; next: traffic from l2, most of it of b, 61 %

part               time     share
the fma units      54.6 µs  87 %   hides the others
traffic from l2    38.1 µs  61 %   hidden: b 36 µs, c 2.1 µs
packing            1.2 µs   1.9 %  on top: b
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.machine import Machine
from isamap.plan.problem import Problem, chosen_options
from isamap.plan.schedule import PROVEN, Schedule
from isamap.plan.time_shares import NestTime, TimeShare
from isamap.report import roofline
from isamap.report.columns import Row, align, indent, percent_text
from isamap.report.mappings import time_text
from isamap.report.nest_tree import NestTree, nest_tree, registers_text, stationary_text, tree_json, tree_rows
from isamap.source import add_up, dataclass

# A part that takes less than this share of the time is not named.
SMALL = 0.0005


@dataclass(frozen=True, slots=True)
class StatementTime:
    """A part of the time of a statement, and the operands that cause it. Units: nanoseconds."""

    name: str
    words: str
    ns: float
    hides: bool
    operands: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class TimeShares:
    """The time of a statement in parts, the largest first. Empty if the model names no parts."""

    statement: int
    total_ns: float
    parts: tuple[StatementTime, ...]

    def share(self, part: StatementTime) -> float:
        """Return a part's fraction of the statement's time."""
        return part.ns / self.total_ns if self.total_ns else 0.0


def _time_spent(time: NestTime, mapping: str, machine: Machine) -> TimeShares:
    named = {share.name: share for share in time.shares}
    parts: list[StatementTime] = []
    for name, ns in time.sums().items():
        own = [(s.operand, s.ns) for s in time.shares if s.name == name and s.operand and s.ns > 0]
        own.sort(key=lambda pair: -pair[1])
        parts.append(
            StatementTime(name, _words(named[name], mapping, machine), ns, named[name].overlaps, tuple(own))
        )
    if abs(time.rest_ns) > SMALL * time.total_ns and parts:
        parts.append(StatementTime("other", "not named by the model", time.rest_ns, False, ()))
    parts.sort(key=lambda part: -part.ns)
    return TimeShares(time.statement, time.total_ns, tuple(parts))


def _words(share: TimeShare, mapping: str, machine: Machine) -> str:
    """Return a readable name of a part of the time, with the names of units and instructions."""
    instruction = mapping.split(maxsplit=1)[0]
    known = machine.instructions.get(instruction)
    if known is None and "{units}" in share.words:
        return share.name
    unit = "" if known is None else known.cost.unit
    units = f"{unit} unit{'s' if unit and machine.units[unit].count > 1 else ''}"
    return share.words.replace("{units}", units).replace("{instruction}", instruction)


def bound_sentence(spent: Sequence[TimeShares]) -> str:
    """Return a sentence that names the bottleneck of a schedule."""
    named = [s for s in spent if s.parts]
    if not named:
        return "the model does not split its cost into parts"
    longest = max(named, key=lambda s: s.total_ns)
    whole = add_up(s.total_ns for s in spent)
    first, *others = longest.parts
    said = f"bound by {_name_part(first)}: {percent_text(longest.share(first))} of the time"
    if others and longest.share(others[0]) >= SMALL:
        said += f"; next: {_name_part(others[0])}, {percent_text(longest.share(others[0]))}"
    if len(spent) > 1:
        part = longest.total_ns / whole if whole else 0.0
        return f"statement {longest.statement} takes {percent_text(part)} of the time and is {said}"
    return said


def _name_part(part: StatementTime) -> str:
    """Return the name of a part with the operand that causes most of it."""
    if not part.operands:
        return part.words
    name, ns = part.operands[0]
    most = "most of it " if ns < part.ns * (1 - SMALL) else ""
    return f"{part.words}{',' if most else ''} {most}of {name}"


def spent_rows(spent: TimeShares) -> list[Row]:
    """Return the parts as table rows, the header first."""
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


def spent_json(spent: TimeShares) -> dict[str, object]:
    """Return the parts as JSON."""
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


MOST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Runner:
    """A schedule with its cost in ns and its decisions. A mapping is given by its name."""

    cost_ns: float
    decisions: Mapping[str, int | str]


def runner_rows(runners: Sequence[Runner]) -> list[Row]:
    """Return the schedules as table rows, the header first, each compared with the first schedule."""
    rows: list[Row] = [("number", "cost_ns", "more", "decides otherwise")]
    best = runners[0].cost_ns
    for number, runner in enumerate(runners, 1):
        more = f"{100 * (runner.cost_ns / best - 1):.1f} %" if number > 1 and best else ""
        words = differences(runners[0], runner)
        shown = ", ".join(words[:MOST_WORDS]) + (", …" if len(words) > MOST_WORDS else "")
        rows.append((str(number), f"{runner.cost_ns:.1f}", more, shown))
    return rows


def differences(one: Runner, other: Runner) -> list[str]:
    """Return the decisions in which two schedules differ, with both values. A single statement is not named."""
    names = sorted({*one.decisions, *other.decisions})
    single = len({name.split(".")[0] for name in names}) == 1
    found = [(name, one.decisions.get(name, "none"), other.decisions.get(name, "none")) for name in names]
    return [f"{name.split('.', 1)[1] if single else name} {a} to {b}" for name, a, b in found if a != b]


def runners_json(runners: Sequence[Runner]) -> list[dict[str, object]]:
    """Return the schedules as JSON."""
    return [{"cost_ns": r.cost_ns, "differences": differences(runners[0], r)} for r in runners]


@dataclass(frozen=True, slots=True)
class Explained:
    """The views of one schedule. `runners` are the schedule and the next cheapest ones, or empty."""

    schedule: Schedule
    problem: Problem
    trees: tuple[NestTree, ...]
    spent: tuple[TimeShares, ...]
    roofs: tuple[roofline.Roofline, ...]
    runners: tuple[Runner, ...]

    @property
    def sentence(self) -> str:
        """The sentence that names the bottleneck."""
        return bound_sentence(self.spent)

    @property
    def cheaper_note(self) -> str:
        """The reason why the model prices a runner-up below the chosen schedule, or "" if it does not."""
        costs = [runner.cost_ns for runner in self.runners]
        if not costs or min(costs) >= costs[0] * (1 - PROVEN):
            return ""
        said = f"number {costs.index(min(costs)) + 1} costs less by the model than number 1, the choice: "
        match self.schedule.status:
            case "FEASIBLE":
                return (
                    f"{said}the solver was stopped before it proved the choice; `--limit` gives it more time"
                )
            case "HEURISTIC":
                return f"{said}a heuristic made the choice; `--heuristic cpsat` searches further"
            case "OPTIMAL":
                return f"{said}both are within the tolerance that the solver calls optimal"
            case _:
                return f"{said}a file or a measurement made the choice, not the model"

    def svg(self) -> str:
        """Return the roofline as an SVG picture."""
        return roofline.roofline_picture(f"{self.problem.kernel} on {self.problem.machine}", self.roofs).svg()


def explain_schedule(
    schedule: Schedule,
    problem: Problem,
    machine: Machine,
    times: Sequence[NestTime | None],
    runners: Sequence[Runner] = (),
) -> Explained:
    """Return the views of a schedule with statement times `times`, in the order of the problem."""
    trees = [nest_tree(nest, option, problem) for nest, option in chosen_options(schedule, problem)]
    # The time of each statement with a nest and a price.
    mappings = {nest.statement: nest.mapping for nest in schedule.nests}
    return Explained(
        schedule,
        problem,
        tuple(trees),
        tuple(
            _time_spent(time, mappings[nest.statement], machine)
            for nest, time in zip(problem.nests, times, strict=True)
            if time is not None and nest.statement in mappings
        ),
        roofline.rooflines(schedule, problem, times),
        tuple(runners),
    )


def explained_text(explained: Explained) -> str:
    """Return all views as text, starting with the schedule's bottleneck."""
    parts = [explained.sentence]
    for tree in explained.trees:
        rows = tree_rows(tree)
        head = f"statement {tree.statement}: {tree.mapping}"
        numbers = range(1, len(rows[0]) - 1)
        parts.append("\n".join([head, indent(align(rows, right=tuple(numbers)))]))
        if tree.registers:
            parts[-1] += f"\n  registers: {registers_text(tree)}"
        if tree.stationary:
            parts[-1] += f"\n  stationary: {stationary_text(tree)}"
    for spent in explained.spent:
        if spent.parts:
            rows = spent_rows(spent)
            parts.append(f"time of statement {spent.statement}\n{indent(align(rows, right=(1, 2)))}")
    for roof in explained.roofs:
        head = f"roofline of statement {roof.statement}: {roofline.roofline_sentence(roof)}"
        parts.append(f"{head}\n{indent(align(roofline.roofline_rows(roof), right=(1, 2, 3, 4)))}")
    if explained.runners:
        rows = runner_rows(explained.runners)
        shown = align(rows, right=(0, 1, 2)) + (f"\n{note}" if (note := explained.cheaper_note) else "")
        parts.append(f"runners-up\n{indent(shown)}")
    return "\n\n".join(parts)


def explained_json(explained: Explained) -> dict[str, object]:
    """Return all views as JSON."""
    return {
        "bound": explained.sentence,
        "trees": [tree_json(tree) for tree in explained.trees],
        "time": [spent_json(spent) for spent in explained.spent],
        "rooflines": [roofline.roofline_json(roof) for roof in explained.roofs],
        "runners_up": runners_json(explained.runners),
        "runners_up_note": explained.cheaper_note,
    }
