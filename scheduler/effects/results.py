"""Price the starts of result rows in distant caches, one for each piece that a register block stores.

    for k by 256 {            C[m, n] comes back for each block of the sum
      for n by 16 {             64 bytes of each of 240 rows
        for m by 6 {            the next six rows: six pieces without hints
          hold;
          for k by 1 { ... }

The first products of a register block wait for its sums, and later computation cannot hide that wait.
Pieces of results start as those of inputs do (`residence`), which `isamap hw calibrate` measures. If the
loop over columns is inside, the prefetcher follows the few rows. Staged results are copied a few rows at a
time, or line by line of their tiles' rows, which takes no longer; so each row of a part starts once. If a
register block takes all of the sum, only its own part is copied at once, and rows start as if they were in
place.

Measured on a Zen 3 guest (AVX2, register blocks of 6 x 16 f32): a block takes 107 ns longer with C in the
last cache and 125 with C in memory than with C in the second one, for sums of 64 and of 200 alike. The
bandwidth of its lines explains only 18 and 29 ns (docs/decisions/0020-memory-model.md).

If rows are followed, lines are still late, as those of inputs are: once for each line that a piece loads.
Pieces of 96 bytes, which end in the middle of a line, load more lines than pieces of 64
(docs/decisions/0020-memory-model.md). If the next piece comes while the line is near, the line is late only
once; of pieces of 12 bytes not each one starts anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, times, total
from isamap.plan.problem import Problem, TileAxis, TileOperand
from isamap.scheduler.deciding.space import MAX_UNROLLED, issues_along
from isamap.scheduler.deciding.tiling import Tiling, TilingLoop, by_stage, loops, reloads
from isamap.scheduler.effects.following import row_starts
from isamap.scheduler.effects.residence import holds_all, rows_together
from isamap.scheduler.effects.shared_lines import if_near, line_bytes_of, part_before


def results_begun(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time to start pieces of an accumulator's rows, with the delay of their lines. Units: nanoseconds.

    It is a sum over the memories from which the pieces may come: a farther one adds only the time by which it
    is slower than the nearer one.
    """
    # What comes and goes by way of a scratchpad is priced where it is moved.
    if (
        not (operand.layout.dense_axis and operand.layout.pitch_bytes)
        or operand.layout.subscripts
        or operand.staging.homes[0]
    ):
        return Const(0)
    return total([*_begin_times(tiling, operand, problem), *_line_waits(tiling, operand, problem)])


def _begin_times(tiling: Tiling, operand: TileOperand, problem: Problem) -> Iterator[Cost]:
    space, nest = tiling.space, loops(tiling)
    rows = ceil(_rows(tiling, operand) / rows_together(operand, problem.tlb))
    before_ns = 0.0
    for level, stated in enumerate(problem.rows_behind):
        more_ns = rows * (stated.start_ns - before_ns)
        if more_ns <= 0 or holds_all(space, problem.caches[: level + 1]):
            continue
        before_ns = stated.start_ns
        direct, _ = reloads(space, operand, nest, problem.caches[: level + 1])
        pieces = _begun_lines(
            tiling, operand, problem, times(*row_starts(tiling, operand, stated.swept_count))
        )
        # What comes back to a buffer is one run of lines.
        copied = times(more_ns, _copied_parts(tiling, operand, pieces))
        yield by_stage(space, operand, times(more_ns, pieces, *direct), copied)


def _line_waits(tiling: Tiling, operand: TileOperand, problem: Problem) -> Iterator[Cost]:
    """Yield how long register blocks of in-place results wait for lines although rows are prefetched."""
    space, line_bytes = tiling.space, line_bytes_of(problem)
    if not line_bytes:
        return
    nest, before_ns = loops(tiling), 0.0
    taken = times(_rows(tiling, operand), _lines_taken(tiling, operand, problem))
    for level, stated in enumerate(problem.rows_behind):
        measured_bytes = stated.start_bytes or line_bytes
        line_ns = stated.swept_ns / (measured_bytes / line_bytes + part_before(measured_bytes, 0, line_bytes))
        if line_ns <= before_ns or holds_all(space, problem.caches[: level + 1]):
            continue
        direct, _ = reloads(space, operand, nest, problem.caches[: level + 1])
        # Copies of more than register blocks go along rows from line to line.
        copied = _if_copied_by_blocks(tiling, times(line_ns - before_ns, taken), Const(0))
        yield by_stage(space, operand, times(line_ns - before_ns, taken, *direct), copied)
        before_ns = line_ns


def _copied_parts(tiling: Tiling, operand: TileOperand, pieces: Cost) -> Cost:
    """Return how often copies start each row: once per part. All blocks of the sum share a part.

    The parts of single register blocks start like pieces that are read in place.
    """
    space, along = tiling.space, operand.layout.dense_axis
    if along not in tiling.blocks or space.splits_sum:
        return Const(1)
    parts = tiling.blocks[along]
    for name, first, second in space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer.is_reduction and inner.name == along:
                inside = Threshold(tiling.block[outer.name], outer.extent - 1, Const(1), parts)
                branches = ((value, inside), (1 - value, parts))
                parts = Cases(name, tuple(sorted(branches, key=lambda branch: branch[0])))
    return _if_copied_by_blocks(tiling, pieces, parts)


def _if_copied_by_blocks(tiling: Tiling, by_blocks: Cost, otherwise: Cost) -> Cost:
    """Return `by_blocks` if a register block has the whole sum and so copies its own part, else `otherwise`.

    `otherwise` must not exceed `by_blocks`, so that costs grow with their decisions.
    """
    if tiling.space.splits_sum:
        return otherwise
    found = by_blocks
    for axis in tiling.space.axes:
        if axis.is_reduction:
            found = Threshold(tiling.block[axis.name], axis.extent - 1, otherwise, found)
    return found


def _rows(tiling: Tiling, operand: TileOperand) -> int:
    axes = tiling.space.option.axes
    return prod(a.extent for a in axes if a.name in operand.axes and a.name != operand.layout.dense_axis)


def _begun_lines(tiling: Tiling, operand: TileOperand, problem: Problem, pieces: Cost) -> Cost:
    """Return how often each row is started: at most once per line if all lines stay in a near cache."""
    own, line_bytes = _own_loops(tiling, operand), line_bytes_of(problem)
    if not own or not line_bytes:
        return pieces
    lines = ceil(_axis(tiling, operand).extent * operand.layout.tensor_bytes / line_bytes)
    few = Threshold(pieces, lines, pieces, Const(lines))
    by_blocks = if_near(tiling, operand, problem, own[0], few, pieces)
    of_one = Threshold(tiling.blocks[own[0].axis], 1, few, by_blocks)
    return if_near(tiling, operand, problem, own[-1], of_one, pieces)


def _lines_taken(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the number of lines that the pieces of a row load.

    A line counts again if a piece begins in the middle of it and it is no longer in a near cache.
    """
    space, line_bytes, axis = tiling.space, line_bytes_of(problem), _axis(tiling, operand)

    def again(issues: int) -> Const:
        return Const(
            part_before(
                issues * axis.tile * operand.layout.tensor_bytes, operand.layout.pitch_bytes, line_bytes
            )
        )

    whole, own = Const(axis.extent * operand.layout.tensor_bytes / line_bytes), _own_loops(tiling, operand)
    if axis not in space.register_axes:
        return total([whole, again(issues_along(axis))])
    most = min(issues_along(axis), MAX_UNROLLED)
    each = Cases(space.unroll(axis), tuple((n, again(n)) for n in range(1, most + 1)))
    by_blocks = if_near(tiling, operand, problem, own[0], Const(1), tiling.blocks[axis.name])
    runs = if_near(tiling, operand, problem, own[-1], by_blocks, tiling.steps[axis.name])
    return total([whole, times(each, runs)])


def _own_loops(tiling: Tiling, operand: TileOperand) -> list[TilingLoop]:
    """Return the loops over cache blocks along a row, and over the register blocks in them."""
    return [loop for loop in loops(tiling) if loop.axis == operand.layout.dense_axis]


def _axis(tiling: Tiling, operand: TileOperand) -> TileAxis:
    return next(axis for axis in tiling.space.option.axes if axis.name == operand.layout.dense_axis)
