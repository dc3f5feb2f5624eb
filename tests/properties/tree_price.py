"""What the analytic model says of a nest, computed from its loops alone.

Written after what the model says of itself and docs/threads.md; it shares no code with it, no expression, and
knows no decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import ceil, gcd, prod

from properties.exhaustive_ways import dealing_ns, seen_by_a_part, sized_as_a_part
from properties.tree_caches import (
    USABLE,
    bandwidth_behind,
    crowded_ns,
    direct_bytes,
    holds_all,
    missed_ns,
    rows_of,
    shown_ns,
    tensor_rows_held,
    times_loaded,
    touched_bytes,
)
from properties.tree_walk import Walk, walked

from isamap.machine.timings import LoopTimes, RowTimes, Tlb
from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.plan.schedule import NestSchedule

LEAK, STREAM_LEAK = 0.1, 0.06


def tree_ns(problem: Problem, option: NestOption, nest: NestSchedule) -> float:
    """Nanoseconds of a nest, with what it takes along."""
    steps = {loop.axis: loop.step for loop in nest.loops[: nest.parallel]}
    own = sized_as_a_part(option, steps) if steps else option
    walk = walked(own, nest)
    threads = prod(count for _, count in own.parts)
    one = _nest_ns(walk, seen_by_a_part(problem, own) if steps else problem)
    begun = dealing_ns(problem, own, {o.name: walk.stages.get(o.name, 0) for o in own.operands})
    fused = sum(f.extra_ns for f in own.fusions if f.statement in nest.fused)
    return -(-threads // problem.threads) * one + begun + fused


# --- what it takes ----------------------------------------------------------------------------------------


def _nest_ns(walk: Walk, problem: Problem) -> float:
    option = walk.option
    inputs = [o for o in option.operands if not o.is_accumulator]
    held = [o for o in option.operands if o.is_accumulator]
    sums, loops = _summing(walk, problem.loops)
    computing = prod(ceil(a.extent / a.tile) for a in option.axes) * option.interval_ns
    loads = sum(
        _issues(option, o) * _tile_ns(walk, o) * prod(walk.steps(x) for x in walk.running if x not in o.axes)
        for o in inputs
    )
    traffic = [
        [missed_ns(walk, o, problem, level) + _starts(walk, o, problem, level) for o in option.operands]
        for level in range(len(problem.caches))
        if not holds_all(walk, problem.caches[: level + 1])
    ]
    rows = _beside_rows(walk, problem) if traffic else 0.0
    engines = [
        sum(_beside(walk, o) for o in option.operands if o.mover == unit)
        for unit in {o.mover for o in option.operands if o.mover}
    ]
    return (
        max(
            [
                sums,
                computing + shown_ns(walk, problem),
                loads,
                *map(sum, traffic),
                _one_after_another(walk, problem),
                *engines,
                rows,
            ]
        )
        + LEAK * (loads + sum(engines))
        + sum(
            (LEAK if o.is_accumulator else STREAM_LEAK) * ns
            for costs in traffic
            for o, ns in zip(option.operands, costs, strict=True)
        )
        + loops
        + sum(_held(walk, o) for o in held)
        + sum(_copied(walk, o, problem) for o in option.operands if o.name in walk.stages)
        + sum(_pages(walk, o, problem.tlb) for o in inputs if o.name not in walk.stages)
        + sum(_again_begun(walk, o, problem) for o in inputs if o.name not in walk.stages)
        + sum(_results_begun(walk, o, problem) for o in held)
        + crowded_ns(walk, problem)
    )


def _beside_rows(walk: Walk, problem: Problem) -> float:
    """What comes across sums out of a level and those behind that hide no better, and what shows beside."""
    summed = [axis.name for axis in walk.option.axes if axis.is_reduction]
    across = [o for o in walk.option.operands if not o.is_accumulator and o.dense_axis not in summed]
    levels = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])]
    behind = [*(cache.rows for cache in problem.caches), problem.memory_rows][1:]
    return max(
        (
            _of_pieces(walk, problem, across, [n for n in levels if behind[n].computing_factor >= factor])
            + factor * _summing(walk, problem.loops)[0]
            for factor in {behind[n].computing_factor for n in levels}
            if factor and across
        ),
        default=0.0,
    )


def _of_pieces(walk: Walk, problem: Problem, across: list[TileOperand], levels: list[int]) -> float:
    found = before = 0.0
    far = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])][-1]
    for level in levels:
        share = max(0.0, 1 - bandwidth_behind(problem, level) / before) if before else 1.0
        before = bandwidth_behind(problem, level)
        for operand in across:
            staged = operand.name in walk.stages
            if not staged:
                found += share * missed_ns(walk, operand, problem, level)
            if level == far or not staged:
                found += _starts(walk, operand, problem, level)
    return found


def _one_after_another(walk: Walk, problem: Problem) -> float:
    """All transfers: of each level what it takes longer than the bandwidth of the level before it would."""
    found = before = 0.0
    for level in range(len(problem.caches)):
        if holds_all(walk, problem.caches[: level + 1]):
            continue
        share = max(0.0, 1 - bandwidth_behind(problem, level) / before) if before else 1.0
        before = bandwidth_behind(problem, level)
        for operand in walk.option.operands:
            found += share * missed_ns(walk, operand, problem, level) + _starts(walk, operand, problem, level)
    return found


def _summing(walk: Walk, stated: LoopTimes) -> tuple[float, float]:
    """Of each register block, cut ones too, the longest of sums, chains and loads; and its loops."""
    option = walk.option
    outputs = [a for a in option.axes if not a.is_reduction and a.name in walk.running]
    summed = [a for a in option.axes if a.is_reduction]
    issues = prod(ceil(a.extent / a.tile) for a in summed)
    chain = option.latency_ns if any(a.name in walk.running for a in summed) else 0.0
    spans: list[list[int]] = []
    for axis in outputs:
        count, factor = ceil(axis.extent / axis.tile), walk.held[axis.name] // axis.tile
        spans.append([min(factor, count - at) for at in range(0, count, factor)])
    sums = loops = 0.0
    for sizes in product(*spans):
        block = dict(zip((axis.name for axis in outputs), sizes, strict=True))
        loads = sum(_block_loads(walk, o, block, stated) for o in option.operands if not o.is_accumulator)
        sums += issues * max(option.interval_ns * prod(sizes), chain, loads)
        loops += stated.turn_ns * issues
        if walk.copies > 1:
            along = next(a for a in summed if a.name == walk.copied)
            own = ceil(along.extent / along.tile)
            loops += stated.turn_ns * (issues // own * ceil(own / walk.copies) - issues)
            loops += issues * (stated.unrolled_ns + stated.unrolled_issue_ns * prod(sizes))
    return sums, loops


def _block_loads(walk: Walk, operand: TileOperand, block: Mapping[str, int], stated: LoopTimes) -> float:
    """The tiles of an input, and the addresses of rows read in place."""
    found = _tile_ns(walk, operand) * prod(n for name, n in block.items() if name in operand.axes)
    known = operand.dense_axis and operand.pitch_bytes and not operand.subscripts
    rows = prod(n for name, n in block.items() if name in operand.axes and name != operand.dense_axis)
    return found + (
        stated.address_ns * rows if known and rows > 1 and operand.name not in walk.stages else 0.0
    )


def _issues(option: NestOption, operand: TileOperand) -> int:
    return prod(ceil(axis.extent / axis.tile) for axis in option.axes if axis.name in operand.axes)


def _tile_ns(walk: Walk, operand: TileOperand) -> float:
    ns = operand.staged_ns if operand.name in walk.stages else operand.direct_ns
    assert ns is not None, "the judge has seen that it can be so"
    return ns


def _held(walk: Walk, operand: TileOperand) -> float:
    others = [name for name in walk.running if name not in operand.axes]
    moved = _issues(walk.option, operand) * _tile_ns(walk, operand) * prod(map(walk.entries, others))
    ends = walk.option.latency_ns * prod(map(walk.entries, walk.running)) if others else 0.0
    return moved + ends


def _starts(walk: Walk, operand: TileOperand, problem: Problem, level: int) -> float:
    """To begin each row read in place, out of where all tensors are."""
    homes = [n for n, cache in enumerate(problem.caches) if holds_all(walk, [cache])]
    home = homes[0] if homes else len(problem.caches)
    known = operand.dense_axis and operand.pitch_bytes and not operand.subscripts
    is_near_copy = operand.name in walk.stages and home < len(problem.caches)
    if level + 1 != home or not known or is_near_copy or operand.packed or operand.is_accumulator:
        return 0.0
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    far = problem.memory_rows
    stated = far if home == len(problem.caches) else problem.caches[home].rows
    pieces = [_copied_pieces(walk, operand) or _pieces(walk, operand, stated.swept_count)]
    in_short_ones = ceil(extents[operand.dense_axis] / max(1, far.short_bytes // operand.tensor_bytes))
    is_short = far.short_bytes > 0 and prod(pieces) >= in_short_ones
    counted = prod(pieces)
    if stated.start_bytes:
        counted = min(counted, ceil(extents[operand.dense_axis] * operand.tensor_bytes / stated.start_bytes))
    begun = stated.start_ns * rows_of(walk, operand) * counted
    if home < len(problem.caches):
        begun = stated.start_ns * _rows_apart(walk, operand, problem.tlb) * counted
    if home == len(problem.caches) and is_short:
        begun = far.short_start_ns * rows_of(walk, operand) * prod(pieces)
    summed = [axis.name for axis in walk.option.axes if axis.is_reduction]
    across = operand.dense_axis in walk.running and operand.dense_axis not in summed
    if across and operand.name not in walk.stages:
        begun += _late(walk, operand, stated, problem.caches[-1].line_bytes)
    beside = prod(walk.held[name] for name in walk.running if name in operand.axes and name not in summed)
    in_place = operand.dense_axis in summed and operand.name not in walk.stages
    line = problem.caches[-1].line_bytes
    if home == len(problem.caches) and in_place and line and 0 < far.followed_count < beside:
        lines = ceil(extents[operand.dense_axis] * operand.tensor_bytes / line)
        begun += far.late_line_ns * rows_of(walk, operand) * lines
    return begun


def _late(walk: Walk, operand: TileOperand, stated: RowTimes, line_bytes: int) -> float:
    """What all pieces of rows take, followed or not, that nobody hints at: a line comes late but once."""
    along = next(axis for axis in walk.option.axes if axis.name == operand.dense_axis)
    row_bytes = along.extent * operand.tensor_bytes
    shortest = max(line_bytes, stated.start_bytes, 1)
    pieces = min(_pieces(walk, operand, 0), ceil(row_bytes / shortest))
    return stated.swept_ns * rows_of(walk, operand) * pieces


def _pieces(walk: Walk, operand: TileOperand, swept_count: int) -> int:
    """How often each row is begun: loops along rows go on with them while few others come between."""
    if operand.dense_axis not in walk.running:
        return 1
    entries = walk.entries(operand.dense_axis)
    around = [turn for turn in walk.turns if turn.axis == operand.dense_axis]
    if not around:
        return entries
    rows = [prod(t.inside[name] for name in operand.axes if name != operand.dense_axis) for t in around]
    if rows[-1] > swept_count:
        return entries
    return prod(turn.trips for turn, between in zip(around, rows, strict=True) if between > swept_count)


def _rows_apart(walk: Walk, operand: TileOperand, tlb: Tlb) -> int:
    """Of rows on one page the first is begun, and the others are near."""
    return ceil(rows_of(walk, operand) / max(1, tlb.page_bytes // operand.pitch_bytes))


def _copied_pieces(walk: Walk, operand: TileOperand) -> int:
    """How often copies begin each row, a few rows at a time: once for each part; 0 of what is not copied."""
    if operand.name not in walk.stages:
        return 0
    around = walk.turns[: walk.depths[operand.name]] if walk.stages[operand.name] == 1 else ()
    return prod(turn.trips for turn in around if turn.axis == operand.dense_axis)


def _results_begun(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """To begin pieces of rows of results each time that they come from afar, which nothing hides."""
    if not operand.dense_axis or not operand.pitch_bytes or operand.subscripts or operand.homes[0]:
        return 0.0
    behind = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]
    found = nearer_ns = 0.0
    for level, stated in enumerate(behind[: len(problem.caches)]):
        if holds_all(walk, problem.caches[: level + 1]) or stated.start_ns <= nearer_ns:
            continue
        is_copied = operand.name in walk.stages  # once: its buffer is one run of lines
        own = _pieces(walk, operand, stated.swept_count)
        extent = next(axis.extent for axis in walk.option.axes if axis.name == operand.dense_axis)
        line = problem.caches[-1].line_bytes
        if line and _runs(walk, operand, problem) == 1:
            own = min(own, ceil(extent * operand.tensor_bytes / line))
        pieces = _copied_pieces(walk, operand) if _in_parts(walk, operand) else own
        times = 1 if is_copied else times_loaded(walk, operand, problem.caches[: level + 1])
        found += (stated.start_ns - nearer_ns) * _rows_apart(walk, operand, problem.tlb) * pieces * times
        nearer_ns = stated.start_ns
    # Copies of more than register blocks go along rows from line to line.
    return found if _in_parts(walk, operand) else found + _results_late(walk, operand, problem)


def _in_parts(walk: Walk, operand: TileOperand) -> bool:
    """Whether an operand is copied, and in larger parts than those of register blocks."""
    return operand.name in walk.stages and walk.depths[operand.name] < len(walk.turns)


def _results_late(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Each line of results in place is late, and again where a piece begins in it while it is not near."""
    line, dense = problem.caches[-1].line_bytes if problem.caches else 0, operand.dense_axis
    if not line:
        return 0.0
    axis = next(axis for axis in walk.option.axes if axis.name == dense)
    piece = walk.held[dense] if dense in walk.running else ceil(axis.extent / axis.tile) * axis.tile
    within = 1 - gcd(piece * operand.tensor_bytes, operand.pitch_bytes, line) / line
    found = nearer_ns = 0.0
    for level, stated in enumerate([*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]):
        measured = stated.start_bytes or line
        line_ns = stated.swept_ns / (1 + (measured - gcd(measured, line)) / line)
        if not holds_all(walk, problem.caches[: level + 1]) and line_ns > nearer_ns:
            is_copied = operand.name in walk.stages
            times = 1 if is_copied else times_loaded(walk, operand, problem.caches[: level + 1])
            taken = axis.extent * operand.tensor_bytes / line + within * _runs(walk, operand, problem)
            found += (line_ns - nearer_ns) * taken * rows_of(walk, operand) * times
            nearer_ns = line_ns
    return found


def _runs(walk: Walk, operand: TileOperand, problem: Problem) -> int:
    """In how many runs pieces of a row come, within which the line between two stays in a near cache."""
    if operand.dense_axis not in walk.running:
        return 1
    cache = problem.caches[-2:][0]
    held, found = tensor_rows_held(walk, operand, cache), 1
    own = [turn for turn in walk.turns if turn.axis == operand.dense_axis]
    for turn in own:
        rows = prod(turn.inside[name] for name in operand.axes if name != operand.dense_axis)
        is_near = touched_bytes(walk, turn.inside) <= int(cache.capacity_bytes * USABLE)
        if not is_near or (held and rows > held):
            found *= turn.trips
    return found


def _again_begun(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """To come back to rows along a sum, read in place, that a cache near the processor has lost."""
    known = operand.dense_axis and operand.pitch_bytes and not operand.subscripts and not operand.streams
    summed = any(axis.is_reduction and axis.name == operand.dense_axis for axis in walk.option.axes)
    behind = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows]
    stated = [(n, r) for n, r in enumerate(behind, 1) if r.again_ns > 0]
    if not stated or not known or not summed or holds_all(walk, problem.caches[: stated[0][0]]):
        return 0.0
    count, rows = stated[0]
    visits = times_loaded(walk, operand, problem.caches[:count]) * _pieces(walk, operand, rows.swept_count)
    return rows.again_ns * rows_of(walk, operand) * visits if visits > 1 else 0.0


def _copied(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """The copies of a staged operand, of sums both ways."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    elements = prod(extents[name] for name in operand.axes)
    once = (2 if operand.is_accumulator else 1) * elements * operand.pack_ns_per_element
    once += _first_reading(walk, operand, problem)
    if walk.stages[operand.name] == 2:
        size = elements * operand.staged_bytes
        near = [c.bandwidth_bytes_per_ns for c in problem.caches if size <= int(c.capacity_bytes * USABLE)]
        moved = 2 * size / (near[0] if near else problem.memory_bandwidth_bytes_per_ns)
        shared = prod(count for name, count in walk.option.parts if name not in operand.axes)
        return (once + moved) / shared
    again = _again(walk, operand)
    out = _out_and_back(walk, operand, problem)
    if operand.name not in walk.crossed:
        return (once + out) * again
    if not operand.mover:
        return (once + out) * again + problem.loops.share_ns * _register_blocks(walk)
    around = walk.turns[: walk.depths[operand.name]]
    covered = walk.held if operand.is_accumulator else around[-1].inside
    waits = prod(covered[name] for name in operand.axes) * prod(turn.trips for turn in around[:-1])
    before = max(0.0, once - elements * operand.moved_ns_per_element) if operand.is_accumulator else 0.0
    return before + operand.moved_ns_per_element * waits + problem.loops.turn_ns * _register_blocks(walk)


def _first_reading(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """What the copies of an input read, at the bandwidth of where all tensors lie; of results both ways."""
    far = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])]
    dealt = [name for name, _ in walk.option.parts]
    is_apart = operand.is_accumulator and any(a.is_reduction and a.name in dealt for a in walk.option.axes)
    if is_apart or operand.homes[0] or not far:
        return 0.0
    whole = {axis.name: axis.extent for axis in walk.option.axes}
    ways = 2 if operand.is_accumulator else 1
    return ways * direct_bytes(operand, whole) / bandwidth_behind(problem, far[-1])


def _out_and_back(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """What blocks that do not stay in the second cache move, once for each element and way."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    depth = walk.depths[operand.name]
    inside = walk.turns[depth - 1].inside if depth else extents
    size = operand.staged_bytes * prod(inside[name] for name in operand.axes)
    if operand.homes[0] or not problem.caches:
        return 0.0
    if operand.is_accumulator:
        dealt = [name for name, _ in walk.option.parts]
        if depth == len(walk.turns) or any(a.is_reduction and a.name in dealt for a in walk.option.axes):
            return 0.0
        size = touched_bytes(walk, inside)
    rooms = [size <= int(c.capacity_bytes * USABLE) for c in problem.caches]
    if any(rooms[:2]):
        return 0.0
    speeds = [c.bandwidth_bytes_per_ns for c, fits in zip(problem.caches, rooms, strict=True) if fits]
    bandwidth = speeds[0] if speeds else problem.memory_bandwidth_bytes_per_ns
    return 2 * operand.staged_bytes * prod(extents[name] for name in operand.axes) / bandwidth


def _again(walk: Walk, operand: TileOperand) -> int:
    """A copy inside a loop that the operand does not follow is made again."""
    return prod(t.trips for t in walk.turns[: walk.depths[operand.name]] if t.axis not in operand.axes)


def _register_blocks(walk: Walk) -> int:
    return prod(walk.entries(name) for name in walk.running)


def _beside(walk: Walk, operand: TileOperand) -> float:
    """What an engine moves while others compute."""
    if operand.name not in walk.crossed:
        return 0.0
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    elements = prod(extents[name] for name in operand.axes)
    return elements * operand.moved_ns_per_element * _again(walk, operand)


def _pages(walk: Walk, operand: TileOperand, tlb: Tlb) -> float:
    """Visits to pages, where a register block goes through more of them than are known at a time."""
    if not operand.dense_axis or not operand.pitch_bytes or operand.subscripts:
        return 0.0
    rows = [name for name in operand.axes if name != operand.dense_axis]
    on_a_page = max(1, tlb.page_bytes // operand.pitch_bytes)
    if prod(walk.held[name] for name in rows) <= tlb.count * on_a_page:
        return 0.0
    others = [walk.entries(name) for name in walk.running if name not in rows]
    return tlb.miss_ns * rows_of(walk, operand) / on_a_page * prod(others)
