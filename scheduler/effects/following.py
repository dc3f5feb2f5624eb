"""Decide which rows the prefetcher follows: rows that loops continue, or rows that separate loads read.

    for k by 8 {                  eight rows of B[k, n]
      prefetch b ahead 1 into l2;   the next eight, interleaved with the inner loop's iterations
      for n by 32 {                 continues each of them to its end
        hold;
        unroll k by 1 { … }       no loop over rows: each load has its own row
      }
    }

In a loop over rows, one load jumps from row to row, and the prefetcher follows only as many rows as the
memory states. Validated in docs/decisions/0024-prefetch-hints.md.
"""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Cases, CeilDiv, Const, Cost, Decision, Threshold, largest, times
from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.scheduler.deciding.scratch import BLOCK, WHOLE
from isamap.scheduler.deciding.summing import SWEPT
from isamap.scheduler.deciding.sums import sweeping_axis
from isamap.scheduler.deciding.tiling import Tiling, by_stage, extent_of, loops


def row_starts(tiling: Tiling, operand: TileOperand, swept_count: int) -> tuple[Cost, ...]:
    """Return the factors whose product is the number of starts of each row of an input.

    A register block reads a piece of each row of its sum or, along the sum, a piece of each of its own rows.
    The surrounding loop continues with the next pieces. The prefetcher follows up to `swept_count` rows from
    one piece to the next at any distance in time, so each of them starts once for all pieces that such loops
    read.
    """
    along = next((axis for axis in tiling.space.axes if axis.name == operand.layout.dense_axis), None)
    if along is None:
        return ()
    blocks = tiling.blocks[along.name]
    pieces = blocks if along.is_reduction else tiling.steps[along.name]
    if not swept_count:
        return (pieces,)
    rows = [name for name in operand.axes if name != operand.layout.dense_axis]
    own = [loop for loop in loops(tiling) if loop.axis == along.name]
    around, *swept = [times(*(extent_of(tiling.space, name, loop.inside) for name in rows)) for loop in own]
    by_blocks = Threshold(around, swept_count, Const(1), blocks)
    return (Threshold(swept[0], swept_count, by_blocks, pieces) if swept else by_blocks,)


def begun_by_copies(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return how often each row of a copied input is started: once for each part of the row that is copied.

    Copies read a few rows at a time, piece by piece, however register blocks read the buffer
    (`isamap/lower/staging.py`).
    """
    along = next((axis for axis in tiling.space.axes if axis.name == operand.layout.dense_axis), None)
    values = tiling.space.stage_values(operand)
    if along is None or BLOCK not in values:
        return Const(1)
    blocks = tiling.blocks[along.name]
    if WHOLE not in values:
        return blocks
    return Cases(tiling.space.stage(operand), tuple((v, Const(1) if v == WHOLE else blocks) for v in values))


def if_swept(tiling: Tiling, operand: TileOperand, problem: Problem, swept: Cost, otherwise: Cost) -> Cost:
    """Return `swept` if separate loads read each of a few whole rows, a line or two at a time, else `otherwise`.

    A row that is cut starts again. Measured parts of 2.5 KB are no faster than others. `swept` must not
    exceed `otherwise`, so that costs grow with their decisions.
    """
    option = tiling.space.option
    axis = sweeping_axis(option)
    if axis is None or not operand.prefetching.is_swept or _is_cut(option, operand):
        return otherwise
    block, step = tiling.block[axis.name], tiling.step.get(operand.layout.dense_axis, Const(0))
    iterations = CeilDiv(block, times(axis.tile, Decision(tiling.space.unroll(axis))))
    otherwise = largest([swept, otherwise])
    most = problem.model.swept_lines_count * problem.caches[-1].line_bytes // operand.layout.tensor_bytes
    rows = SWEPT * axis.tile
    found = swept
    for value, limit in (
        (times(*row_starts(tiling, operand, rows)), 1),
        (step, most),
        (block, rows),
        (iterations, 1),
    ):
        found = Threshold(value, limit, found, otherwise)
    return found


def if_in_sequence(tiling: Tiling, operand: TileOperand, sequence: Cost, otherwise: Cost) -> Cost:
    """Return `sequence` if register blocks read whole rows of a matrix in sequence, else `otherwise`.

    `sequence` must not exceed `otherwise`, so that costs grow with their decisions.
    """
    if not operand.prefetching.is_swept or len(operand.axes) != 2 or _is_cut(tiling.space.option, operand):
        return otherwise
    return Threshold(tiling.steps[operand.layout.dense_axis], 1, sequence, largest([sequence, otherwise]))


def _is_cut(option: NestOption, operand: TileOperand) -> bool:
    """Return whether rows are partitioned among threads, so that the prefetcher runs into other threads' lines."""
    return any(name == operand.layout.dense_axis for name, _ in option.parts)


def if_followed(tiling: Tiling, problem: Problem, swept: Cost, otherwise: Cost) -> Cost:
    """Return `swept` if separate loads of few rows read the largest streamed input in place, else `otherwise`."""
    operand = largest_stream(tiling.space.option)
    if operand is None or not operand.prefetching.is_swept:
        return otherwise
    return by_stage(tiling.space, operand, if_swept(tiling, operand, problem, swept, otherwise), otherwise)


def largest_stream(option: NestOption) -> TileOperand | None:
    """Return the streamed input with the most bytes, for which the computation waits."""
    sizes = {axis.name: axis.extent for axis in option.axes}
    streaming = [operand for operand in option.operands if operand.prefetching.is_streamed]
    if not streaming:
        return None
    return max(streaming, key=lambda o: prod(sizes[name] for name in o.axes) * o.layout.tensor_bytes)


def if_near(tiling: Tiling, operand: TileOperand, problem: Problem, near: Cost, far: Cost) -> Cost:
    """Return `near` if the next few rows fit into the cache that hints fill, else `far`."""
    axis = sweeping_axis(tiling.space.option)
    if axis is None:
        return far
    around = next(loop for loop in loops(tiling) if loop.axis == axis.name)
    parts = [extent_of(tiling.space, name, around.inside) for name in operand.axes]
    iteration_bytes = times(operand.layout.tensor_bytes, *parts)
    return Threshold(iteration_bytes, room_bytes(problem), near, largest([near, far]))


def room_bytes(problem: Problem) -> int:
    """Return the bytes that hints may request in advance, for rows of two iterations."""
    return problem.caches[-2:][0].capacity_bytes // 2
