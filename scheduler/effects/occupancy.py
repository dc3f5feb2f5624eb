"""Price parts that share a core, and cores that wait for the last parts.

    216 parts on 108 cores, two residents each      each core performs two parts: their work one after the other,
                                                    and what one of them waits for while the other one works
    109 parts on 108 cores                          one core performs two, 107 are idle for half of the time

A part that waits for its copies, for lanes at a barrier or for its last sums leaves the units to the others on its
core. So the core takes no less than the work of all of them, and the waits of one.
"""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Cost, largest, times, total
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.effects.accumulators import moves_of_sums
from isamap.scheduler.effects.effect import Context


def work_of_residents(context: Context) -> Cost:
    """Return the time for which all parts on a core keep its busiest unit busy.

    The results of one of them are among the effects that are added.
    """
    residents = context.problem.residents_of(context.option)
    stored = (
        moves_of_sums(context.tiling, o, o.costs.direct_ns or 0.0, o.costs.staged_ns or 0.0)
        for o in context.option.operands
        if o.is_accumulator
    )
    copied = (total(costs) for _, costs in context.moved)
    busy = largest([context.computing, context.loaded, *copied])
    return total([times(residents, busy), times(residents - 1, *stored)])


def idle_cores(context: Context) -> Cost:
    """Return the time for which a core computes nothing on the average, while the largest part is computed."""
    return times(_idle_share(context.problem, context.nest, context.option), context.computing)


def _idle_share(problem: Problem, nest: NestProblem, part: NestOption) -> float:
    """Return the share of the issues' time that cores with smaller parts, or with none, do not compute."""
    whole = next(o for o in nest.options if (o.mapping, o.choose) == (part.mapping, part.choose))
    places = problem.teams(part) * problem.residents_of(part)
    rounds = -(-prod(count for _, count in part.parts) // places)
    return 1 - _issues(whole) / (_issues(part) * places * rounds)


def _issues(option: NestOption) -> int:
    return prod(issues_along(axis) for axis in option.axes)
