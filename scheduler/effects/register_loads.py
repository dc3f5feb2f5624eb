"""Price operand loads into registers: the loads, prefetch hints, and page visits."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Const, Cost, Threshold, times
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.tiling import Tiling, by_stage, extent_of, whole_bytes
from isamap.scheduler.effects.following import if_followed, if_in_sequence
from isamap.scheduler.effects.hint_costs import by_asking, hint_time
from isamap.scheduler.effects.least import StorageChoice
from isamap.source import add_up


def loads(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return the time to load an input's tiles, each once per register block that uses it."""
    return tile_loads(tiling, operand, operand.costs.direct_ns or 0.0, operand.costs.staged_ns or 0.0)


def busy(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return how long the loads of an input occupy the computing unit."""
    if not operand.costs.direct_busy_ns and not operand.costs.staged_busy_ns:
        return Const(0)
    return tile_loads(tiling, operand, operand.costs.direct_busy_ns, operand.costs.staged_busy_ns)


def tile_loads(tiling: Tiling, operand: TileOperand, direct_ns: float, staged_ns: float) -> Cost:
    """Return the time to load all tiles of an input, given the time of one tile in place and from a buffer."""
    own = prod(issues_along(axis) for axis in tiling.space.option.axes if axis.name in operand.axes)
    others = [tiling.steps[axis.name] for axis in tiling.space.axes if axis.name not in operand.axes]
    return by_stage(tiling.space, operand, times(own, direct_ns, *others), times(own, staged_ns, *others))


def least_loads(way: StorageChoice) -> float:
    """Return the least time to load all tiles of inputs, given the reuse that registers allow."""
    return add_up(brought.moved_ns for brought in way.operands if not brought.operand.is_accumulator)


def hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time of hints for the data that an input's later iterations read."""
    return hint_time(tiling, operand, problem, whole_bytes(tiling.space, operand)[0])


def shown_hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the exposed time of hints for data that are streamed or late.

    Hints are not exposed in parallel with loads that follow rows and wait for memory, nor if they name whole
    rows in sequence that are read in place.
    """
    if not (operand.prefetching.is_streamed or operand.prefetching.is_late):
        return Const(0)
    all_ = hints(tiling, operand, problem)
    in_place = if_in_sequence(tiling, operand, Const(0), all_)
    return if_followed(tiling, problem, Const(0), by_stage(tiling.space, operand, in_place, all_))


def pages(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time of TLB misses for an operand whose rows are read in place.

    A register block visits each row of its part once. If the rows are on more pages than the TLB has entries,
    each visit misses. For streamed inputs the measured row parameters include this time. If hints have
    visited the pages before, the misses overlap like other work.
    """
    space, tlb = tiling.space, problem.tlb
    rows = [axis for axis in operand.axes if axis != operand.layout.dense_axis]
    known = (
        operand.layout.dense_axis
        and operand.layout.pitch_bytes
        and not operand.layout.subscripts
        and not operand.prefetching.is_streamed
    )
    if not known or 0 not in space.stage_values(operand):
        return Const(0)
    rows_per_page = max(1, tlb.page_bytes // operand.layout.pitch_bytes)
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
