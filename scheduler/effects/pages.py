"""What it takes to visit pages that the TLB has lost."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Const, Cost, Threshold, times
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.prefetching import by_asking
from isamap.scheduler.tiling import Tiling, by_stage, extent_of


def pages(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Visits to pages that the TLB has lost, by an operand whose rows are read in place.

    A register block visits each row of its part once; when those rows lie on more pages than the TLB holds,
    each visit pays. Of what streams, that is among what was measured of its rows; where hints have visited
    the pages before, it hides as other work does.
    """
    space, tlb = tiling.space, problem.tlb
    rows = [axis for axis in operand.axes if axis != operand.dense_axis]
    known = operand.dense_axis and operand.pitch_bytes and not operand.subscripts and not operand.streams
    if not known or 0 not in space.stage_values(operand):
        return Const(0)
    rows_per_page = max(1, tlb.page_bytes // operand.pitch_bytes)
    inside = {a.name: tiling.block[a.name] if a.is_reduction else tiling.step[a.name] for a in space.axes}
    together = times(*(extent_of(space, axis, inside) for axis in rows))
    all_rows = prod(axis.extent for axis in space.option.axes if axis.name in rows)
    around = [
        tiling.blocks[axis.name] if axis.is_reduction else tiling.steps[axis.name]
        for axis in space.axes
        if axis.name not in rows
    ]
    visits = times(tlb.miss_ns * all_rows / rows_per_page, *around)
    paid = Threshold(together, tlb.count * rows_per_page, Const(0), visits)
    return by_stage(
        space, operand, by_asking(tiling, operand, paid, times(problem.model.leak_factor, paid)), Const(0)
    )
