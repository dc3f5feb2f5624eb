"""Access counts of a schedule: which memory the arrays live in, and how fast it feeds the others."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Index, Kernel
from isamap.machine import Machine
from isamap.plan.access_counts import Convention, StatementAccesses, count_statement
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule
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
