"""What is to be seen of a schedule, put together: the scheduler prices it, and the report shows it.

Access counts of a schedule: which memory the arrays live in, and how fast it feeds the others.

What each pass of lowering leaves, written to a folder as it is made: before a failure, all up to it.

01-loops.txt  02-hold.txt  03-stage.txt  …  11-workspace.txt
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isamap.ir import Index, Kernel
from isamap.lower.passes import State
from isamap.machine import Machine
from isamap.plan.access_counts import Convention, StatementAccesses, count_statement
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.report.explained import Explained, Runner, explain_schedule
from isamap.report.lowered import print_state
from isamap.scheduler.nests.pricing import read_nest
from isamap.scheduler.shares import where_time_goes
from isamap.source import Diagnostic, UsageProblem
from isamap.transform import make_guards_explicit, reads, statements


def schedule_accesses(
    schedule: Schedule, problem: Problem, machine: Machine, convention: Convention
) -> tuple[StatementAccesses, ...]:
    """The counts of each statement, in their order. The schedule has passed `check_schedule`."""
    home = next(m.name for m in machine.memories.values() if m.kind == "addressable")
    bandwidths = {
        link.target_memory: link.bandwidth_bytes_per_ns
        for link in machine.links
        if link.source_memory == home
    }
    questions = {nest.statement: nest for nest in problem.nests}
    return tuple(
        count_statement(nest, _option(nest, questions[nest.statement]), convention, home, bandwidths)
        for nest in schedule.nests
    )


def _option(nest: NestSchedule, question: NestProblem) -> NestOption:
    return next(o for o in question.options if (o.mapping, o.choose) == (nest.mapping, nest.choose))


def statement_extents(kernel: Kernel, sizes: Mapping[str, int | str]) -> tuple[Mapping[str, Index], ...]:
    """How long the axes of each statement are, over the sizes that may be others under the same loops.

    A size that is a stride has its number: what tiles touch depends on it.
    """
    found: list[Mapping[str, Index]] = []
    for statement in statements(make_guards_explicit(kernel)):
        axes = [axis.name for axis in statement.axes]
        assign = statement.assign
        indices = [i for read in (assign.target, *reads(assign.value)) for i in read.index]
        factors = [i.coefficient(axis) for i in indices for axis in axes]
        strides = frozenset(name for factor in factors if factor is not None for name in factor.symbols)
        known = {name: value for name in strides if isinstance(value := sizes.get(name), int)}
        found.append({axis.name: axis.extent.substitute(known) for axis in statement.axes})
    return tuple(found)


def explain(
    schedule: Schedule,
    problem: Problem,
    machine: Machine,
    cost_model: str,
    ranked: Sequence[Schedule] = (),
) -> Explained:
    """The views of a schedule; `ranked` are the cheapest ones, with which it is compared.

    Raises: UsageProblem for a cost model that does not load.
    """
    times = where_time_goes(schedule, problem, load_cost_model(cost_model))
    others = [other for other in ranked if other.nests != schedule.nests]
    runners = [_runner(s, problem) for s in (schedule, *others)] if others else []
    return explain_schedule(schedule, problem, machine, times, runners)


def _runner(schedule: Schedule, problem: Problem) -> Runner:
    """A schedule by the decisions that it stands for."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: dict[str, int | str] = {}
    for question in problem.nests:
        nest = nests.get(question.statement)
        if nest is not None and (read := read_nest(problem, question, nest)) is not None:
            found |= read[1]
            found[f"nest{question.statement}.mapping"] = nest.mapping
    return Runner(schedule.cost_ns or 0.0, found)


@dataclass(slots=True)
class Dump:
    """Writes each state that it is told of; files of those names are replaced."""

    folder: Path
    count: int = 0

    def __call__(self, name: str, state: State) -> None:
        """Raises: UsageProblem where nothing can be written."""
        self.count += 1
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{self.count:02}-{name}.txt"
            path.write_text(print_state(state), encoding="utf-8", newline="\n")
        except OSError as error:
            said = f"{self.folder} cannot be written: {error.strerror}"
            raise UsageProblem(Diagnostic("output-unwritable", said, help="name another folder")) from None
