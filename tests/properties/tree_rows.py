"""What it takes to begin rows of inputs and results, and what comes late of them, as `tree_price` counts it.

Like that, it shares no code with the model, no expression, and knows no decision.
"""

from __future__ import annotations

from math import ceil, gcd, prod

from properties.tree_caches import (
    holds_all,
    room,
    rows_of,
    tensor_rows_held,
    times_loaded,
    touched_bytes,
)
from properties.tree_walk import Turn, Walk

from isamap.machine.timings import RowTimes, Tlb
from isamap.plan.problem import Problem, TileOperand


def starts(walk: Walk, operand: TileOperand, problem: Problem, level: int) -> float:
    """To begin each row read in place, out of where all tensors are."""
    homes = [n for n, cache in enumerate(problem.caches) if holds_all(walk, [cache])]
    home = homes[0] if homes else len(problem.caches)
    known = operand.layout.dense_axis and operand.layout.pitch_bytes and not operand.layout.subscripts
    is_near_copy = operand.name in walk.stages and home < len(problem.caches)
    if level + 1 != home or not known or is_near_copy or operand.staging.is_packed or operand.is_accumulator:
        return 0.0
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    far = problem.memory_rows
    stated = far if home == len(problem.caches) else problem.caches[home].rows
    pieces = [_copied_pieces(walk, operand) or _pieces(walk, operand, stated.swept_count)]
    in_short_ones = ceil(
        extents[operand.layout.dense_axis] / max(1, far.short_bytes // operand.layout.tensor_bytes)
    )
    is_short = far.short_bytes > 0 and prod(pieces) >= in_short_ones
    counted = prod(pieces)
    if stated.start_bytes:
        counted = min(
            counted,
            ceil(extents[operand.layout.dense_axis] * operand.layout.tensor_bytes / stated.start_bytes),
        )
    run = _run(walk, operand, problem) if prod(pieces) == 1 else 1
    begun = stated.start_ns * ceil(rows_of(walk, operand) / run) * counted
    if home < len(problem.caches):
        apart = ceil(rows_of(walk, operand) / run)
        begun = stated.start_ns * min(apart, _rows_apart(walk, operand, problem.tlb)) * counted
        begun = max(begun, _unfollowed(walk, operand, stated, problem.tlb))
    if home == len(problem.caches) and is_short:
        begun = far.short_start_ns * rows_of(walk, operand) * prod(pieces)
    summed = [axis.name for axis in walk.option.axes if axis.is_reduction]
    across = operand.layout.dense_axis in walk.running and operand.layout.dense_axis not in summed
    if across and operand.name not in walk.stages:
        begun += _late(walk, operand, stated, problem.caches[-1].line_bytes)
    apart = [
        n
        for n in operand.axes
        if n not in summed and (n != operand.layout.next_row or _run(walk, operand, problem) == 1)
    ]
    beside = prod(walk.held[name] for name in walk.running if name in apart)
    in_place = operand.layout.dense_axis in summed and operand.name not in walk.stages
    line = problem.caches[-1].line_bytes
    if home == len(problem.caches) and in_place and line and 0 < far.followed_count < beside:
        lines = ceil(extents[operand.layout.dense_axis] * operand.layout.tensor_bytes / line)
        begun += far.late_line_ns * rows_of(walk, operand) * lines
    return begun


def _run(walk: Walk, operand: TileOperand, problem: Problem) -> int:
    """Return how many whole rows follow each other on a page, where they are short and lie without gaps."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    row_bytes = extents[operand.layout.dense_axis] * operand.layout.tensor_bytes
    if (
        not operand.layout.next_row
        or row_bytes < operand.layout.pitch_bytes
        or row_bytes > 4 * problem.caches[-1].line_bytes
    ):
        return 1
    return max(1, min(problem.tlb.page_bytes // row_bytes, extents[operand.layout.next_row]))


def _late(walk: Walk, operand: TileOperand, stated: RowTimes, line_bytes: int) -> float:
    """Return what all pieces of rows without hints take, followed or not: a line comes late but once."""
    along = next(axis for axis in walk.option.axes if axis.name == operand.layout.dense_axis)
    row_bytes = along.extent * operand.layout.tensor_bytes
    shortest = max(line_bytes, stated.start_bytes, 1)
    pieces = min(_pieces(walk, operand, 0), ceil(row_bytes / shortest))
    return stated.swept_ns * rows_of(walk, operand) * pieces


def _pieces(walk: Walk, operand: TileOperand, swept_count: int) -> int:
    """Return how often each row is begun: loops along rows go on with them while few others come between."""
    if operand.layout.dense_axis not in walk.running:
        return 1
    entries = walk.entries(operand.layout.dense_axis)
    around = [turn for turn in walk.turns if turn.axis == operand.layout.dense_axis]
    if not around:
        return entries
    rows = [
        prod(t.inside[name] for name in operand.axes if name != operand.layout.dense_axis) for t in around
    ]
    if rows[-1] > swept_count:
        return entries
    return prod(turn.trips for turn, between in zip(around, rows, strict=True) if between > swept_count)


def _unfollowed(walk: Walk, operand: TileOperand, stated: RowTimes, tlb: Tlb) -> float:
    """Return what pieces take, each in full, of rows of a sum on more than half of the pages translated at once."""
    summed = [axis.name for axis in walk.option.axes if axis.is_reduction]
    if not tlb.count or operand.layout.dense_axis not in walk.running or operand.layout.dense_axis in summed:
        return 0.0
    followed = max(stated.swept_count, tlb.count // 2 * max(1, tlb.page_bytes // operand.layout.pitch_bytes))
    return stated.start_ns * _rows_apart(walk, operand, tlb) * _pieces(walk, operand, followed)


def _rows_apart(walk: Walk, operand: TileOperand, tlb: Tlb) -> int:
    """Of rows on one page the first is begun, and the others are near."""
    return ceil(rows_of(walk, operand) / max(1, tlb.page_bytes // operand.layout.pitch_bytes))


def _copied_pieces(walk: Walk, operand: TileOperand) -> int:
    """Return how often copies begin each row, a few rows at a time: once for each part; 0 of what is not copied."""
    if operand.name not in walk.stages:
        return 0
    around = walk.turns[: walk.depths[operand.name]] if walk.stages[operand.name] == 1 else ()
    return prod(turn.trips for turn in around if turn.axis == operand.layout.dense_axis)


def copies_begun(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """To begin pieces of rows that copies come back to, two at a time: where tiles have many rows, once for
    the columns of each register block, by rows once for each part, which counts elsewhere out of memory.
    """
    homes = [n for n, cache in enumerate(problem.caches) if holds_all(walk, [cache])]
    home = homes[0] if homes else len(problem.caches)
    along = [a for a in walk.option.axes if a.name == operand.layout.dense_axis and not a.is_reduction]
    is_apart = (
        operand.is_accumulator
        or operand.staging.is_packed
        or operand.staging.homes[0]
        or operand.layout.subscripts
    )
    has_rows = operand.layout.pitch_bytes and operand.layout.dense_axis in walk.running and along
    if home == 0 or is_apart or not has_rows or operand.tile_elements * operand.staging.staged_bytes < 512:
        return 0.0
    is_far = home == len(problem.caches)
    if is_far and operand.name in walk.by_rows:
        return 0.0
    stated = problem.memory_rows if is_far else problem.caches[home].rows
    in_order = walk.entries(operand.layout.dense_axis)
    pieces = _copied_pieces(walk, operand) if operand.name in walk.by_rows else in_order
    line = min((c.line_bytes for c in problem.caches if c.line_bytes), default=64)
    pieces = min(pieces, ceil(along[0].extent * operand.layout.tensor_bytes / line))
    return (
        stated.start_ns / problem.model.copied_rows_count * _rows_apart(walk, operand, problem.tlb) * pieces
    )


def results_begun(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """To begin pieces of rows of results each time that they come from afar, which nothing hides."""
    if (
        not operand.layout.dense_axis
        or not operand.layout.pitch_bytes
        or operand.layout.subscripts
        or operand.staging.homes[0]
    ):
        return 0.0
    behind = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]
    found = nearer_ns = 0.0
    for level, stated in enumerate(behind[: len(problem.caches)]):
        if holds_all(walk, problem.caches[: level + 1]) or stated.start_ns <= nearer_ns:
            continue
        is_copied = operand.name in walk.stages  # once: its buffer is one run of lines
        own = _pieces(walk, operand, stated.swept_count)
        extent = next(axis.extent for axis in walk.option.axes if axis.name == operand.layout.dense_axis)
        line = problem.caches[-1].line_bytes
        if line and _runs(walk, operand, problem) == 1:
            own = min(own, ceil(extent * operand.layout.tensor_bytes / line))
        pieces = _copied_pieces(walk, operand) if _in_parts(walk, operand) else own
        times = 1 if is_copied else times_loaded(walk, operand, problem.caches[: level + 1])
        found += (stated.start_ns - nearer_ns) * _rows_apart(walk, operand, problem.tlb) * pieces * times
        nearer_ns = stated.start_ns
    # Copies of more than register blocks go along rows from line to line.
    return found if _in_parts(walk, operand) else found + _results_late(walk, operand, problem)


def _in_parts(walk: Walk, operand: TileOperand) -> bool:
    """Return whether an operand is copied, and in larger parts than those of register blocks."""
    return operand.name in walk.stages and walk.depths[operand.name] < len(walk.turns)


def _results_late(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return each line of results in place is late, and again where a piece begins in it while it is not near."""
    line, dense = problem.caches[-1].line_bytes if problem.caches else 0, operand.layout.dense_axis
    if not line:
        return 0.0
    axis = next(axis for axis in walk.option.axes if axis.name == dense)
    covered = walk.held[dense] if dense in walk.running else axis.extent
    piece = ceil(covered / axis.tile) * axis.tile
    within = 1 - gcd(piece * operand.layout.tensor_bytes, operand.layout.pitch_bytes, line) / line
    found = nearer_ns = 0.0
    for level, stated in enumerate([*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]):
        measured = stated.start_bytes or line
        line_ns = stated.swept_ns / (1 + (measured - gcd(measured, line)) / line)
        if not holds_all(walk, problem.caches[: level + 1]) and line_ns > nearer_ns:
            is_copied = operand.name in walk.stages
            times = 1 if is_copied else times_loaded(walk, operand, problem.caches[: level + 1])
            taken = axis.extent * operand.layout.tensor_bytes / line + within * _runs(walk, operand, problem)
            found += (line_ns - nearer_ns) * taken * rows_of(walk, operand) * times
            nearer_ns = line_ns
    return found


def _runs(walk: Walk, operand: TileOperand, problem: Problem) -> int:
    """In how many runs pieces of a row come, within which the line between two stays in a near cache."""
    if operand.layout.dense_axis not in walk.running:
        return 1
    own = [turn for turn in walk.turns if turn.axis == operand.layout.dense_axis]
    if own and not _is_near(walk, operand, problem, own[-1]):
        return walk.entries(operand.layout.dense_axis)
    return prod(turn.trips for turn in own if not _is_near(walk, operand, problem, turn))


def _is_near(walk: Walk, operand: TileOperand, problem: Problem, turn: Turn) -> bool:
    """Return whether a cache before the last holds what an iteration touches, all rows of the operand among it."""
    cache = problem.caches[-2:][0]
    held = tensor_rows_held(walk, operand, cache)
    rows = prod(turn.inside[name] for name in operand.axes if name != operand.layout.dense_axis)
    has_room = touched_bytes(walk, turn.inside) <= room(cache)
    return has_room and not (held and rows > held)


def shared_lines(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Lines of a row that copies take twice: parts of one, two or four register blocks end in them."""
    line, dense = problem.caches[-1].line_bytes if problem.caches else 0, operand.layout.dense_axis
    sums = {axis.name for axis in walk.option.axes if axis.is_reduction}
    known = line and operand.layout.pitch_bytes and not (operand.is_accumulator or operand.layout.subscripts)
    if not known or dense in sums or dense not in walk.running:
        return 0.0
    own = [turn for turn in walk.turns[: walk.depths[operand.name]] if turn.axis == dense and turn.trips > 1]
    if not own or _is_near(walk, operand, problem, own[0]):
        return 0.0
    axis = next(axis for axis in walk.option.axes if axis.name == dense)
    step = ceil(walk.held[dense] / axis.tile) * axis.tile
    parts = own[0].trips
    blocks = 1
    while blocks < 4 and parts <= ceil(axis.extent / (2 * blocks * step)):
        blocks *= 2
    return parts * (
        1 - gcd(blocks * step * operand.layout.tensor_bytes, operand.layout.pitch_bytes, line) / line
    )


def again_begun(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """To come back to rows along a sum, read in place, that a cache near the processor has lost."""
    known = (
        operand.layout.dense_axis
        and operand.layout.pitch_bytes
        and not operand.layout.subscripts
        and not operand.prefetching.is_streamed
    )
    summed = any(axis.is_reduction and axis.name == operand.layout.dense_axis for axis in walk.option.axes)
    behind = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]
    stated = [(n, r) for n, r in enumerate(behind, 1) if r.again_ns > 0]
    if not stated or not known or not summed or holds_all(walk, problem.caches[: stated[0][0]]):
        return 0.0
    count, rows = stated[0]
    visits = times_loaded(walk, operand, problem.caches[:count]) * _pieces(walk, operand, rows.swept_count)
    run = _run(walk, operand, problem) if _pieces(walk, operand, rows.swept_count) == 1 else 1
    return rows.again_ns * ceil(rows_of(walk, operand) / run) * visits if visits > 1 else 0.0


def pages(walk: Walk, operand: TileOperand, tlb: Tlb) -> float:
    """Visits to pages, where a register block goes through more of them than are known at a time."""
    if not operand.layout.dense_axis or not operand.layout.pitch_bytes or operand.layout.subscripts:
        return 0.0
    rows = [name for name in operand.axes if name != operand.layout.dense_axis]
    on_a_page = max(1, tlb.page_bytes // operand.layout.pitch_bytes)
    if prod(walk.held[name] for name in rows) <= tlb.count * on_a_page:
        return 0.0
    others = [walk.entries(name) for name in walk.running if name not in rows]
    return tlb.miss_ns * rows_of(walk, operand) / on_a_page * prod(others)
