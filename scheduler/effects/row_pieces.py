"""Price inputs that are read in pieces of rows, and the computation on them.

    for n by 48 { hold; for k by 1 { … } }     a piece of each of 64 rows of B[k, n]

    exposed part of their lines' time + exposed part of computing

Both parts are parameters of the memory from which the pieces come (`traffic_factor`, for hinted pieces
`hinted_traffic_factor`, and `computing_factor` of its link's `rows`). A piece that is used again from a
nearer memory is a piece of a row there as well. Rows along a sum are read while their register block
computes, and so are rows that loads follow: their time is hidden. Validated in
docs/decisions/0020-memory-model.md and docs/decisions/0024-prefetch-hints.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from isamap.plan.cost import Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.tiling import Tiling, by_stage, extent_of, rows_held
from isamap.scheduler.effects.following import if_followed
from isamap.scheduler.effects.hint_costs import if_in_time
from isamap.scheduler.effects.levels import Misses, added_by_levels, added_in_pieces

# --- conflict misses of pieces --------------------------------------------------------------------------

# Price conflict misses of row pieces that evict each other from the nearest cache.
#
#     for n by 32 {             64 bytes of each row of B[k, n], whose rows lie 4 KB apart: all in one set
#       for m by 11 {
#         hold;
#         for k by 2 { … }        64 rows, but a set holds 12 lines: none is left when the next block starts
#
# Lines that enter one set arrive one after the other. Measured on a Zen 5 guest, from l2 and l3: each piece of
# a register block, of one to four lines, takes 1.9 to 2.4 ns. It takes half of that if rows alternate between
# two sets, and 0.8 ns if they are spread over all sets. A longer computation hides this time. The link into the
# nearest cache states it (`crowded_piece_ns`), and `isamap hw calibrate` measures it
# (docs/decisions/0025-conflict-misses.md).
#
# If a piece is shorter than a line, the remainder of the line is evicted before the next piece is read. The
# line is then loaded several times, and all of its load time is exposed.
#
# Known error: conflict misses among results are ignored.


def pieces_at_least(tiling: Tiling, problem: Problem) -> Cost:
    """Return the least time of conflict misses of inputs that are read by pieces. Units: nanoseconds."""
    if not problem.caches or not problem.rows_behind[0].crowded_piece_ns:
        return Const(0)
    return total(_of_input(tiling, operand, problem) for operand in tiling.space.option.operands)


def _of_input(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    cache, piece_ns = problem.caches[0], problem.rows_behind[0].crowded_piece_ns
    held = _count_cached_rows(tiling, operand, problem)
    if not held or 0 not in tiling.space.stage_values(operand):
        return Const(0)
    rows = (axis.extent for axis in tiling.space.option.axes if axis.name in _rows(operand))
    blocks = [
        tiling.blocks[axis.name] if axis.is_reduction else tiling.steps[axis.name]
        for axis in tiling.space.axes
        if axis.name not in _rows(operand)
    ]
    every = times(piece_ns * cache.ways / held, *rows, *blocks)
    lost = Threshold(_count_rows(tiling, operand), held, Const(0), every)
    return by_stage(tiling.space, operand, lost, Const(0))


def if_kept(tiling: Tiling, operand: TileOperand, problem: Problem, kept: Cost, lost: Cost) -> Cost:
    """Return `kept` if a line is still cached when the next piece of its row is read, else `lost`.

    `kept` must not exceed `lost`, so that costs grow with their decisions.
    """
    held = _count_cached_rows(tiling, operand, problem)
    if not held:
        return kept
    extent = next(a.extent for a in tiling.space.option.axes if a.name == operand.layout.dense_axis)
    lines = ceil(extent * operand.layout.tensor_bytes / problem.caches[0].line_bytes)
    short = Threshold(tiling.steps[operand.layout.dense_axis], lines, kept, largest([kept, lost]))
    return Threshold(_count_rows(tiling, operand), held, kept, short)


def _count_cached_rows(tiling: Tiling, operand: TileOperand, problem: Problem) -> int:
    """Return the number of rows across a sum that the nearest cache can hold (0: all, or unknown)."""
    if operand.is_accumulator or operand.staging.is_packed or operand.layout.dense_axis not in tiling.step:
        return 0
    if in_rows(tiling.space.option, operand) or not problem.caches[0].line_bytes:
        return 0
    return rows_held(operand, problem.caches[0])


def _rows(operand: TileOperand) -> list[str]:
    return [name for name in operand.axes if name != operand.layout.dense_axis]


def _count_rows(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return the number of rows from which a register block reads pieces."""
    space = tiling.space
    within = {a.name: tiling.block[a.name] if a.is_reduction else tiling.step[a.name] for a in space.axes}
    return times(*(extent_of(space, name, within) for name in _rows(operand)))


def pieces_and_computing(tiling: Tiling, missed: Sequence[Misses], computing: Cost, problem: Problem) -> Cost:
    """Return the time of pieces of rows, plus the computing time that overlaps with nothing. Units: nanoseconds."""
    return largest(
        total([*lines, if_followed(tiling, problem, Const(0), times(level.computing_factor, computing))])
        for level in missed
        if level.computing_factor and (lines := _in_pieces(tiling, missed, level, problem))
    )


def _in_pieces(tiling: Tiling, missed: Sequence[Misses], one: Misses, problem: Problem) -> list[Cost]:
    """Return the times of pieces from one level and from farther levels with the same part of computing.

    Of copies only the starts of rows count: `copying_afar` already adds their reads.
    """
    option = tiling.space.option
    hiding = [level for level in missed if level.computing_factor >= one.computing_factor]
    is_last = hiding[-1] is missed[-1]
    found: list[Cost] = []
    for position, operand in enumerate(option.operands):
        if operand.is_accumulator or in_rows(option, operand):
            continue
        shown, early, lost = (
            total(times(share, level.lines[position]) for level, share in shares)
            for shares in (
                added_in_pieces(hiding),
                added_in_pieces(hiding, hinted=True),
                added_by_levels(hiding),
            )
        )
        if operand.prefetching.is_late:
            shown = if_in_time(tiling, operand, one.bandwidth, shown, early)
        begun = [level.begun[position] for level in hiding]
        direct = total([if_kept(tiling, operand, problem, shown, lost), *begun])
        found.append(by_stage(tiling.space, operand, direct, begun[-1] if is_last else Const(0)))
    return found
