"""Price cores without work, cores that several parts share, and lanes that wait for each other.

    216 parts on 108 cores, two residents each      a core performs two parts: the work of both, the waits of one
    109 parts on 108 cores                          one core performs two, 107 are idle for half of the time

A part that waits for copies, for lanes at a barrier or for its last sums leaves the units to the others on its core.
Costs of loads and copies include the waits of lanes, which have only names here:

    arrays that lanes read or write in place      bytes of sectors that no lane uses
    buffers in a memory that lanes share          different words of one bank
    copies from one into the other                the longer of both

`isamap.match.operand_loads.lane_accesses` counts these by the addresses of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.plan.cost import Cases, Const, Cost, largest, times, total
from isamap.plan.problem import TileOperand
from isamap.scheduler.deciding.partitioning import rounds_of
from isamap.scheduler.deciding.space import issues_of
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.effects.accumulators import moves_of_sums
from isamap.scheduler.effects.copying import copied_again
from isamap.scheduler.effects.effect import Context, EffectTime
from isamap.scheduler.effects.register_loads import tile_loads


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


def lane_waits(context: Context, *, at_banks: bool) -> Iterator[EffectTime]:
    """Yield how long lanes wait for each operand: at banks of their block's memory, or at other memories."""
    tiling = context.tiling
    for operand in context.option.operands:
        tiles = moves_of_sums if operand.is_accumulator else tile_loads
        direct, staged, copied = operand.costs.lane_waits
        found = (
            (direct, tiles(tiling, operand, direct[1], 0.0)),
            (staged, tiles(tiling, operand, 0.0, staged[1])),
            (copied, _copies(tiling, operand, copied[1])),
        )
        for (memory, _), cost in found:
            if memory and (memory in context.problem.private) == at_banks:
                yield EffectTime(cost, operand.name, memory)


def _copies(tiling: Tiling, operand: TileOperand, element_ns: float) -> Cost:
    """Return the time of all copies of an operand into its buffer, given the time of one element."""
    space = tiling.space
    whole = element_ns * prod(axis.extent for axis in space.option.axes if axis.name in operand.axes)
    by_value = {0: Const(0), 1: times(whole, *copied_again(tiling, operand)), 2: Const(whole)}
    return Cases(
        space.stage(operand), tuple((value, by_value[value]) for value in space.stage_values(operand))
    )
