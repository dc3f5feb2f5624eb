"""Name the time for which lanes wait for each other at a memory. Costs of loads and copies include it.

    arrays that lanes read or write in place      bytes of sectors that no lane uses
    buffers in a memory that lanes share          different words of one bank
    copies from one into the other                the longer of both

`isamap.match.operand_loads.lane_accesses` counts these by the addresses of all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.plan.cost import Cases, Const, Cost, times
from isamap.plan.problem import TileOperand
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.effects.accumulators import moves_of_sums
from isamap.scheduler.effects.copying import copied_again
from isamap.scheduler.effects.effect import Context, EffectTime
from isamap.scheduler.effects.register_loads import tile_loads


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
