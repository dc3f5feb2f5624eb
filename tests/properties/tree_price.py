"""What the analytic model says of a nest, computed from its loops alone.

Written after what the model says of itself and docs/threads.md; it shares no code with it, no expression, and
knows no decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import ceil, prod

from properties.exhaustive_ways import dealing_ns, seen_by_a_part, sized_as_a_part
from properties.tree_caches import (
    bandwidth_behind,
    crowded_ns,
    direct_bytes,
    evicting,
    holds_all,
    missed_ns,
    room,
    rows_of,
    same_sets_ns,
    shown_ns,
    touched_bytes,
)
from properties.tree_rows import again_begun, copies_begun, pages, results_begun, shared_lines, starts
from properties.tree_walk import Walk, walked

from isamap.machine.timings import LoopTimes
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
    tiles = {
        o.name: _issues(option, o) * prod(walk.steps(x) for x in walk.running if x not in o.axes)
        for o in inputs
    }
    loads = sum(tiles[o.name] * _tile_ns(walk, o) for o in inputs)
    computing += sum(tiles[o.name] * _busy_ns(walk, o) for o in inputs)
    traffic = [
        [missed_ns(walk, o, problem, level) + starts(walk, o, problem, level) for o in option.operands]
        for level in range(len(problem.caches))
        if not holds_all(walk, problem.caches[: level + 1])
    ]
    rows = _beside_rows(walk, problem) if traffic else 0.0
    engines = [
        sum(_beside(walk, o) for o in option.operands if o.staging.mover == unit)
        for unit in {o.staging.mover for o in option.operands if o.staging.mover}
    ]
    beside = sum(_beside_sums(walk, o, problem) for o in inputs)
    return (
        max(
            [
                sums,
                computing + shown_ns(walk, problem),
                loads + beside,
                *map(sum, traffic),
                _one_after_another(walk, problem),
                *engines,
                rows,
                same_sets_ns(walk, problem),
            ]
        )
        + LEAK * (loads + beside + sum(engines))
        + sum(
            (LEAK if o.is_accumulator else STREAM_LEAK) * ns
            for costs in traffic
            for o, ns in zip(option.operands, costs, strict=True)
        )
        + loops
        + sum(_held(walk, o) for o in held)
        + sum(_copied(walk, o, problem) for o in option.operands if o.name in walk.stages)
        + sum(pages(walk, o, problem.tlb) for o in inputs if o.name not in walk.stages)
        + sum(again_begun(walk, o, problem) for o in inputs if o.name not in walk.stages)
        + sum(results_begun(walk, o, problem) for o in held)
        + crowded_ns(walk, problem)
    )


def _beside_rows(walk: Walk, problem: Problem) -> float:
    """Return what comes across sums out of a level and those behind that hide no better, and what shows beside."""
    summed = [axis.name for axis in walk.option.axes if axis.is_reduction]
    across = [o for o in walk.option.operands if not o.is_accumulator and o.layout.dense_axis not in summed]
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
    found = 0.0
    far = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])][-1]
    behind = [*(cache.rows for cache in problem.caches), problem.memory_rows][1:]
    for operand in across:
        shown = lost = shown_before = lost_before = 0.0
        for level in levels:
            factor, bandwidth = behind[level].traffic_factor, bandwidth_behind(problem, level)
            ns = missed_ns(walk, operand, problem, level)
            shown += max(0.0, factor - shown_before * bandwidth) * ns
            lost += max(0.0, 1 - lost_before * bandwidth) * ns
            shown_before, lost_before = factor / bandwidth, 1 / bandwidth
            if level == far or operand.name not in walk.stages:
                found += starts(walk, operand, problem, level)
        if operand.name not in walk.stages:
            is_lost = evicting(walk, operand, problem.caches[0]) and _is_short(walk, operand, problem)
            found += max(shown, lost) if is_lost else shown
    return found


def _is_short(walk: Walk, operand: TileOperand, problem: Problem) -> bool:
    """Return whether a row is read in more pieces than it has lines."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    row_bytes = extents[operand.layout.dense_axis] * operand.layout.tensor_bytes
    return walk.entries(operand.layout.dense_axis) > ceil(row_bytes / problem.caches[0].line_bytes)


def _one_after_another(walk: Walk, problem: Problem) -> float:
    """Return all transfers: of each level what it takes longer than the bandwidth of the level before it would."""
    found = before = 0.0
    for level in range(len(problem.caches)):
        if holds_all(walk, problem.caches[: level + 1]):
            continue
        share = max(0.0, 1 - bandwidth_behind(problem, level) / before) if before else 1.0
        before = bandwidth_behind(problem, level)
        for operand in walk.option.operands:
            found += share * missed_ns(walk, operand, problem, level) + starts(walk, operand, problem, level)
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
        count, factor = ceil(axis.extent / axis.tile), ceil(walk.held[axis.name] / axis.tile)
        spans.append([min(factor, count - at) for at in range(0, count, factor)])
    sums = loops = 0.0
    for sizes in product(*spans):
        block = dict(zip((axis.name for axis in outputs), sizes, strict=True))
        loads = sum(_block_loads(walk, o, block, stated) for o in option.operands if not o.is_accumulator)
        busy = option.interval_ns * prod(sizes) + sum(
            _busy_ns(walk, o) * prod(n for name, n in block.items() if name in o.axes)
            for o in option.operands
            if not o.is_accumulator
        )
        sums += issues * max(busy, chain, loads)
        loops += stated.turn_ns * issues
        if walk.copies > 1:
            along = next(a for a in summed if a.name == walk.copied)
            own = ceil(along.extent / along.tile)
            loops += stated.turn_ns * (issues // own * ceil(own / walk.copies) - issues)
            loops += issues * (stated.unrolled_ns + stated.unrolled_issue_ns * prod(sizes))
    return sums, loops


def _block_loads(walk: Walk, operand: TileOperand, block: Mapping[str, int], stated: LoopTimes) -> float:
    """Return the tiles of an input, and the addresses of rows read in place whose distance the run knows."""
    found = _tile_ns(walk, operand) * prod(n for name, n in block.items() if name in operand.axes)
    is_open = any(axis.is_open for axis in walk.option.axes if axis.name == operand.layout.dense_axis)
    known = is_open and operand.layout.pitch_bytes and not operand.layout.subscripts
    rows = prod(n for name, n in block.items() if name in operand.axes and name != operand.layout.dense_axis)
    return found + (
        stated.address_ns * rows if known and rows > 1 and operand.name not in walk.stages else 0.0
    )


def _issues(option: NestOption, operand: TileOperand) -> int:
    return prod(ceil(axis.extent / axis.tile) for axis in option.axes if axis.name in operand.axes)


def _tile_ns(walk: Walk, operand: TileOperand) -> float:
    ns = operand.costs.staged_ns if operand.name in walk.stages else operand.costs.direct_ns
    assert ns is not None, "the judge has seen that it can be so"
    return ns


def _busy_ns(walk: Walk, operand: TileOperand) -> float:
    """Return what a tile takes the unit that computes."""
    return operand.costs.staged_busy_ns if operand.name in walk.stages else operand.costs.direct_busy_ns


def _held(walk: Walk, operand: TileOperand) -> float:
    others = [name for name in walk.running if name not in operand.axes]
    moved = _issues(walk.option, operand) * _tile_ns(walk, operand) * prod(map(walk.entries, others))
    ends = walk.option.latency_ns * prod(map(walk.entries, walk.running)) if others else 0.0
    return moved + ends


def _copied(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return the copies of a staged operand, of sums both ways, but those that other units make beside the sum."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    elements = prod(extents[name] for name in operand.axes)
    afar = _first_reading(walk, operand, problem)
    once = _once(walk, operand, problem)
    if walk.stages[operand.name] == 2:
        size = elements * operand.staging.staged_bytes
        near = [c.bandwidth_bytes_per_ns for c in problem.caches if size <= room(c)]
        moved = 2 * size / (near[0] if near else problem.memory_bandwidth_bytes_per_ns)
        shared = prod(count for name, count in walk.option.parts if name not in operand.axes)
        return (once + moved + copies_begun(walk, operand, problem)) / (
            shared * operand.staging.iterations_of_copy
        )
    if operand.name not in walk.crossed:
        return _at_once(walk, operand, problem)
    if operand.name in walk.beside and not operand.staging.is_concurrent:
        return _at_once(walk, operand, problem) + _counted(walk, problem)
    if not operand.staging.mover and operand.name not in walk.beside:
        return _at_once(walk, operand, problem) + problem.loops.share_ns * _register_blocks(walk)
    around = walk.turns[: walk.depths[operand.name]]
    covered = _whole_tiles(walk) if operand.is_accumulator else around[-1].inside
    waits = prod(covered[name] for name in operand.axes) * prod(turn.trips for turn in around[:-1])
    if operand.name in walk.beside:
        return (operand.staging.pack_ns_per_element + afar / elements) * waits * _again(walk, operand)
    before = 0.0
    if operand.is_accumulator:  # its way in; the way back crosses iterations
        before = max(0.0, once - afar - elements * operand.staging.moved_ns_per_element) + afar / 2
    return (
        before + operand.staging.moved_ns_per_element * waits + problem.loops.turn_ns * _register_blocks(walk)
    )


def _once(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return one copy of all of an operand, of sums both ways."""
    followed = [axis for axis in walk.option.axes if axis.name in operand.axes]
    tiles = prod(-(-a.extent // a.tile) * a.tile for a in followed)  # instructions fill whole ones
    described = operand.staging.mover or operand.staging.homes[0] not in ("", *problem.private)
    elements = prod(a.extent for a in followed) if described else tiles
    ways = 2 if operand.is_accumulator else 1
    return ways * elements * operand.staging.pack_ns_per_element + _first_reading(walk, operand, problem)


def _at_once(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return the copies block by block."""
    out = _out_and_back(walk, operand, problem) + _shared(walk, operand, problem)
    out += copies_begun(walk, operand, problem)
    return (_once(walk, operand, problem) + out) * _again(walk, operand)


def _counted(walk: Walk, problem: Problem) -> float:
    """Dealing work to each step of the sum."""
    return problem.model.share_turns_count * problem.loops.turn_ns * prod(map(walk.steps, walk.running))


def _beside_sums(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return what other units than the one that sums copy meanwhile."""
    if not operand.staging.is_concurrent or operand.name not in walk.beside:
        return 0.0
    return _at_once(walk, operand, problem) + _counted(walk, problem)


def _whole_tiles(walk: Walk) -> Mapping[str, int]:
    """Return what a register block covers of each axis, what lies beyond the axis's end as well."""
    tiles = {axis.name: axis.tile for axis in walk.option.axes if axis.name in walk.running}
    return {n: ceil(held / tiles[n]) * tiles[n] if n in tiles else held for n, held in walk.held.items()}


def _first_reading(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return what the copies of an input read, at the bandwidth of where all tensors lie; of results both ways.

    What an iteration of ordered loops is the first to use lies farther away, if not all of its array is near.
    """
    far = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])]
    dealt = [name for name, _ in walk.option.parts]
    is_apart = operand.is_accumulator and any(a.is_reduction and a.name in dealt for a in walk.option.axes)
    if is_apart or operand.staging.homes[0]:
        return 0.0
    rooms = [cache.capacity_bytes for cache in problem.caches]
    first_used = [n for n in range(len(rooms)) if operand.staging.fresh_bytes > max(rooms[: n + 1])]
    whole = {axis.name: axis.extent for axis in walk.option.axes}
    moved = (2 if operand.is_accumulator else 1) * direct_bytes(operand, whole)
    return max((moved / bandwidth_behind(problem, n) for n in (*far[-1:], *first_used)), default=0.0)


def _shared(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return the lines that copies of two parts of a row share, out of where all tensors lie."""
    far = [n for n in range(len(problem.caches)) if not holds_all(walk, problem.caches[: n + 1])]
    is_near = holds_all(walk, problem.caches[:-1] or problem.caches)
    if operand.is_accumulator or operand.staging.homes[0] or is_near or not far:
        return 0.0
    line_ns = problem.caches[-1].line_bytes / bandwidth_behind(problem, far[-1])
    return shared_lines(walk, operand, problem) * rows_of(walk, operand) * line_ns


def _out_and_back(walk: Walk, operand: TileOperand, problem: Problem) -> float:
    """Return what blocks that do not stay near move, for each element and way; into the second cache one."""
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    depth = walk.depths[operand.name]
    inside = walk.turns[depth - 1].inside if depth else extents
    size = operand.staging.staged_bytes * prod(inside[name] for name in operand.axes)
    if operand.staging.homes[0] or not problem.caches:
        return 0.0
    if operand.is_accumulator:
        dealt = [name for name, _ in walk.option.parts]
        if depth == len(walk.turns) or any(a.is_reduction and a.name in dealt for a in walk.option.axes):
            return 0.0
        size = touched_bytes(walk, inside)
    elif operand.name in walk.crossed:
        size *= 2
    rooms = [size <= room(c) for c in problem.caches]
    if rooms[0] or (any(rooms[:2]) and operand.is_accumulator):
        return 0.0
    speeds = [c.bandwidth_bytes_per_ns for c, fits in zip(problem.caches, rooms, strict=True) if fits]
    bandwidth = speeds[0] if speeds else problem.memory_bandwidth_bytes_per_ns
    ways = 1 if any(rooms[:2]) else 2
    return ways * operand.staging.staged_bytes * prod(extents[name] for name in operand.axes) / bandwidth


def _again(walk: Walk, operand: TileOperand) -> int:
    """Return a copy inside a loop that the operand does not follow is made again."""
    return prod(t.trips for t in walk.turns[: walk.depths[operand.name]] if t.axis not in operand.axes)


def _register_blocks(walk: Walk) -> int:
    return prod(walk.entries(name) for name in walk.running)


def _beside(walk: Walk, operand: TileOperand) -> float:
    """Return what an engine moves while others compute."""
    if operand.name not in walk.crossed or operand.name in walk.beside:
        return 0.0
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    elements = prod(extents[name] for name in operand.axes)
    return elements * operand.staging.moved_ns_per_element * _again(walk, operand)
