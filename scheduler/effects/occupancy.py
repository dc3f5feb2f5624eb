"""Price parts that share a core, and cores that wait for the last parts.

    216 parts on 108 cores, two residents each      a core performs two parts: the work of both, the waits of one
    109 parts on 108 cores                          one core performs two, 107 are idle for half of the time

A part that waits for copies, for lanes at a barrier or for its last sums leaves the units to the others on its core.
"""

from __future__ import annotations

from isamap.plan.cost import Cost, largest, times, total
from isamap.scheduler.deciding.partitioning import rounds_of
from isamap.scheduler.deciding.space import issues_of
from isamap.scheduler.effects.accumulators import moves_of_sums
from isamap.scheduler.effects.effect import Context


def work_of_residents(context: Context) -> Cost:
    """Return how long the busiest unit of a core works for all parts on it. One part's results are added apart."""
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
    """Return the average time for which a core has no work while the largest part is computed."""
    part, problem = context.option, context.problem
    whole = next(o for o in context.nest.options if (o.mapping, o.choose) == (part.mapping, part.choose))
    places = problem.teams(part) * problem.residents_of(part)
    rounds = rounds_of(problem, part)
    return times(1 - issues_of(whole) / (issues_of(part) * places * rounds), context.computing)
