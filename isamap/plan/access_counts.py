"""Count reads and writes of each memory level under a loop nest, by a declared convention.

A level that keeps a tile of an operand takes missing elements from the outer level (`fills`) and passes
elements to the inner level (`reads`). It receives partial sums from the inner level (`updates`), and
returns its own to the outer level (`drains`). The count does not walk iterations: the tile along a tensor
axis depends on that axis's own loops alone, so sums over all iterations factor into products of short sums.

Source: the terms are those of Parashar et al., Timeloop, ISPASS 2019, section VI.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, combinations, pairwise, product
from math import ceil, prod
from typing import Any, Literal

import numpy as np

from isamap.ir import Index
from isamap.plan.loop_nest import (
    CountedOperand,
    FusedAccesses,
    FusedRead,
    LoopNest,
    NestFacts,
    NestLoop,
    Subscript,
    axes_of,
    nest_of,
)
from isamap.plan.problem import Energies, NestOption
from isamap.plan.schedule import NestSchedule
from isamap.source import add_up, dataclass, replace

Refill = Literal["entry", "change", "delta"]


@dataclass(frozen=True, slots=True)
class Convention:
    """The convention that defines an access.

    `first_read` charges the first read of a partial sum to which nothing has been added yet; with `partial`, only
    where sums leave a level before they are whole, and come back. `refill` says
    when a level loads its tile: the whole tile each time its place in the nest is entered (`entry`), only
    when the tile changes (`change`), or only the elements that the previous tile did not contain (`delta`:
    a sliding window loads its new edge). `latch` says the same of the datapath, which keeps one issue's
    operands. `shared_port` means that partial sums are read and written through one port, so that the times
    add up.
    """

    name: str
    first_read: bool | Literal["partial"]
    refill: Refill
    latch: Refill
    shared_port: bool


CONVENTIONS = {
    c.name: c
    for c in (
        Convention("isamap", first_read=True, refill="entry", latch="entry", shared_port=False),
        Convention("timeloop", first_read=False, refill="delta", latch="entry", shared_port=False),
        Convention("zigzag", first_read=True, refill="change", latch="change", shared_port=True),
        Convention("zigzag-energy", first_read="partial", refill="change", latch="entry", shared_port=True),
    )
}
"""The conventions: `isamap` counts the accesses of emitted code; the others count as these published models do."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of one level to one operand. Units: elements, with their size at this level in bytes.

    `energy_pj` is the energy of all of them, in picojoules; None if the machine states no energies.
    """

    level: str
    operand: str
    tensor: str
    reads: int
    fills: int
    updates: int
    drains: int
    element_bytes: int = 0
    energy_pj: float | None = None


def count_accesses(nest: LoopNest, convention: Convention) -> tuple[Accesses, ...]:
    """Return the accesses per operand and level, from the backing memory inward."""
    return tuple(found for operand in nest.operands for found in _of_operand(nest, operand, convention))


def count_issues(nest: LoopNest) -> int:
    """Return the number of executions of the innermost loops' body."""
    return prod(len(_ranges(_along(nest.loops, axis), extent)) for axis, extent in nest.axes)


def _of_operand(nest: LoopNest, operand: CountedOperand, convention: Convention) -> Iterator[Accesses]:
    places = range(1, len(operand.keeps) + 1)
    moved = [0, *(_count_moved(nest, operand, position, convention) for position in places)]
    sums = _count_filled(nest, operand, 0, "entry") if operand.role == "update" else 0
    whole = sums
    if convention.refill == "entry" and any(keep.copied for keep in operand.keeps):
        whole = _count_copied(nest, operand, 0, by_tiles=True)
    extents, updated = dict(nest.axes), {a for s in operand.subscripts for a in axes_of(s)}

    def tiles(axis: str) -> int:
        return len(_ranges(_along(nest.loops, axis), extents[axis]))

    reads = (
        [count_fused(read, extents, updated, tiles) for read in operand.fused.reads] if operand.fused else []
    )
    for level in levels_of(operand, moved, sums, whole, reads, first_read=convention.first_read):
        yield Accesses(*level)


def levels_of(
    operand: CountedOperand,
    moved: Sequence[Any],
    sums: Any,
    whole: Any,
    fused_reads: Sequence[tuple[Any, Any]] = (),
    *,
    first_read: bool | Literal["partial"] = True,
) -> Iterator[tuple[str, str, str, Any, Any, Any, Any, int]]:
    """Yield a row of `Accesses` for each level, from the elements that are moved between the levels.

    Fused statements change the first read and the last write of all `sums`, in a buffer of `whole` tiles.
    """
    own = operand.tensor, operand.element_bytes
    fused = operand.fused or FusedAccesses((own,))
    for position, keep in enumerate(operand.keeps):
        outward, inward = moved[position], moved[position + 1]
        reads, fills, updates, drains = inward, outward, inward, outward
        if operand.role == "update":
            spared = fused.begins if position == 0 else fused.begins_inside and position == 1
            if first_read == "partial":  # sums that leave once were whole, and nothing has read them before
                reads, fills = (n * int(n != sums) for n in (reads, fills))
            reads -= (whole if position else sums) * int(spared or not first_read)
            if position == 0:
                updates += sums * (fused.begins_outside - (own not in fused.results))
            elif position == 1:
                fills -= sums * int(fused.begins_inside)
                updates -= whole * int(fused.ends_inside)
                drains += sums * (len(fused.results) * (not fused.ends_inside) - 1)
        if operand.role == "write":
            reads = fills = 0 * inward
        elif operand.role == "read":
            updates = drains = 0 * inward
        each = operand.kept_bytes if position else operand.element_bytes
        yield keep.level, operand.name, operand.tensor, reads, fills, updates, drains, each
        if position or operand.role != "update":
            continue
        none = 0 * sums
        for (tensor, size), memory in zip(
            fused.results, fused.through or ("",) * len(fused.results), strict=True
        ):
            if tensor != operand.tensor:
                yield keep.level, operand.name, tensor, none, none, sums, none, size
            if memory:
                yield memory, operand.name, tensor, none, none, sums, sums, size
        for read, (loaded, used) in zip(fused.reads, fused_reads, strict=True):
            yield keep.level, operand.name, read.tensor, loaded, none, none, none, read.element_bytes
            if read.memory:
                yield read.memory, operand.name, read.tensor, used, loaded, none, none, read.element_bytes


def count_fused(
    read: FusedRead, extents: Mapping[str, Any], updated: Collection[str], tiles: Callable[[str], Any]
) -> tuple[Any, Any]:
    """Return the elements that a fused statement's read loads, and the elements that all tiles use."""
    loaded = prod((extents[axis] for axis in read.axes), start=1)
    used = loaded * prod((tiles(axis) for axis in updated if axis not in read.axes), start=1)
    return loaded if read.kept else used, used


def _count_moved(nest: LoopNest, operand: CountedOperand, position: int, convention: Convention) -> int:
    """Return the elements that an operand's level at `position`, or the datapath, loads."""
    keeps, is_emitted = operand.keeps, convention.refill == "entry"
    keep = keeps[position] if position < len(keeps) else None
    depth, refill = (len(nest.loops), convention.latch) if keep is None else (keep.depth, convention.refill)
    if is_emitted and any(outer.copied for outer in keeps[: position + 1]):
        return _count_copied(nest, operand, depth, by_tiles=keep is None or not keep.copied)
    is_brought = position == 1 if keep is None else keep.loaded
    if not (is_emitted and refill == "entry" and is_brought):
        return _count_filled(nest, operand, depth, refill)
    return _count_brought(nest, operand, depth)


def powerset(axes: frozenset[str]) -> Iterator[frozenset[str]]:
    """Return all sets of some of the axes."""
    return map(frozenset, chain.from_iterable(combinations(axes, n) for n in range(len(axes) + 1)))


def _count_brought(nest: LoopNest, operand: CountedOperand, depth: int) -> int:
    """Return the elements that issues inside `depth` loops load. Issues share tiles, except gathered ones."""
    ends, every = operand.gathered
    outer, inner = nest.loops[:depth], nest.loops[depth:]
    tiles = {loop.axis: loop.step for loop in nest.loops}

    def lies(axis: str, place: Range, shorts: Sequence[frozenset[str]]) -> bool:
        """Return whether a tile of an axis is short exactly if `short` has the axis, for one of `shorts`."""
        return axis not in ends or any((place[1] < tiles[axis]) == (axis in short) for short in shorts)

    total = 0
    for one in every:
        groups, count = dict(one.groups), 1
        for axis, extent in nest.axes:
            places = _ranges(_along(nest.loops if axis in one.apart else outer, axis), extent)
            here = [length for at, length in places if lies(axis, (at, length), (one.short,))]
            count *= sum(length // groups[axis] for length in here) if axis in groups else len(here)
        total += count
    used = {axis for subscript in operand.subscripts for axis in axes_of(subscript)}
    shared: dict[frozenset[str], list[frozenset[str]]] = {}
    for short in powerset(ends):
        if all(short != one.short for one in every):
            shared.setdefault(short & used, []).append(short)
    return total + sum(
        prod(
            sum(
                _count_loaded(part, inner, around, partial(lies, shorts=shorts))
                for around in _configurations(part, outer)
            )
            for part in _parts(nest, operand)
        )
        for shorts in shared.values()
    )


def _count_loaded(
    part: _Part, inside: tuple[NestLoop, ...], around: tuple[Range, ...], fits: Callable[[str, Range], bool]
) -> int:
    """Return the number of distinct elements in the fitting tiles of the loops `inside`, within ranges of axes."""
    pieces = (
        [piece for piece in _pieces([place], _along(inside, axis)) if fits(axis, piece)]
        for place, (axis, _) in zip(around, part.axes, strict=True)
    )
    return sum(map(len, {_tile(part, ranges) for ranges in product(*pieces)}))


def _count_copied(nest: LoopNest, operand: CountedOperand, depth: int, *, by_tiles: bool) -> int:
    """Return the elements of the tiles that fill a buffer inside `depth` loops, or of those read from it.

    Tiles are apart, and read whole but for axes along which issues write what is left. In a window all taps share
    elements, or in registers tiles.
    """
    outer, extents = nest.loops[:depth], dict(nest.axes)
    used = {axis for subscript in operand.subscripts for axis in axes_of(subscript)}
    tiles = {loop.axis: loop.step for loop in nest.loops}
    lengths = dict(operand.lengths)
    total = operand.tile_elements // prod(lengths.values()) if by_tiles else 1
    for window in operand.windows:
        taps, places = extents[window.tap], _ranges(_along(outer, window.along), extents[window.along])
        step = tiles.get(window.along, 1) if by_tiles else 1
        if window.shift % step == 0 and _ranges(_along(outer, window.tap), taps) == [(0, taps)]:
            total *= sum(
                ceil(length / step) + n // step for _, length in places for n in window.reaches(taps)
            )
            extents = {a: n for a, n in extents.items() if a not in (window.along, window.tap)}
    for axis, n in extents.items():
        pieces = len(_ranges(_along(nest.loops if axis in used else outer, axis), n))
        total *= n if axis in used and (not by_tiles or axis in lengths) else pieces
    return total


# --- tiles of one part of a tensor's axes -----------------------------------------------------------------

Range = tuple[int, int]
"""Start and length along an axis. Units: elements."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Tensor axes that share loop axes, together with these loop axes."""

    axes: tuple[tuple[str, int], ...]
    subscripts: tuple[Subscript | Index, ...]


def _parts(nest: LoopNest, operand: CountedOperand) -> list[_Part]:
    """Return the tensor's axes in groups that share no loop axis, and each other loop axis alone."""
    groups: list[tuple[set[str], list[Subscript | Index]]] = []
    known = {axis for axis, _ in nest.axes}
    for whole in operand.subscripts:
        names = known.intersection(axes_of(whole))
        subscript = whole if isinstance(whole, Index) else tuple((a, f) for a, f in whole if a in known)
        touching = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        merged = [s for _, subscripts in touching for s in subscripts]
        groups.append((names.union(*(group[0] for group in touching)), [*merged, subscript]))
    used = {axis for names, _ in groups for axis in names}
    parts = [
        _Part(tuple((a, n) for a, n in nest.axes if a in names), tuple(subscripts))
        for names, subscripts in groups
    ]
    return parts + [_Part(((axis, extent),), ()) for axis, extent in nest.axes if axis not in used]


def _count_filled(nest: LoopNest, operand: CountedOperand, depth: int, refill: Refill) -> int:
    """Return the elements that a level inside `depth` loops loads over the whole nest."""
    outer = nest.loops[:depth]
    parts = _parts(nest, operand)
    total = prod(sum(len(_tile(part, ranges)) for ranges in _configurations(part, outer)) for part in parts)
    if refill == "entry":
        return total
    for position in range(depth):
        total -= prod(_count_kept(part, outer, position, refill) for part in parts)
    return total


def _configurations(part: _Part, outer: tuple[NestLoop, ...]) -> Iterator[tuple[Range, ...]]:
    """Yield the ranges of a part's axes at every iteration of the outer loops."""
    return product(*(_ranges(_along(outer, axis), extent) for axis, extent in part.axes))


def _count_kept(part: _Part, outer: tuple[NestLoop, ...], position: int, refill: Refill) -> int:
    """Return the sum, over iterations of one loop, of the elements that consecutive tiles share.

    When a loop goes on, those outside it stay, and those inside it go from their last iteration to their first.
    """
    pairs = product(*(_steps(outer, position, axis, extent) for axis, extent in part.axes))
    total = 0
    for pair in pairs:
        before = _tile(part, tuple(old for old, _ in pair))
        after = _tile(part, tuple(new for _, new in pair))
        if refill == "delta":
            total += _common(before, after)
        elif before == after:
            total += len(after)
    return total


@cache
def _steps(
    outer: tuple[NestLoop, ...], position: int, axis: str, extent: int
) -> tuple[tuple[Range, Range], ...]:
    """Return an axis's ranges before and after each iteration of the loop at `position`."""
    around, inside = _along(outer[:position], axis), _along(outer[position + 1 :], axis)
    found: list[tuple[Range, Range]] = []
    for place in _ranges(around, extent):
        if outer[position].axis == axis:
            iterations = list(_split_place(place, outer[position].step))
        else:
            iterations = [place, place]
        for before, after in pairwise(iterations):
            found.append((_last(before, inside), _first(after, inside)))
    return tuple(found)


def _along(loops: tuple[NestLoop, ...], axis: str) -> tuple[NestLoop, ...]:
    return tuple(loop for loop in loops if loop.axis == axis)


def _ranges(loops: tuple[NestLoop, ...], extent: int) -> list[Range]:
    """Return the ranges that nested loops over one axis traverse."""
    return _pieces([(0, extent)], loops)


def _pieces(places: list[Range], loops: tuple[NestLoop, ...]) -> list[Range]:
    for loop in loops:
        places = [piece for place in places for piece in _split_place(place, loop.step)]
    return places


def _split_place(place: Range, step: int) -> Iterator[Range]:
    start, length = place
    return ((start + at, min(step, length - at)) for at in range(0, length, step))


def _first(place: Range, inside: tuple[NestLoop, ...]) -> Range:
    for loop in inside:
        place = (place[0], min(loop.step, place[1]))
    return place


def _last(place: Range, inside: tuple[NestLoop, ...]) -> Range:
    for loop in inside:
        start, length = place
        at = (length - 1) // loop.step * loop.step
        place = (start + at, length - at)
    return place


Tile = range | frozenset[tuple[int, ...]]


def _tile(part: _Part, ranges: tuple[Range, ...]) -> Tile:
    """Return the elements, along a part's tensor axes, that these ranges access."""
    match part.subscripts:
        case ():
            return range(1)
        case (((str(), int(factor)),),) if factor:
            ((start, length),) = ranges
            return range(start * factor, (start + length) * factor, factor)
        case _:
            return _elements(part, ranges)


@cache
def _elements(part: _Part, ranges: tuple[Range, ...]) -> frozenset[tuple[int, ...]]:
    shape = tuple(length for _, length in ranges)
    points = (at + start for at, (start, _) in zip(np.indices(shape), ranges, strict=True))
    places = dict(zip((axis for axis, _ in part.axes), points, strict=True))
    marked = {f"@{axis}": at for axis, at in places.items()}
    found = (
        subscript.evaluate(marked)
        if isinstance(subscript, Index)
        else sum(factor * places[axis] for axis, factor in subscript)
        for subscript in part.subscripts
    )
    return frozenset(zip(*(np.broadcast_to(one, shape).ravel().tolist() for one in found), strict=True))


def _common(one: Tile, other: Tile) -> int:
    """Return how many elements two tiles share."""
    if isinstance(one, range) and isinstance(other, range):
        assert one.step == other.step
        low, high = sorted((one, other), key=min)
        return max(0, (min(max(low), max(high)) - min(high)) // abs(one.step) + 1)
    assert isinstance(one, frozenset)
    assert isinstance(other, frozenset)
    return len(one & other)


@dataclass(frozen=True, slots=True)
class StatementEnergy:
    """The energy of a statement's schedule, in all iterations of ordered loops. Units: picojoules.

    `memories` is that of all accesses, `issues` and `moves` that of the instructions that compute and that
    move operands, `links` by the two memories that a link joins.
    """

    memories_pj: float
    issues_pj: float
    moves_pj: float
    links_pj: tuple[tuple[str, float], ...]
    leakage_pj: float

    @property
    def total_pj(self) -> float:
        parts = (self.memories_pj, self.issues_pj, self.moves_pj, self.leakage_pj)
        return add_up((*parts, *(pj for _, pj in self.links_pj)))


def with_energy(
    found: StatementAccesses, option: NestOption, energies: Energies, iterations: int, time_ns: float
) -> StatementAccesses:
    """Return the access counts with their energies: by level and operand, of instructions, links, and leakage.

    Units: `time_ns` is for all `iterations`. Bytes on a link are those in the outer memory.
    """
    rows: list[Accesses] = []
    links: dict[str, float] = {}
    moves = 0.0
    described = {operand.name: operand for operand in option.operands}
    for row in found.accesses:
        read, write = energies.access_pj(_memory_of(row.level))
        own = (row.reads + row.drains) * read + (row.updates + row.fills) * write
        rows.append(replace(row, energy_pj=iterations * row.element_bytes * own))
    for outer, level, carried_bytes, row in _count_carried(found):
        if carried := energies.link_pj(_memory_of(outer), _memory_of(level)) * carried_bytes:
            name = f"{outer} – {level}"
            links[name] = links.get(name, 0.0) + iterations * carried
        if row is not None:
            operand = described[row.operand]
            is_file = row.level == operand.memory and row.level not in operand.staging.homes
            is_outside = outer in (energies.home, operand.layout.main)
            tile = operand.costs.energy.direct if is_outside else operand.costs.energy.staged
            each = [pj / operand.tile_elements for pj in tile] if is_file else operand.costs.energy.copied
            moves += iterations * add_up(n * pj for n, pj in zip((row.fills, row.drains), each, strict=True))
    last = {row.operand: row for row in rows}
    counted = [o for o in option.operands if o.name in last]
    if not option.is_sum and len(counted) == 2:  # a copy: its issues carry what they read
        source, result = (last[o.name] for o in sorted(counted, key=lambda o: o.is_accumulator))
        if carried := energies.link_pj(_memory_of(source.level), _memory_of(result.level)):
            ends = sorted((source.level, result.level), key=lambda level: level != energies.home)
            name, size = " – ".join(ends), source.element_bytes * source.reads
            links[name] = links.get(name, 0.0) + iterations * carried * size
    spent = StatementEnergy(
        add_up(row.energy_pj or 0.0 for row in rows),
        iterations * found.issues * option.issue_pj,
        moves,
        tuple(links.items()),
        energies.leakage_pj_per_ns * time_ns,
    )
    return replace(found, accesses=tuple(rows), energy=spent)


def _memory_of(level: str) -> str:
    """Return the memory of a level, or "" for a workspace, which lies in the arrays' memory."""
    return "" if level == "workspace" else level


def _count_carried(found: StatementAccesses) -> Iterator[tuple[str, str, int, Accesses | None]]:
    """Yield two levels, the bytes between them, and the operand's row of the inner level (None if fused).

    Results and inputs of fused statements go through their own scratchpads, if they have some.
    """
    for operand in found.nest.operands:
        rows = iter([row for row in found.accesses if row.operand == operand.name])
        outer, fused = next(rows), operand.fused if operand.role == "update" else None
        inside = operand.keeps[1].level if len(operand.keeps) > 1 else outer.level
        is_alone, direct = True, outer.updates
        if fused is not None:
            for (tensor, _), memory in zip(
                fused.results, fused.through or ("",) * len(fused.results), strict=True
            ):
                is_own = tensor == operand.tensor
                is_alone = is_alone and is_own
                row = outer if is_own else next(rows)
                behind = next(rows) if memory else None
                if behind is not None or not is_own:
                    count = row.updates if behind is None else behind.updates
                    direct -= count if is_own else 0
                    at = inside if behind is None else behind.level
                    yield outer.level, at, count * row.element_bytes, None
            for read in fused.reads:
                row = next(rows)
                at = next(rows).level if read.memory else inside
                yield outer.level, at, row.reads * row.element_bytes, None
        for row in rows:
            moved = (outer.reads + direct) * outer.element_bytes
            yield outer.level, row.level, moved, row if is_alone else None
            outer, direct = row, row.updates


@dataclass(frozen=True, slots=True)
class StatementAccesses:
    """The memory accesses of a statement's schedule, once through its own loops, which `nest` has.

    Units: nanoseconds. `port_ns` is the time for which partial sums keep a shared port busy while issues
    run, `unload_ns` the time of the last of them after the last issue. Both are 0 if the convention has
    separate ports. `energy` is None if the machine states no energies.
    """

    statement: int
    issues: int
    compute_ns: float
    port_ns: float
    unload_ns: float
    accesses: tuple[Accesses, ...]
    nest: LoopNest
    energy: StatementEnergy | None = None

    @property
    def latency_ns(self) -> float:
        """The latency with issues and port in parallel, each without gaps, then the stores of the last sums."""
        return max(self.compute_ns, self.port_ns) + self.unload_ns


def count_statement(
    nest: NestSchedule,
    option: NestOption,
    convention: Convention,
    home: str,
    known: NestFacts,
    bandwidths: Mapping[str, float] | None = None,
) -> StatementAccesses:
    """Return the access counts of a statement under one of its options.

    `bandwidths` are those between `home` and each named memory. Units: bytes per nanosecond.
    """
    walked = nest_of(nest, option, home, known)
    counts = count_accesses(walked, convention)
    issues = count_issues(walked)
    busy, unload = _port_ns(option, convention, counts, bandwidths or {})
    return StatementAccesses(
        nest.statement, issues, issues * option.interval_ns, busy, unload, counts, walked
    )


def _port_ns(
    option: NestOption, convention: Convention, counts: tuple[Accesses, ...], bandwidths: Mapping[str, float]
) -> tuple[float, float]:
    """Return the port time of sums without the first read and the last write, and the time of that write.

    A read before the first issue that finds no sum is not counted, because nothing waits for it.
    """
    busy, unload = 0.0, 0.0
    for operand in option.operands:
        bandwidth = bandwidths.get(operand.memory)
        if not (convention.shared_port and operand.is_accumulator and bandwidth):
            continue
        at_home = next(c for c in counts if c.operand == operand.name)
        tile = operand.tile_elements
        one = ceil(tile * operand.layout.tensor_bytes / bandwidth)
        transfers = (at_home.reads + at_home.updates) // tile
        busy, unload = busy + max(0, transfers - 2) * one, unload + one
    return busy, unload
