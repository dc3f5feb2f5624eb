"""What it costs to begin rows of results out of far caches, whenever a register block takes a piece of each.

    for k by 256 {            C[m, n] comes back for each block of the sum
      for n by 16 {             64 bytes of each of 240 rows
        for m by 6 {            the next six rows: six pieces that nobody has asked for
          hold;
          for k by 1 { ... }

The first products of a register block wait for its sums, and what is computed afterwards hides nothing of
that. Pieces of results are begun as those of inputs are (`residence`), which `isamap hw calibrate`
measures; where the loop over columns stands inside, whoever fetches ahead follows the few rows. What is
staged is copied a few rows at a time, and so each row of a part is begun once; where a register block takes
all of the sum, its own part is all that is copied at once.

Measured on a Zen 3 guest (AVX2, register blocks of 6 x 16 f32): a block takes 107 ns longer with C in the
last cache and 125 with C in memory than with C in the second one, for sums of 64 and of 200 alike, where
the bandwidth of its lines is 18 and 29 ns (docs/decisions/0032-results-from-afar.md).

Where rows are followed, lines come late all the same, as those of inputs do: each time that a piece takes
one, so that pieces of 96 bytes, which end in the middle of a line, have more of them than pieces of 64
(docs/decisions/0033-late-though-followed.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, gcd, prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, times, total
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.following import begun
from isamap.scheduler.residence import holds_all, rows_together
from isamap.scheduler.space import MAX_UNROLLED, issues_along
from isamap.scheduler.tiling import Tiling, by_stage, loops, reloads


def results_begun(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """The time to begin pieces of an accumulator's rows, out of each cache or memory that they come from, and
    what their lines come late by.

    What comes from farther takes what it takes longer than out of the level before. Units: nanoseconds.
    """
    # What comes and goes by way of a scratchpad is priced where it is moved.
    if not (operand.dense_axis and operand.pitch_bytes) or operand.subscripts or operand.homes[0]:
        return Const(0)
    return total([*_begun(tiling, operand, problem), *_late(tiling, operand, problem)])


def _begun(tiling: Tiling, operand: TileOperand, problem: Problem) -> Iterator[Cost]:
    space, nest = tiling.space, loops(tiling)
    rows = ceil(_rows(tiling, operand) / rows_together(operand, problem.tlb))
    before_ns = 0.0
    for level, stated in enumerate(problem.rows_behind):
        more_ns = rows * (stated.start_ns - before_ns)
        if more_ns <= 0 or holds_all(space, problem.caches[: level + 1]):
            continue
        before_ns = stated.start_ns
        direct, _ = reloads(space, operand, nest, problem.caches[: level + 1])
        in_place = times(more_ns, *begun(tiling, operand, stated.swept_count), *direct)
        # What comes back to a buffer is one run of lines.
        copied = times(more_ns, _copied_parts(tiling, operand))
        yield by_stage(space, operand, in_place, copied)


def _late(tiling: Tiling, operand: TileOperand, problem: Problem) -> Iterator[Cost]:
    """What lines take that register blocks of results in place are late for, though rows are followed."""
    space, line_bytes = tiling.space, problem.caches[-1].line_bytes if problem.caches else 0
    if not line_bytes:
        return
    nest, taken = loops(tiling), times(_rows(tiling, operand), *_lines_taken(tiling, operand, line_bytes))
    before_ns = 0.0
    for level, stated in enumerate(problem.rows_behind):
        line_ns = stated.swept_ns / _lines(stated.start_bytes or line_bytes, 0, line_bytes)
        if line_ns <= before_ns or holds_all(space, problem.caches[: level + 1]):
            continue
        direct, _ = reloads(space, operand, nest, problem.caches[: level + 1])
        # Copies of more than register blocks go along rows from line to line.
        copied = _if_copied_by_blocks(tiling, times(line_ns - before_ns, taken), Const(0))
        yield by_stage(space, operand, times(line_ns - before_ns, taken, *direct), copied)
        before_ns = line_ns


def _copied_parts(tiling: Tiling, operand: TileOperand) -> Cost:
    """How often copies begin each row: once for each part, which all blocks of the sum use that there are."""
    space, along = tiling.space, operand.dense_axis
    if along not in tiling.blocks or space.splits_sum:
        return Const(1)
    parts = tiling.blocks[along]
    for name, first, second in space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer.is_reduction and inner.name == along:
                inside = Threshold(tiling.block[outer.name], outer.extent - 1, Const(1), parts)
                branches = ((value, inside), (1 - value, parts))
                parts = Cases(name, tuple(sorted(branches, key=lambda branch: branch[0])))
    return _if_copied_by_blocks(tiling, tiling.steps[along], parts)


def _if_copied_by_blocks(tiling: Tiling, by_blocks: Cost, otherwise: Cost) -> Cost:
    """One of two costs, after whether a register block takes all of the sum: then each copies its own part.

    Costs only grow with what they depend on: `otherwise` is no more than `by_blocks`.
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
    return prod(a.extent for a in axes if a.name in operand.axes and a.name != operand.dense_axis)


def _lines_taken(tiling: Tiling, operand: TileOperand, line_bytes: int) -> list[Cost]:
    """Factors of how many lines of a row pieces take, one that two of them share twice."""
    space = tiling.space
    axis = next(axis for axis in space.option.axes if axis.name == operand.dense_axis)

    def of_piece(issues: int) -> Const:
        return Const(_lines(issues * axis.tile * operand.tensor_bytes, operand.pitch_bytes, line_bytes))

    if axis not in space.register_axes:
        return [of_piece(issues_along(axis))]
    most = min(issues_along(axis), MAX_UNROLLED)
    pieces = Cases(space.unroll(axis), tuple((n, of_piece(n)) for n in range(1, most + 1)))
    return [tiling.steps[axis.name], pieces]


def _lines(size_bytes: int, pitch_bytes: int, line_bytes: int) -> float:
    """How many lines as many bytes lie in, in the middle of all places where pieces of rows begin."""
    return 1 + (size_bytes - gcd(size_bytes, pitch_bytes, line_bytes)) / line_bytes
