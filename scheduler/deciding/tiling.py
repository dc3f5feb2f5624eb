"""The loops of one option as cost expressions: their iteration counts, and the data that a body touches.

For an axis n of 1024 elements with 16 per issue, `steps` is ceil(1024 / (16 * unroll.n)) and `blocks` is
ceil(1024 / block.n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd, prod

from isamap.plan.cost import Cases, CeilDiv, Const, Cost, Decision, Threshold, evaluate, largest, times, total
from isamap.plan.problem import Cache, TileAxis, TileOperand
from isamap.scheduler.deciding.space import Space, issues_along
from isamap.source.records import dataclass, field

# The model's: pieces of rows that register blocks read, for how near rows may begin. Source: the widest pieces of
# docs/decisions/0025-conflict-misses.md, 256 bytes.
PIECE_LINES = 4


@dataclass(frozen=True, slots=True)
class Tiling:
    """The loops of each axis with several issues. Units: `step` and `block` in elements, the others are counts.

    `step` is what a register block covers, `blocks` how many cache blocks there are, `iterations` the register
    blocks (of a summing axis: issues) in one cache block, `steps` those of the whole axis. `kept` caches the loops.
    """

    space: Space
    step: Mapping[str, Cost]
    block: Mapping[str, Cost]
    blocks: Mapping[str, Cost]
    iterations: Mapping[str, Cost]
    steps: Mapping[str, Cost]
    kept: list[tuple[TilingLoop, ...]] = field(
        init=False, repr=False, compare=False, default_factory=list["tuple[TilingLoop, ...]"]
    )


@dataclass(frozen=True, slots=True)
class TilingLoop:
    """A loop outside `hold`: its axis, its iteration count, and what its body touches and computes.

    Units: `inside` is how far the body moves along each axis, in elements. `body_points` is how many points
    of the iteration space it computes.
    """

    axis: str
    trips: Cost
    inside: Mapping[str, Cost]
    body_bytes: Cost
    body_points: Cost


def tile(space: Space) -> Tiling:
    """Return the tiling of an option."""
    step: dict[str, Cost] = {}
    block: dict[str, Cost] = {}
    blocks: dict[str, Cost] = {}
    iterations: dict[str, Cost] = {}
    steps: dict[str, Cost] = {}
    for axis in space.axes:
        name, extent = axis.name, Const(axis.extent)
        step[name] = Const(axis.tile) if axis.is_reduction else times(axis.tile, Decision(space.unroll(axis)))
        block[name] = Decision(space.block(axis))
        blocks[name] = CeilDiv(extent, block[name])
        iterations[name] = CeilDiv(block[name], step[name])
        steps[name] = CeilDiv(extent, step[name])
    return Tiling(space, step, block, blocks, iterations, steps)


def loops(tiling: Tiling) -> tuple[TilingLoop, ...]:
    """Return all loops outside `hold`, each with the loops inside it under the decided orders."""
    if not tiling.kept:  # many effects ask for them
        tiling.kept.append(_make_loops(tiling))
    return tiling.kept[0]


def _make_loops(tiling: Tiling) -> tuple[TilingLoop, ...]:
    space = tiling.space
    order = {(outer.name, inner.name): name for name, outer, inner in space.order_pairs()}
    sweep = {(outer.name, inner.name): name for name, outer, inner in space.sweep_pairs()}
    whole: dict[str, Cost] = {axis.name: Const(axis.extent) for axis in space.axes}
    found: list[TilingLoop] = []
    for axis in space.axes:
        inside = {
            other.name: tiling.block[other.name]
            if other == axis
            else _choose_by_order(order, axis, other, whole[other.name], tiling.block[other.name])
            for other in space.axes
        }
        found.append(_loop(space, axis.name, tiling.blocks[axis.name], inside))
    for axis in space.register_axes:
        inside = {
            other.name: tiling.block[other.name]
            if other.is_reduction
            else tiling.step[other.name]
            if other == axis
            else _choose_by_order(sweep, axis, other, tiling.block[other.name], tiling.step[other.name])
            for other in space.axes
        }
        found.append(_loop(space, axis.name, tiling.iterations[axis.name], inside))
    return tuple(found)


def _loop(space: Space, axis: str, trips: Cost, inside: Mapping[str, Cost]) -> TilingLoop:
    return TilingLoop(axis, trips, inside, touched_bytes(space, inside), times(*inside.values()))


def _choose_by_order(
    names: Mapping[tuple[str, str], str], outer: TileAxis, inner: TileAxis, within: Cost, beyond: Cost
) -> Cost:
    """Return `within` if the loop of `inner` is decided to be inside that of `outer`, else `beyond`."""
    name = names.get((outer.name, inner.name))
    if name is not None:
        return Cases(name, ((0, beyond), (1, within)))
    return Cases(names[inner.name, outer.name], ((0, within), (1, beyond)))


def touched_bytes(space: Space, extents: Mapping[str, Cost]) -> Cost:
    """Return the bytes of all operands that loops of these extents touch."""
    return total(_footprint_bytes(space, operand, extents) for operand in space.option.operands)


def _footprint_bytes(space: Space, operand: TileOperand, extents: Mapping[str, Cost]) -> Cost:
    """Return the bytes of an operand that loops of these extents touch, in its tensor or in its staging buffer."""
    staged = times(operand.staging.staged_bytes, *(extent_of(space, axis, extents) for axis in operand.axes))
    if (
        operand.layout.tensor_bytes == operand.staging.staged_bytes
        and not operand.layout.subscripts
        and not _in_pieces(space, operand)
    ):
        return staged
    direct = times(operand.layout.tensor_bytes, *_tensor_extents(space, operand, extents))
    return by_stage(space, operand, direct, staged)


def _in_pieces(space: Space, operand: TileOperand) -> bool:
    """Return whether loops may access less than a line of the operand's rows in its tensor."""
    tile = next((a.tile for a in space.option.axes if a.name == operand.layout.dense_axis), 0)
    return 0 < tile * operand.layout.tensor_bytes < operand.layout.least_row_bytes


def whole_bytes(space: Space, operand: TileOperand) -> tuple[int, int]:
    """Return the bytes of an operand in its tensor, and the bytes of all of its staging buffers."""
    known = space.sizes.get(operand.name)
    if known is None or known[0] is not operand:
        staged = times(operand.staging.staged_bytes, *(extent_of(space, axis, {}) for axis in operand.axes))
        direct = times(operand.layout.tensor_bytes, *_tensor_extents(space, operand, {}))
        known = space.sizes[operand.name] = operand, (int(evaluate(direct, {})), int(evaluate(staged, {})))
    return known[1]


def by_stage(space: Space, operand: TileOperand, direct: Cost, staged: Cost) -> Cost:
    """Return `direct` if the operand is read in place, and `staged` if it is read from a buffer."""
    values = space.stage_values(operand)
    if all(value == 0 for value in values):
        return direct
    if 0 not in values:
        return staged
    return Cases(space.stage(operand), ((0, direct), *((value, staged) for value in values if value)))


def extent_of(space: Space, axis: str, extents: Mapping[str, Cost]) -> Cost:
    """Return the elements that loops of these extents cover along an axis. Without decisions it is all of them."""
    if axis in extents:
        return extents[axis]
    return Const(next(a.extent for a in space.option.axes if a.name == axis))


def _tensor_extents(space: Space, operand: TileOperand, extents: Mapping[str, Cost]) -> tuple[Cost, ...]:
    """Return the elements that loops cover along a tensor's axes, with overlapping windows and whole lines."""
    line = Const(operand.layout.least_row_bytes // max(1, operand.layout.tensor_bytes))
    if not operand.layout.subscripts:
        covered = {axis: extent_of(space, axis, extents) for axis in operand.axes}
        if _in_pieces(space, operand) and operand.layout.dense_axis in covered:
            covered[operand.layout.dense_axis] = largest([covered[operand.layout.dense_axis], line])
        return tuple(covered.values())
    found: list[Cost] = []
    for number, subscript in enumerate(operand.layout.subscripts, 1):
        steps = [(axis, abs(coefficient)) for axis, coefficient in subscript]
        if len(steps) == 1 and number < len(operand.layout.subscripts):
            found.append(extent_of(space, steps[0][0], extents))  # the rows between are not touched
            continue
        parts = [times(coefficient, extent_of(space, axis, extents)) for axis, coefficient in steps]
        found.append(total([*parts, Const(1 - sum(coefficient for _, coefficient in steps))]))
    return (*found[:-1], largest([found[-1], line])) if operand.layout.least_row_bytes else tuple(found)


def reloads(
    space: Space, operand: TileOperand, nest: tuple[TilingLoop, ...], caches: Sequence[Cache]
) -> tuple[tuple[Cost, ...], tuple[Cost, ...]]:
    """Return how often loops that do not depend on an operand reload it: factors in place, and staged.

    It does where its body touches more than the cache holds, or takes longer than the cache keeps anything,
    and no cache before it holds and keeps all of that.
    """
    cache = caches[-1]
    around = [loop for loop in nest if loop.axis not in operand.axes]
    staged = tuple(
        Threshold(loop.body_bytes, usable_bytes(cache), _while_kept(space, loop, caches), loop.trips)
        for loop in around
    )
    held = rows_held(operand, cache)
    rows = [axis for axis in operand.axes if axis != operand.layout.dense_axis]
    all_rows = prod(axis.extent for axis in space.option.axes if axis.name in rows)
    if not held or all_rows <= held:
        return staged, staged
    direct = tuple(
        Threshold(times(*(extent_of(space, axis, loop.inside) for axis in rows)), held, kept, loop.trips)
        for loop, kept in zip(around, staged, strict=True)
    )
    return direct, staged


def _while_kept(space: Space, loop: TilingLoop, caches: Sequence[Cache]) -> Cost:
    """Return how often data that fit into the last cache are reloaded, because the cache drops them in time."""
    *nearer, cache = caches
    points = kept_points(space, cache)
    if not points:
        return Const(1)
    late = loop.trips
    longer = [(c, kept_points(space, c)) for c in nearer]
    for other, kept in [(c, kept) for c, kept in longer if not kept or kept > points][-1:]:
        there = Threshold(loop.body_points, kept, Const(1), late) if kept else Const(1)
        late = Threshold(loop.body_bytes, usable_bytes(other), there, late)
    return Threshold(loop.body_points, points, Const(1), late)


def usable_bytes(cache: Cache) -> int:
    """Return the bytes of a cache that working sets may use.

    Of a cache that cores share, it is half as much, because the other cores use their part. Loops that return
    to small data lose almost nothing by this if the other cores are idle
    (docs/decisions/0020-memory-model.md).
    """
    return int(cache.capacity_bytes * cache.usable_factor / (2 if cache.cores > 1 else 1))


def kept_points(space: Space, cache: Cache) -> int:
    """Return the points that are computed before a cache drops a line without access, or 0 if it never does."""
    option = space.option
    issues = prod(issues_along(axis) for axis in option.axes)
    if not cache.kept_ns or issues * option.interval_ns <= cache.kept_ns:
        return 0
    return max(1, int(cache.kept_ns / option.interval_ns)) * prod(axis.tile for axis in space.axes)


def rows_held(operand: TileOperand, cache: Cache) -> int:
    """Return the number of in-place rows that a cache holds before they evict each other, or 0 if unknown.

    Rows whose distance is a multiple of the size of a way all map to the same sets. Rows that miss such a
    distance by little map to neighbouring sets, where as many pieces of rows overlap as the cache has ways.
    """
    if (
        not (cache.ways and operand.layout.dense_axis and operand.layout.pitch_bytes)
        or operand.layout.subscripts
    ):
        return 0
    return rows_apart(operand.layout.pitch_bytes, cache)


def rows_apart(pitch_bytes: int, cache: Cache) -> int:
    """Return how many rows at this pitch can each have one piece in a cache."""
    way_bytes = max(1, cache.capacity_bytes // cache.ways)
    near_bytes = PIECE_LINES * cache.line_bytes // cache.ways
    return cache.ways * _rows_apart(pitch_bytes, way_bytes, near_bytes)


@lru_cache(maxsize=1024)
def _rows_apart(pitch_bytes: int, way_bytes: int, near_bytes: int) -> int:
    """Return the number of rows after which a row maps to the same set, or to one within `near_bytes`."""
    for apart in range(1, way_bytes // gcd(pitch_bytes, way_bytes)):
        beyond = apart * pitch_bytes % way_bytes
        if min(beyond, way_bytes - beyond) <= near_bytes:
            return apart
    return way_bytes // gcd(pitch_bytes, way_bytes)
