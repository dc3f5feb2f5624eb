"""What caches hold and miss of a nest's loops, as `tree_price` counts it, and what shows of it.

Like that, it shares no code with the model, no expression, and knows no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd, prod

from properties.tree_walk import Walk

from isamap.plan.problem import Cache, Problem, TileOperand

USABLE = 0.75


def room(cache: Cache) -> int:
    """Return what loops may come back to; other cores take half of what they share."""
    return int(cache.capacity_bytes * USABLE / (2 if cache.cores > 1 else 1))


def _bytes(walk: Walk, operand: TileOperand, covered: Mapping[str, int]) -> int:
    if operand.name in walk.stages:
        return operand.staging.staged_bytes * prod(covered[name] for name in operand.axes)
    return direct_bytes(operand, covered)


def touched_bytes(walk: Walk, covered: Mapping[str, int]) -> int:
    """Return what is touched where so many elements of each axis are covered."""
    return sum(_bytes(walk, operand, covered) for operand in walk.option.operands)


def direct_bytes(operand: TileOperand, covered: Mapping[str, int]) -> int:
    """Windows that overlap are read once."""
    subscripts = operand.layout.subscripts or tuple(((name, 1),) for name in operand.axes)
    lengths = [1 + sum(abs(c) * (covered[name] - 1) for name, c in subscript) for subscript in subscripts]
    return operand.layout.tensor_bytes * prod(lengths)


def _all_bytes(walk: Walk) -> int:
    whole = {axis.name: axis.extent for axis in walk.option.axes}
    return sum(direct_bytes(operand, whole) for operand in walk.option.operands)


def holds_all(walk: Walk, caches: Sequence[Cache]) -> bool:
    """Return whether one of the caches has room for all tensors, and keeps them while all is computed."""
    whole = {a.name: ceil(a.extent / a.tile) * a.tile for a in walk.option.axes}
    return any(_all_bytes(walk) <= c.capacity_bytes and _kept(walk, c, whole) for c in caches)


def _kept(walk: Walk, cache: Cache, covered: Mapping[str, int]) -> bool:
    """Return whether a cache keeps lines that are not touched while so many elements of each axis are computed."""
    tiles = prod(a.tile for a in walk.option.axes if a.name in covered)
    return prod(covered.values()) <= _keeps(walk, cache) * tiles


def shown_ns(walk: Walk, problem: Problem) -> float:
    """Return what all lines of an input take longer than the issues that a register block has for each."""
    found = [0.0]
    option = walk.option
    tiles = {a.name: a.tile for a in option.axes}
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    for operand in option.operands:
        size = max(operand.staging.staged_bytes, operand.layout.tensor_bytes)
        others = [name for name in walk.running if name not in operand.axes]
        if operand.is_accumulator or operand.prefetching.is_streamed or operand.layout.subscripts or not size:
            continue
        if len(others) > 2 or sums & {*others}:
            continue
        tile = size * prod(tiles[name] for name in operand.axes)
        computed = option.interval_ns * prod(ceil(walk.held[name] / tiles[name]) for name in others) / tile
        ns, before, one = 0.0, 0.0, option.interval_ns / tile
        for level in range(len(problem.caches)):
            byte_ns = 1 / bandwidth_behind(problem, level)
            if holds_all(walk, problem.caches[: level + 1]):
                continue
            streams = problem.memory_streams if level == len(problem.caches) - 1 else None
            hides = 1.0
            if streams is not None and operand.layout.dense_axis in sums and not operand.staging.is_packed:
                rows = streams.row_computing_factor
                hides += streams.computing_factor if rows is None else rows
            if byte_ns <= before or hides * byte_ns <= one:
                continue
            shows = max(0.0, hides * byte_ns - max(before, computed))
            part = min(byte_ns - before, shows) / byte_ns
            ns, before = ns + part * missed_ns(walk, operand, problem, level), byte_ns
        found.append(ns)
    return max(found)


def missed_ns(walk: Walk, operand: TileOperand, problem: Problem, level: int) -> float:
    """Return the operand once, and again for each iteration of a loop it does not follow whose body is too large."""
    whole = {axis.name: axis.extent for axis in walk.option.axes}
    times = times_loaded(walk, operand, problem.caches[: level + 1])
    ways = 2 if operand.is_accumulator else 1
    cache = problem.caches[level]
    again = max(_torn(walk, operand, cache), _torn_by_pieces(walk, operand, cache))
    return ways * _bytes(walk, operand, whole) / bandwidth_behind(problem, level) * times * again


def _torn_by_pieces(walk: Walk, operand: TileOperand, cache: Cache) -> float:
    """Return the same of rows along no sum: for each piece, where the rows or all else in between take its room."""
    axis = next((axis for axis in walk.option.axes if axis.name == operand.layout.dense_axis), None)
    if axis is None or axis.is_reduction or axis.name not in walk.running or operand.name in walk.stages:
        return 1
    if operand.layout.subscripts or axis.tile * operand.layout.tensor_bytes >= cache.line_bytes:
        return 1
    lines = ceil(axis.extent * operand.layout.tensor_bytes / cache.line_bytes)
    most = min(rows_held(walk, operand, cache) or room(cache), room(cache) // cache.line_bytes)
    found = 1.0
    for turn in walk.turns:
        rows = prod(turn.inside[name] for name in operand.axes if name != axis.name)
        if turn.axis == axis.name and (rows > most or touched_bytes(walk, turn.inside) > room(cache)):
            found = max(found, ceil(axis.extent / turn.inside[axis.name]) / lines)
    return found


def _torn(walk: Walk, operand: TileOperand, cache: Cache) -> int:
    """Return how often each line of a row along a sum comes: for each issue that uses it, where too many rows do."""
    axis = next((axis for axis in walk.option.axes if axis.name == operand.layout.dense_axis), None)
    held = rows_held(walk, operand, cache)
    if axis is None or not axis.is_reduction or axis.name not in walk.running or not held:
        return 1
    tiles = {a.name: a.tile for a in walk.option.axes if a.name in walk.running and not a.is_reduction}
    rows = [ceil(walk.held[name] / tiles[name]) * tiles[name] for name in operand.axes if name in tiles]
    if not rows or prod(rows) <= held:
        return 1
    return max(
        1, min(cache.line_bytes // (axis.tile * operand.layout.tensor_bytes), ceil(axis.extent / axis.tile))
    )


def times_loaded(walk: Walk, operand: TileOperand, caches: Sequence[Cache]) -> int:
    """Return how often the last of these caches loads the operand."""
    *nearer, cache = caches
    held = rows_held(walk, operand, cache)
    times = 1
    for turn in walk.turns:
        if turn.axis in operand.axes:
            continue
        body = touched_bytes(walk, turn.inside)
        rows = prod(turn.inside[name] for name in operand.axes if name != operand.layout.dense_axis)
        covered = {name: turn.inside[name] for name in walk.running}
        late = not _kept(walk, cache, covered)
        # The farthest of those before that keep longer may still have it.
        longer = [c for c in nearer if _keeps(walk, c) > _keeps(walk, cache)][-1:]
        near = [c for c in longer if body <= room(c) and _kept(walk, c, covered)]
        if body > room(cache) or (late and not near) or (held and rows > held):
            times *= turn.trips
    return times


def crowded_ns(walk: Walk, problem: Problem) -> float:
    """Register blocks that read pieces where the one before has stored, of more rows than a set holds."""
    stated = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows][0].crowded_ns
    read = [(o.layout.dense_axis, o.layout.pitch_bytes) for o in walk.option.operands if _is_read(walk, o)]
    (result,) = [o for o in walk.option.operands if o.is_accumulator]
    columns = result.layout.dense_axis
    if (result.layout.dense_axis, result.layout.pitch_bytes) not in read or columns not in walk.running:
        return 0.0
    loops = [turn.inside for turn in walk.turns if turn.axis == columns and turn.trips > 1]
    inside = loops[-1] if loops else {axis.name: axis.extent for axis in walk.option.axes}
    rows = [name for name in result.axes if name != columns]
    several = any(inside[name] > walk.held[name] for name in rows if name in walk.running)
    held = rows_held(walk, result, problem.caches[0])
    if not several or not held or prod(inside[name] for name in rows) <= held:
        return 0.0
    return stated * prod(walk.entries(name) for name in walk.running)


def same_sets_ns(walk: Walk, problem: Problem) -> float:
    """Return every piece that a register block reads of inputs whose rows, so many at once, evict each other."""
    piece_ns = [*(cache.rows for cache in problem.caches[1:]), problem.memory_rows][0].crowded_piece_ns
    found = 0.0
    for operand in walk.option.operands:
        held = evicting(walk, operand, problem.caches[0])
        if held:
            others = [n for n in walk.running if n == operand.layout.dense_axis or n not in operand.axes]
            entries = prod(walk.entries(name) for name in others)
            found += piece_ns * problem.caches[0].ways / held * rows_of(walk, operand) * entries
    return found


def evicting(walk: Walk, operand: TileOperand, cache: Cache) -> int:
    """Return how many rows a cache holds of those whose pieces a register block reads; 0: all of them."""
    sums = {axis.name for axis in walk.option.axes if axis.is_reduction}
    if (
        operand.is_accumulator
        or operand.layout.dense_axis in sums
        or operand.layout.dense_axis not in walk.running
    ):
        return 0
    tiles = {axis.name: 1 if axis.is_reduction else axis.tile for axis in walk.option.axes}
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    rows = 1
    for name in operand.axes:
        if name != operand.layout.dense_axis:
            one = walk.held[name] if name in walk.running else extents[name]
            rows *= ceil(one / tiles[name]) * tiles[name] if name in walk.running else one
    held = rows_held(walk, operand, cache)
    return held if cache.line_bytes and not operand.staging.is_packed and rows > held else 0


def _is_read(walk: Walk, operand: TileOperand) -> bool:
    """Return whether pieces of rows of an input are read in place, near enough to wait for."""
    known = operand.layout.dense_axis and operand.layout.pitch_bytes and not operand.layout.subscripts
    return bool(
        known
        and not (operand.is_accumulator or operand.name in walk.stages or operand.prefetching.is_streamed)
    )


def _keeps(walk: Walk, cache: Cache) -> float:
    """For how many issues a cache keeps lines that are not touched; infinite for all of them."""
    every = prod(ceil(a.extent / a.tile) for a in walk.option.axes) * walk.option.interval_ns
    if not cache.kept_ns or every <= cache.kept_ns:
        return float("inf")
    return max(1, int(cache.kept_ns / walk.option.interval_ns))


def bandwidth_behind(problem: Problem, level: int) -> float:
    further = [cache.bandwidth_bytes_per_ns for cache in problem.caches[level + 1 :]]
    return further[0] if further else problem.memory_bandwidth_bytes_per_ns


def rows_held(walk: Walk, operand: TileOperand, cache: Cache) -> int:
    """Rows read in place that a cache holds before they evict each other; 0 where all are."""
    return 0 if operand.name in walk.stages else tensor_rows_held(walk, operand, cache)


def tensor_rows_held(walk: Walk, operand: TileOperand, cache: Cache) -> int:
    """Return the same of rows where they lie, of what is copied, too."""
    if (
        not (cache.ways and operand.layout.dense_axis and operand.layout.pitch_bytes)
        or operand.layout.subscripts
    ):
        return 0
    way = max(1, cache.capacity_bytes // cache.ways)
    # A piece is four lines long: rows that begin within as many lines as ways allow meet in one set.
    near = 4 * cache.line_bytes // cache.ways
    offsets = [
        apart * operand.layout.pitch_bytes % way
        for apart in range(1, way // gcd(operand.layout.pitch_bytes, way))
    ]
    apart = [n for n, at in enumerate(offsets, 1) if at <= near or way - at <= near]
    held = cache.ways * (apart[0] if apart else way // gcd(operand.layout.pitch_bytes, way))
    return held if rows_of(walk, operand) > held else 0


def rows_of(walk: Walk, operand: TileOperand) -> int:
    extents = {axis.name: axis.extent for axis in walk.option.axes}
    return prod(extents[name] for name in operand.axes if name != operand.layout.dense_axis)
