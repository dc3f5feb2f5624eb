"""Access counts of a schedule: which memory the arrays live in, and how fast it feeds the others."""

from __future__ import annotations

from isamap.machine import Machine
from isamap.plan.access_counts import Convention
from isamap.plan.access_report import StatementAccesses, count_statement
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule


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
