"""Price the return to rows that a cache has evicted, when a sum reads them in place.

    for n by 160 {              16 times
      stage b;
      for m by 5 {              5 rows of A[m, k], from their beginnings, out of the last cache
        for n by 80 {           the second time they are in a near cache
          hold;
          for k by 4 { … }

The traffic of such rows counts by bytes, and is mostly hidden. The start of the rows is not: a register block
reads all of its rows together, a few bytes of each per iteration. The prefetcher is therefore slow to follow,
and out-of-order execution has no other iterations to compute meanwhile.

Measured on Zen 5, one thread: rows of 1.8 to 4 KB, 5 or 6 of them together, against the same loops with the
next rows prefetched, or with the same rows again: 16 to 52 ns for a row of f32, 43 to 88 for one of bytes.
The link into the cache from which rows return states the time of a machine (`again_ns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from isamap.plan.cost import Const, Cost, Threshold, times
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.deciding.tiling import Tiling, by_stage, loops, reloads
from isamap.scheduler.effects.following import row_starts
from isamap.scheduler.effects.residence import holds_all, rows_in_a_run


def revisits(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time to restart rows of an input when loops return to them. Units: nanoseconds.

    Loops that the input does not follow return to its rows, and so does the next block of their sum. Rows
    restart if more rows were read in between than the prefetcher follows. Contiguous rows start together,
    once. The time is zero if each row starts once, which `residence` and `streams` price.
    """
    space = tiling.space
    known = operand.layout.dense_axis and operand.layout.pitch_bytes and not operand.layout.subscripts
    sums = {axis.name for axis in space.option.axes if axis.is_reduction}
    if not known or operand.layout.dense_axis not in sums or operand.is_accumulator:
        return Const(0)
    caches, again_ns = near_caches(problem)
    if (
        not caches
        or operand.prefetching.is_streamed
        or 0 not in space.stage_values(operand)
        or holds_all(space, caches)
    ):
        return Const(0)
    pieces = row_starts(tiling, operand, problem.rows_behind[len(caches) - 1].swept_count)
    visits = times(*reloads(space, operand, loops(tiling), caches)[0], *pieces)
    others = [name for name in operand.axes if name != operand.layout.dense_axis]
    rows = prod(axis.extent for axis in space.option.axes if axis.name in others)
    begun_ns = times(again_ns * rows, visits)
    if (run := rows_in_a_run(operand, space, problem)) > 1:
        begun_ns = Threshold(times(*pieces), 1, times(again_ns * ceil(rows / run), visits), begun_ns)
    return by_stage(space, operand, Threshold(visits, 1, Const(0), begun_ns), Const(0))


def near_caches(problem: Problem) -> tuple[Sequence[Cache], float]:
    """Return the caches up to the first one whose lost rows cost time, and the time per row. Units: nanoseconds.

    Return no cache if the machine states no such time.
    """
    stated = ((n, rows.again_ns) for n, rows in enumerate(problem.rows_behind, 1) if rows.again_ns)
    count, again_ns = next(stated, (0, 0.0))
    return problem.caches[:count], again_ns
