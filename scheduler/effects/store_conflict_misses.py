"""Price conflict misses between pieces of rows and the results that were just stored into the same sets.

    for n by 32 {             columns of B[k, n] and C[m, n], whose rows lie 4 KB apart, or twice that
      for m by 3 {              the next rows of C, in the same sets of the nearest cache as the last ones
        hold;
        for k by 1 { … }        loads of B at the distance of whole pages from the last stores

Such loads wait for the stores, and the stores for lines that other rows of C have evicted. If the loop over
columns is inside instead, the next register block reads other sets.

Measured on a Zen 4 guest: 24 to 37 ns for each register block, of 3 and 4 rows, 64 to 256 bytes wide,
whatever it computes. The cost is close to 0 if rows of B or C are a line longer, if one of them starts half
a page later, or if C has no more rows than a set has ways (docs/decisions/0025-conflict-misses.md). The
link into the nearest cache states it (`crowded_ns`), and `isamap hw calibrate` measures it.

Known errors: the model assumes that all tensors start at the same offset of a page, as large ones that are
allocated separately do. It ignores inputs whose rows lie along a sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.plan.cost import CeilDiv, Const, Cost, Threshold, times
from isamap.plan.problem import Problem, TileAxis, TileOperand
from isamap.scheduler.deciding.space import MAX_UNROLLED, Space
from isamap.scheduler.deciding.tiling import Tiling, by_stage, extent_of, loops, rows_held
from isamap.scheduler.effects.overlapping import accumulator_loads

# Derived: more than register blocks have issues along an axis: one that is an issue smaller covers a part less.
PARTS = 4 * MAX_UNROLLED


def store_conflict_ns(tiling: Tiling, problem: Problem) -> Cost:
    """Return how long register blocks wait for the results of the previous block. Units: nanoseconds."""
    space = tiling.space
    if not problem.caches or not problem.rows_behind[0].crowded_ns:
        return Const(0)
    for result in space.option.operands:
        held = rows_held(result, problem.caches[0])
        columns = next((axis for axis in space.register_axes if axis.name == result.layout.dense_axis), None)
        read = next(
            (operand for operand in space.option.operands if _lies_like(space, operand, result)), None
        )
        if result.is_accumulator and columns and held and read and 0 in space.stage_values(result):
            late = times(problem.rows_behind[0].crowded_ns, *accumulator_loads(tiling))
            waits = _between_columns(tiling, result, columns, held, late)
            return by_stage(space, result, by_stage(space, read, waits, Const(0)), Const(0))
    return Const(0)


def _between_columns(tiling: Tiling, result: TileOperand, columns: TileAxis, held: int, late: Cost) -> Cost:
    """Return `late`, or 0 if no iteration over columns has several register blocks with more than `held` rows.

    The loop is the innermost one over columns that has several iterations.
    """
    rows = [name for name in result.axes if name != columns.name]
    axes = [axis.name for axis in tiling.space.register_axes if axis.name in rows]

    def inside(covered: Mapping[str, Cost]) -> Cost:
        blocks = times(*(CeilDiv(covered[name], tiling.step[name]) for name in axes if name in covered))
        together = times(*(extent_of(tiling.space, name, covered) for name in rows))
        return Threshold(blocks, 1, Const(0), Threshold(together, held, Const(0), late))

    around, sweep = (loop.inside for loop in loops(tiling) if loop.axis == columns.name)
    block, step = tiling.block[columns.name], tiling.step[columns.name]
    found = Threshold(_part(step, block), PARTS - 1, inside(sweep), inside(around))
    every = {axis.name: Const(axis.extent) for axis in tiling.space.axes}
    return Threshold(_part(step, Const(columns.extent)), PARTS - 1, found, inside(every))


def _part(step: Cost, whole: Cost) -> Cost:
    """Return the part of a whole that one register block covers. Over all blocks, its mean is 1."""
    return CeilDiv(times(PARTS, step), whole)


def _lies_like(space: Space, operand: TileOperand, result: TileOperand) -> bool:
    """Return whether an input may be read in place by pieces of rows at the same pitch as the result's rows."""
    near = not (operand.prefetching.is_streamed or operand.staging.is_packed or operand.layout.subscripts)
    in_place = near and 0 in space.stage_values(operand)
    alike = (operand.layout.dense_axis, operand.layout.pitch_bytes) == (
        result.layout.dense_axis,
        result.layout.pitch_bytes,
    )
    return not operand.is_accumulator and in_place and alike
