"""Price cache misses. Each line counts with the time of all memory levels that it passes.

    out of l2         10 MB at 249 bytes/ns     of which 6 MB lie in l2
    out of l3          4 MB at  94 bytes/ns     of which 3 MB lie in l3
    out of memory      1 MB at  39 bytes/ns     6 MB / 249 + 3 MB / 94 + 1 MB / 39, at least each level's own

Transfers overlap with computing, but not with each other: a line from memory passes all caches, and a cache
that receives a line does not send one. This is the ECM model of levels that do not overlap. Bandwidths are
those of sequential reads, which include the nearer levels. Data that is read once from memory takes only
memory's time. Validated on 129 products in docs/decisions/0010-order-of-schedules.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, largest, times, total
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.deciding import tiling as tilings
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.space import Space, issues_along
from isamap.scheduler.effects.residence import holds_all, starts
from isamap.scheduler.effects.shared_lines import line_bytes_of, shared_by_copies
from isamap.source.records import dataclass

# --- partial lines --------------------------------------------------------------------------------------

# Price partial cache lines: lines evicted before all their elements are used, and loaded again.
#
#     for m by 1 {              Y[n, m] = X[m, n]: an element of each of 512 rows, which lie 4 KB apart
#       for n by 16 { … }         none of their lines is in the nearest cache when the next m comes
#
# Each of the eight elements of a line of f64 then brings the line, and takes it away. On an Emerald Rapids
# guest 512 × 512 elements so take 3.4 ns each, and 1.0 where blocks of rows are so small that lines stay.
# Pixels two apart of many channels are the same: `X[n, c, 2*p, 2*q]`, one q after the other.
#
# Where it errs: the lines that are written back take as long as those that come.


def partial_lines(tiling: tilings.Tiling, operand: TileOperand, cache: Cache) -> Cost:
    """Return how often a cache loads a line of an operand in place, while loops advance along its rows."""
    space = tiling.space
    if 0 not in space.stage_values(operand):
        return Const(1)
    if operand.layout.subscripts:
        # How often a cache loads each line of windows `2*q + s` that only q moves.
        *others, last = operand.layout.subscripts
        summed = {axis.name for axis in tiling.space.axes if axis.is_reduction}
        moving = [(axis, step) for axis, step in last if axis not in summed]
        elsewhere = {axis for subscript in others for axis, _ in subscript}
        if len(moving) != 1 or moving[0][0] in elsewhere or not operand.layout.pitch_bytes:
            return Const(1)
        ((along, step),) = moving
        return _by_pieces(tiling, operand, along, abs(step), cache)
    if not operand.layout.dense_axis:
        return Const(1)
    if any(axis.is_reduction and axis.name == operand.layout.dense_axis for axis in space.axes):
        # Rows beyond the cache's capacity evict each other.
        held = tilings.rows_held(operand, cache)
        (along,) = (axis for axis in space.axes if axis.name == operand.layout.dense_axis)
        rows = [tiling.step[axis.name] for axis in space.register_axes if axis.name in operand.axes]
        if not held or not rows:
            return Const(1)
        iterations = min(
            cache.line_bytes // max(1, along.tile * operand.layout.tensor_bytes), issues_along(along)
        )
        return Threshold(times(*rows), held, Const(1), Const(max(1, iterations)))
    return _by_pieces(tiling, operand, operand.layout.dense_axis, 1, cache)


def _by_pieces(tiling: tilings.Tiling, operand: TileOperand, along: str, step: int, cache: Cache) -> Cost:
    """Return how often a cache loads a line while loops advance along other axes and may evict it."""
    axis = next((a for a in tiling.space.register_axes if a.name == along), None)
    bytes_apart = step * operand.layout.tensor_bytes
    if axis is None or axis.tile * bytes_apart >= cache.line_bytes:
        return Const(1)
    held, room = tilings.rows_held(operand, cache), tilings.usable_bytes(cache)
    lines = room // cache.line_bytes
    whole = -(-axis.extent * bytes_apart // cache.line_bytes)
    found: Cost = Const(1)
    around, inside = (loop for loop in tilings.loops(tiling) if loop.axis == axis.name)
    for loop, pieces in ((around, tiling.blocks[axis.name]), (inside, tiling.steps[axis.name])):
        rows = [tilings.extent_of(tiling.space, a, loop.inside) for a in operand.axes if a != axis.name]
        each = Threshold(pieces, whole, Const(1), times(1 / whole, pieces))
        gone = Threshold(loop.body_bytes, room, found, each)
        found = Threshold(times(*rows), min(held or lines, lines), gone, each)
    return found


# --- levels ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Misses:
    """The misses of one cache.

    `source` is the memory behind it, and `bandwidth` that memory's. Per operand, `lines` is the time of its
    lines, `begun` the time to start its rows, and `costs` the sum of both. For rows in pieces,
    `computing_factor` is the part of computing that is added, `traffic_factor` the part of the lines' time,
    and `hinted_traffic_factor` that part for hinted pieces. Units: bytes per nanosecond, and nanoseconds.
    """

    source: str
    bandwidth: float
    computing_factor: float
    traffic_factor: float
    hinted_traffic_factor: float
    lines: tuple[Cost, ...]
    begun: tuple[Cost, ...]
    costs: tuple[Cost, ...]


def misses(tiling: tilings.Tiling, problem: Problem) -> tuple[Misses, ...]:
    """Return the misses of each cache that is too small for all tensors, the nearest first."""
    space = tiling.space
    nest = tilings.loops(tiling)
    found: list[Misses] = []
    for level, (source, bandwidth) in enumerate(sources(problem)):
        cache = problem.caches[level]
        nearer, operands = problem.caches[: level + 1], space.option.operands
        lines: list[Cost] = []
        begun: tuple[Cost, ...] = (Const(0),) * len(operands)
        if holds_all(space, nearer):
            fresh_ns = [_fresh_ns(space, operand, nearer, bandwidth) for operand in operands]
            if not any(fresh_ns):
                continue
            lines += map(Const, fresh_ns)
        else:
            for operand in operands:
                loads = tilings.reloads(space, operand, nest, nearer)
                lines.append(
                    _miss_time(space, operand, loads, partial_lines(tiling, operand, cache), bandwidth)
                )
            begun = tuple(starts(tiling, operand, problem, level) for operand in operands)
        costs = tuple(total(pair) for pair in zip(lines, begun, strict=True))
        stated = problem.rows_behind[level]
        factors = stated.computing_factor, stated.traffic_factor, stated.hinted_or_other_traffic_factor
        found.append(Misses(source, bandwidth, *factors, tuple(lines), begun, costs))
    return tuple(found)


def _fresh_ns(space: Space, operand: TileOperand, nearer: Sequence[Cache], bandwidth: float) -> float:
    """Return the load time of data that an iteration of ordered loops uses first. Units: nanoseconds.

    Units: nanoseconds.
    """
    if operand.staging.fresh_bytes <= max(c.capacity_bytes for c in nearer):
        return 0.0
    return (2 if operand.is_accumulator else 1) * tilings.whole_bytes(space, operand)[0] / bandwidth


def sources(problem: Problem) -> tuple[tuple[str, float], ...]:
    """Return the memory that each cache loads from, and its bandwidth. Units: bytes per nanosecond."""
    behind = [(cache.name, cache.bandwidth_bytes_per_ns) for cache in problem.caches[1:]]
    return (*behind, ("memory", problem.memory_bandwidth_bytes_per_ns))[: len(problem.caches)]


def one_after_another(missed: Sequence[Misses]) -> Cost:
    """Return the time of all transfers. Each level adds the time by which it is slower than the level before."""
    each = [
        cost
        for level, share in added_by_levels(missed)
        for cost in (times(share, total(level.lines)), *level.begun)
    ]
    return largest([*(total(level.costs) for level in missed), total(each)])


def added_by_levels(missed: Sequence[Misses]) -> Iterator[tuple[Misses, float]]:
    """Yield each level with the part of its time for a line by which it is slower than the level before."""
    return _add_levels((level, 1.0) for level in missed)


def added_in_pieces(missed: Sequence[Misses], *, hinted: bool = False) -> Iterator[tuple[Misses, float]]:
    """Yield each level with the part of its time that is added to computing on pieces of rows."""
    return _add_levels((m, m.hinted_traffic_factor if hinted else m.traffic_factor) for m in missed)


def _add_levels(missed: Iterable[tuple[Misses, float]]) -> Iterator[tuple[Misses, float]]:
    before_ns = 0.0  # of a byte
    for level, factor in missed:
        yield level, max(0.0, factor - level.bandwidth * before_ns)
        before_ns = factor / level.bandwidth


def copying_afar(tiling: tilings.Tiling, operand: TileOperand, problem: Problem) -> float:
    """Return how long copies read an operand from a distant memory, or write results there, or 0 for the first cache.

    No other work hides these copies, because computing starts after them. An iteration of ordered loops may fit
    into the first cache, and copy what it is the first to use. Units: nanoseconds.
    """
    space = tiling.space
    if operand.staging.homes[0] or (operand.is_accumulator and space.splits_sum):
        return 0.0
    ways = 2 if operand.is_accumulator else 1
    bandwidth = _far_bandwidth(space, problem)
    fresh_ns = (
        _fresh_ns(space, operand, problem.caches[: level + 1], behind)
        for level, (_, behind) in enumerate(sources(problem))
    )
    return max((ways * tilings.whole_bytes(space, operand)[0] / bandwidth if bandwidth else 0.0, *fresh_ns))


def copying_shared(tiling: tilings.Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the load time of lines that copies of an input read twice, because two parts share them.

    Units: nanoseconds.
    """
    space, nearer = tiling.space, problem.caches[:-1] or problem.caches
    if operand.staging.homes[0] or operand.is_accumulator or not nearer or holds_all(space, nearer):
        return Const(0)
    rows = [
        a.extent for a in space.option.axes if a.name in operand.axes and a.name != operand.layout.dense_axis
    ]
    line_ns = line_bytes_of(problem) / _far_bandwidth(space, problem)
    return times(line_ns * prod(rows), shared_by_copies(tiling, operand, problem))


def _far_bandwidth(space: Space, problem: Problem) -> float:
    """Return the bandwidth of the memory that holds all tensors, or 0 for the first cache. Units: bytes per ns."""
    behind = [
        bandwidth
        for level, (_, bandwidth) in enumerate(sources(problem))
        if not holds_all(space, problem.caches[: level + 1])
    ]
    return behind[-1] if behind else 0.0


def _miss_time(
    space: Space,
    operand: TileOperand,
    loads: tuple[tuple[Cost, ...], tuple[Cost, ...]],
    again: Cost,
    bandwidth: float,
) -> Cost:
    """Return the time to load an operand `loads` times, in place or staged, and to store accumulators as often.

    `again` is how often a line read in place is loaded while it is used.
    """
    ways = 2 if operand.is_accumulator else 1
    direct_bytes, staged_bytes = tilings.whole_bytes(space, operand)
    direct = times(ways * direct_bytes / bandwidth, *loads[0], again)
    if direct_bytes == staged_bytes and loads[0] is loads[1] and isinstance(again, Const):
        return direct
    return tilings.by_stage(space, operand, direct, times(ways * staged_bytes / bandwidth, *loads[1]))


# --- fill buffers ---------------------------------------------------------------------------------------

# Price fill buffers: prefetched lines occupy buffers that missing loads need as well.
#
#     for n by 32 {
#       prefetch a ahead 1 into l1;      32 rows of 8 KB, each of whose lines holds one of 16 buffers for 48 ns
#       hold;
#       for k by 128 { … }                 a tile load that misses the nearest cache finds no free buffer
#
# The processor's own prefetcher loads rows along a sum in parallel with the computation. With a hint, each line
# occupies a buffer until it arrives, and the computation waits for its own loads meanwhile:
#
#     time = computing + lines * time of a buffer / buffers
#
# Pieces of rows, which no hardware prefetcher follows, occupy buffers without a hint as well: they cost nothing
# here. Judged by 16 products with AMX and by seven on AVX-512 (docs/decisions/0024-prefetch-hints.md).


def buffers_filled(space: Space, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield, for each input, how long hinted rows along sums occupy all fill buffers. Units: nanoseconds."""
    for position, operand in enumerate(space.option.operands):
        # Of what streams, `streams` says what hints take, unless lines of memory have a time of their own.
        is_said = operand.prefetching.is_streamed and not problem.memory_rows.fill_ns
        if operand.prefetching.hints and in_rows(space.option, operand) and not is_said:
            filled = total(_fill_times(position, missed, problem))
            into = ((value + 1, filled) for value in range(len(operand.prefetching.hints)))
            yield Cases(prefetch_of(space.statement, operand.name), ((0, Const(0)), *into))


def _fill_times(position: int, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield the time of fills for each memory level, each beyond that of the nearer level."""
    near, before_ns = problem.rows_behind[0], 0.0
    for level, rows in zip(missed, problem.rows_behind, strict=False):
        ns = max(0.0, rows.fill_ns - before_ns)
        before_ns = max(before_ns, rows.fill_ns)
        yield times(ns * level.bandwidth / (near.fill_count * problem.line_bytes), level.lines[position])
