"""Price partial cache lines: lines evicted before all their elements are used, and loaded again.

    for m by 1 {              Y[n, m] = X[m, n]: an element of each of 512 rows, which lie 4 KB apart
      for n by 16 { … }         none of their lines is in the nearest cache when the next m comes

Each of the eight elements of a line of f64 then brings the line, and takes it away. On an Emerald Rapids
guest 512 × 512 elements so take 3.4 ns each, and 1.0 where blocks of rows are so small that lines stay.
Pixels two apart of many channels are the same: `X[n, c, 2*p, 2*q]`, one q after the other.

Where it errs: the lines that are written back take as long as those that come.
"""

from __future__ import annotations

from isamap.plan.cost import Const, Cost, Threshold, times
from isamap.plan.problem import Cache, TileOperand
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.tiling import Tiling, extent_of, loops, rows_held, usable_bytes


def torn(tiling: Tiling, operand: TileOperand, cache: Cache) -> Cost:
    """Return how often a cache loads each line of an operand in place while it goes along its rows."""
    space = tiling.space
    if 0 not in space.stage_values(operand):
        return Const(1)
    if operand.subscripts:
        return _by_windows(tiling, operand, cache)
    if not operand.dense_axis:
        return Const(1)
    if any(axis.is_reduction and axis.name == operand.dense_axis for axis in space.axes):
        return _by_issues(tiling, operand, cache)
    return _by_pieces(tiling, operand, operand.dense_axis, 1, cache)


def _by_windows(tiling: Tiling, operand: TileOperand, cache: Cache) -> Cost:
    """Of `2*q + s`, where q alone is no sum, and moves nothing else."""
    *others, last = operand.subscripts
    summed = {axis.name for axis in tiling.space.axes if axis.is_reduction}
    moving = [(axis, step) for axis, step in last if axis not in summed]
    elsewhere = {axis for subscript in others for axis, _ in subscript}
    if len(moving) != 1 or moving[0][0] in elsewhere or not operand.pitch_bytes:
        return Const(1)
    ((along, step),) = moving
    return _by_pieces(tiling, operand, along, abs(step), cache)


def _by_issues(tiling: Tiling, operand: TileOperand, cache: Cache) -> Cost:
    """Along a sum: a register block of more rows than the cache holds evicts each before its line ends."""
    space = tiling.space
    held = rows_held(operand, cache)
    (along,) = (axis for axis in space.axes if axis.name == operand.dense_axis)
    rows = [tiling.step[axis.name] for axis in space.register_axes if axis.name in operand.axes]
    if not held or not rows:
        return Const(1)
    iterations = min(cache.line_bytes // max(1, along.tile * operand.tensor_bytes), issues_along(along))
    return Threshold(times(*rows), held, Const(1), Const(max(1, iterations)))


def _by_pieces(tiling: Tiling, operand: TileOperand, along: str, step: int, cache: Cache) -> Cost:
    """Along other axes: after what the loops inside touch before the next register or cache block comes."""
    axis = next((a for a in tiling.space.register_axes if a.name == along), None)
    bytes_apart = step * operand.tensor_bytes
    if axis is None or axis.tile * bytes_apart >= cache.line_bytes:
        return Const(1)
    held, room = rows_held(operand, cache), usable_bytes(cache)
    lines = room // cache.line_bytes
    whole = -(-axis.extent * bytes_apart // cache.line_bytes)
    found: Cost = Const(1)
    around, inside = (loop for loop in loops(tiling) if loop.axis == axis.name)
    for loop, pieces in ((around, tiling.blocks[axis.name]), (inside, tiling.steps[axis.name])):
        rows = [extent_of(tiling.space, a, loop.inside) for a in operand.axes if a != axis.name]
        each = Threshold(pieces, whole, Const(1), times(1 / whole, pieces))
        gone = Threshold(loop.body_bytes, room, found, each)
        found = Threshold(times(*rows), min(held or lines, lines), gone, each)
    return found
