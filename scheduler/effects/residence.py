"""Model the memory that holds a statement's tensors at its start, and price the start of rows there.

A kernel is called after other code has written its operands, or again on the same ones: they are in the
nearest cache that holds them all. Misses of nearer caches are served from there. Farther levels are not
read. A kernel that is called with other operands each time (`--cold`) finds none there, except for data
that it writes itself.

Each time that the reads turn to another row, the prefetcher starts anew. Rows of 512 bytes from the last
cache take twice the time of one long row; from memory, a line per row runs at a tenth of the bandwidth. The
machine states that time for each memory, as the `rows` of its links. Short rows that follow each other
without a gap are a run: 13,000 products of 150 rows of 72 bytes from memory take 57, 21 and 35 ms on an
Emerald Rapids guest with scalars, bf16 and f32 vectors (57, 24 and 45 by the model; 145, 47 and 61 if each
row counted).

A sum that reads rows in place may return to rows that a cache has evicted:

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

from isamap.machine.timings import RowTimes, Tlb
from isamap.plan.cost import Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import Tiling, by_stage, kept_points, loops, reloads, whole_bytes
from isamap.scheduler.effects.following import begun_by_copies, row_starts
from isamap.scheduler.effects.hint_costs import by_asking
from isamap.scheduler.effects.streams import row_start_times
from isamap.source.records import dataclass


def holds_all(space: Space, caches: Sequence[Cache]) -> bool:
    """Return whether one of these caches holds all tensors of a statement from its beginning to its end."""
    operands = space.option.operands
    size_bytes = sum(whole_bytes(space, operand)[0] for operand in operands)
    if any(operand.prefetching.is_cold for operand in operands):
        return False
    return any(size_bytes <= c.capacity_bytes and not kept_points(space, c) for c in caches)


def starts(tiling: Tiling, operand: TileOperand, problem: Problem, level: int) -> Cost:
    """Return the time to start all rows of an input from the memory behind this cache.

    It is zero if the tensors are in another memory. Each row counts once, because data that is read again is
    in a near cache. Copies of data in near caches are priced together with what they start.
    """
    space = tiling.space
    homes = (n for n, cache in enumerate(problem.caches) if holds_all(space, [cache]))
    home = next(homes, len(problem.caches))
    known = operand.layout.dense_axis and operand.layout.pitch_bytes and not operand.layout.subscripts
    if level + 1 != home or not known or operand.staging.is_packed or operand.is_accumulator:
        return Const(0)
    is_far = home == len(problem.caches)
    if not is_far and 0 not in space.stage_values(operand):
        return Const(0)
    together = 1 if is_far else rows_together(operand, problem.tlb)
    run = max(together, rows_in_a_run(operand, space, problem))
    rows = _Rows.of(tiling, operand, problem.rows_behind[level], together, run)
    pieces = row_starts(tiling, operand, rows.stated.swept_count)
    if is_far:
        unasked = _side_by_side(rows, problem, _far_ns(rows, pieces))
        copied: Cost = _far_ns(rows, [begun_by_copies(tiling, operand)])
        if operand.prefetching.is_streamed:
            each = row_starts(tiling, operand, 0)
            return row_start_times(tiling, operand, problem, pieces, each, unasked, copied)
    else:
        unasked, copied = largest([rows.started_ns(pieces), _apart_ns(rows, problem.tlb)]), Const(0)
    return by_stage(space, operand, _in_place(rows, problem.caches[-1].line_bytes, unasked), copied)


def rows_together(operand: TileOperand, tlb: Tlb) -> int:
    """Return how many rows of a tensor lie on one page. A prefetcher treats them as one row."""
    return max(1, tlb.page_bytes // operand.layout.pitch_bytes)


def rows_in_a_run(operand: TileOperand, space: Space, problem: Problem) -> int:
    """Return how many rows of a page are adjacent, each with few lines, so that they count as one run.

    If they are read whole and one after the other, they start one stream. Each longer row is its own stream.
    """
    extents = {axis.name: axis.extent for axis in space.option.axes}
    is_dense = extents[operand.layout.dense_axis] * operand.layout.tensor_bytes == operand.layout.pitch_bytes
    longest_bytes = problem.model.run_lines_count * problem.caches[-1].line_bytes
    if not (operand.layout.next_row and is_dense) or operand.layout.pitch_bytes > longest_bytes:
        return 1
    return min(rows_together(operand, problem.tlb), extents[operand.layout.next_row])


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of an input: their number, their elements, and the time to start one.

    Of each `together` rows, one has a start. If rows are read as a whole, one of each `run` consecutive rows
    has a start.
    """

    tiling: Tiling
    operand: TileOperand
    stated: RowTimes
    count: int
    extent: int
    together: int
    run: int

    @staticmethod
    def of(tiling: Tiling, operand: TileOperand, stated: RowTimes, together: int, run: int) -> _Rows:
        """Return the rows of an operand that is contiguous along one of its axes."""
        axes = [a for a in tiling.space.option.axes if a.name in operand.axes]
        extent = next(a.extent for a in axes if a.name == operand.layout.dense_axis)
        return _Rows(tiling, operand, stated, prod(a.extent for a in axes) // extent, extent, together, run)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of one row."""
        return self.extent * self.operand.layout.tensor_bytes

    def started_ns(self, pieces: Sequence[Cost], start_ns: float | None = None) -> Cost:
        """Return the time to start all rows, each in `pieces` pieces. Units: nanoseconds.

        A start takes `start_ns`, or the time that the machine states. A short piece ends before its start has
        taken all of that time.
        """
        start_ns = self.stated.start_ns if start_ns is None else start_ns
        one = ceil(self.count / self.together) * start_ns
        each = times(one, *pieces)
        if self.stated.start_bytes:
            long = ceil(self.size_bytes / self.stated.start_bytes)
            each = Threshold(times(*pieces), long, each, Const(one * long))
        if self.run == self.together:
            return each
        return Threshold(times(*pieces), 1, Const(ceil(self.count / self.run) * start_ns), each)


def _apart_ns(rows: _Rows, tlb: Tlb) -> Cost:
    """Return the time to start pieces of rows that lie on more pages than a prefetcher follows.

    Each piece takes the full time, even if it is short. The limit is half of the pages that the first TLB
    holds, because other operands share it. Large pages do not change it.
    """
    along = next((a for a in rows.tiling.space.axes if a.name == rows.operand.layout.dense_axis), None)
    if not tlb.count or along is None or along.is_reduction:
        return Const(0)
    followed = max(rows.stated.swept_count, tlb.count // 2 * rows.together)
    each_ns = ceil(rows.count / rows.together) * rows.stated.start_ns
    return times(each_ns, *row_starts(rows.tiling, rows.operand, followed))


def _in_place(rows: _Rows, line_bytes: int, begun_ns: Cost) -> Cost:
    """Return the time to read rows in place by pieces, with the delay of pieces that the prefetcher follows.

    If pieces are shorter than a line, no more of them are late than a row has lines.
    """
    tiling, operand, stated = rows.tiling, rows.operand, rows.stated
    if in_rows(tiling.space.option, operand) or operand.layout.dense_axis not in tiling.step:
        return begun_ns
    pieces, shortest = row_starts(tiling, operand, 0), max(line_bytes, stated.start_bytes, 1)
    most = ceil(rows.size_bytes / shortest)

    def late(each_ns: float) -> Cost:
        one = rows.count * each_ns
        return Threshold(times(*pieces), most, times(one, *pieces), Const(one * most))

    unasked = total([begun_ns, late(stated.swept_ns)])
    if not operand.prefetching.is_late:
        return unasked
    saved_ns = max(0.0, stated.swept_ns - stated.hinted_swept_ns)
    beyond = rows.started_ns(
        row_starts(tiling, operand, stated.hinted_swept_count), stated.start_ns + saved_ns
    )
    return by_asking(tiling, operand, unasked, total([beyond, late(stated.hinted_swept_ns)]))


def _far_ns(rows: _Rows, pieces: Sequence[Cost]) -> Cost:
    """Return the time to start all rows from memory. Pieces of one or two lines end before a start takes effect."""
    stated, element_bytes = rows.stated, rows.operand.layout.tensor_bytes
    usual = rows.started_ns(pieces)
    if not stated.short_bytes:
        return usual
    short = ceil(rows.extent / max(1, stated.short_bytes // element_bytes)) if element_bytes else 1
    return Threshold(times(*pieces), short - 1, usual, times(rows.count * stated.short_start_ns, *pieces))


def _side_by_side(rows: _Rows, problem: Problem, in_time: Cost) -> Cost:
    """Return the time to start rows from memory, with the delay of rows that a sum reads together."""
    tiling, operand = rows.tiling, rows.operand
    stated, line_bytes = problem.memory_rows, problem.caches[-1].line_bytes
    along = any(a.is_reduction and a.name == operand.layout.dense_axis for a in tiling.space.option.axes)
    # Rows that follow each other without a gap are one stream to a prefetcher.
    crossing_axes = [n for n in operand.axes if rows.run == 1 or n != operand.layout.next_row]
    together = [tiling.step[axis.name] for axis in tiling.space.register_axes if axis.name in crossing_axes]
    if not along or not together or not stated.followed_count or not line_bytes:
        return in_time
    lines = rows.count * ceil(rows.size_bytes / line_bytes)
    late = total([in_time, Const(stated.late_line_ns * lines)])
    return Threshold(times(*together), stated.followed_count, in_time, late)


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
    # The caches up to the first one whose lost rows cost time, and the time per row.
    stated = ((n, rows.again_ns) for n, rows in enumerate(problem.rows_behind, 1) if rows.again_ns)
    count, again_ns = next(stated, (0, 0.0))
    caches = problem.caches[:count]
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
