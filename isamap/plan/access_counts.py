"""How often each level of memory is read and written under a loop nest, by a declared convention.

A level that keeps a tile of an operand takes from the level outside what it does not have yet (`fills`),
hands on what the level inside takes (`reads`), gets back partial sums (`updates`) and gives its own back
(`drains`).
Nothing is walked: the tile of a tensor axis depends on that axis's own loops alone, so that sums over all
iterations of all loops fall apart into products of sums over the iterations of few.

Source: the terms are those of Parashar et al., Timeloop, ISPASS 2019, section VI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from math import ceil, prod
from typing import Literal

from isamap.plan.loop_nest import Counted, LoopNest, Subscript, Turn, nest_of
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule

Refill = Literal["entry", "change", "delta"]


@dataclass(frozen=True, slots=True)
class Convention:
    """What counts as an access.

    `first_read`: the first read of a partial sum that nothing has been added to yet is charged. `refill`:
    a level takes its whole tile each time its place in the nest is entered (`entry`), only when the tile is
    another one (`change`), or only the elements that the tile before did not have (`delta`: a window that
    slides takes its new edge). `latch` says the same of the datapath, which keeps one issue's operands.
    `shared_port`: partial sums are read and written through one port, so that the times add up.
    """

    name: str
    first_read: bool
    refill: Refill
    latch: Refill
    shared_port: bool


CONVENTIONS = {
    c.name: c
    for c in (
        Convention("isamap", first_read=True, refill="entry", latch="entry", shared_port=False),
        Convention("timeloop", first_read=False, refill="delta", latch="entry", shared_port=False),
        Convention("zigzag", first_read=True, refill="change", latch="change", shared_port=True),
    )
}
"""`isamap` counts what the emitted code does; the others what these published models report."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """What one level does for one operand. Units: elements of the tensor."""

    level: str
    operand: str
    tensor: str
    reads: int
    fills: int
    updates: int
    drains: int


def count_accesses(nest: LoopNest, convention: Convention) -> tuple[Accesses, ...]:
    """Per operand and level, from the home inward."""
    return tuple(found for operand in nest.operands for found in _of_operand(nest, operand, convention))


def count_issues(nest: LoopNest) -> int:
    """How often the innermost loops' body is performed."""
    return prod(len(_ranges(_along(nest.loops, axis), extent)) for axis, extent in nest.axes)


def _of_operand(nest: LoopNest, operand: Counted, convention: Convention) -> Iterator[Accesses]:
    moved = [
        _filled(nest, operand, keep.depth, convention.refill) if position else 0
        for position, keep in enumerate(operand.keeps)
    ]
    moved.append(_filled(nest, operand, len(nest.loops), convention.latch))
    spared = _distinct(nest, operand) if operand.role == "update" and not convention.first_read else 0
    for position, keep in enumerate(operand.keeps):
        outward, inward = moved[position], moved[position + 1]
        reads = 0 if operand.role == "write" else inward - spared
        fills = 0 if operand.role == "write" else outward
        updates, drains = (0, 0) if operand.role == "read" else (inward, outward)
        yield Accesses(keep.level, operand.name, operand.tensor, reads, fills, updates, drains)


# --- tiles of one part of a tensor's axes -----------------------------------------------------------------

Range = tuple[int, int]
"""Start and length along an axis. Units: elements."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Tensor axes that share loop axes, with these; no tensor axis for a loop axis that moves nothing."""

    axes: tuple[tuple[str, int], ...]
    subscripts: tuple[Subscript, ...]


def _parts(nest: LoopNest, operand: Counted) -> list[_Part]:
    """The tensor's axes as groups that no loop axis connects, and each other loop axis for itself."""
    groups: list[tuple[set[str], list[Subscript]]] = []
    known = {axis for axis, _ in nest.axes}
    for whole in operand.subscripts:
        subscript = tuple((axis, factor) for axis, factor in whole if axis in known)
        names = {axis for axis, _ in subscript}
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


def _filled(nest: LoopNest, operand: Counted, depth: int, refill: Refill) -> int:
    """Elements that a level kept inside `depth` loops takes over the whole nest."""
    outer = nest.loops[:depth]
    parts = _parts(nest, operand)
    total = prod(sum(len(_tile(part, ranges)) for ranges in _configurations(part, outer)) for part in parts)
    if refill == "entry":
        return total
    for position in range(depth):
        total -= prod(_kept(part, outer, position, refill) for part in parts)
    return total


def _distinct(nest: LoopNest, operand: Counted) -> int:
    """How many elements of the tensor the nest touches."""
    parts = _parts(nest, operand)
    return prod(len(_tile(part, tuple((0, n) for _, n in part.axes))) for part in parts)


def _configurations(part: _Part, outer: tuple[Turn, ...]) -> Iterator[tuple[Range, ...]]:
    """The ranges of a part's axes at every iteration of the loops around."""
    return product(*(_ranges(_along(outer, axis), extent) for axis, extent in part.axes))


def _kept(part: _Part, outer: tuple[Turn, ...], position: int, refill: Refill) -> int:
    """What the tiles before and after all iterations of one loop have in common, summed over these.

    When a loop turns, those outside it stay, and those inside it go from their last iteration to their first.
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
def _steps(outer: tuple[Turn, ...], position: int, axis: str, extent: int) -> tuple[tuple[Range, Range], ...]:
    """An axis's ranges before and after each iteration of the loop at `position`."""
    around, inside = _along(outer[:position], axis), _along(outer[position + 1 :], axis)
    found: list[tuple[Range, Range]] = []
    for place in _ranges(around, extent):
        if outer[position].axis == axis:
            turns = list(_split(place, outer[position].step))
        else:
            turns = [place, place]
        for before, after in pairwise(turns):
            found.append((_last(before, inside), _first(after, inside)))
    return tuple(found)


def _along(loops: tuple[Turn, ...], axis: str) -> tuple[Turn, ...]:
    return tuple(turn for turn in loops if turn.axis == axis)


def _ranges(loops: tuple[Turn, ...], extent: int) -> list[Range]:
    """The ranges that nested loops over one axis go through."""
    places = [(0, extent)]
    for turn in loops:
        places = [piece for place in places for piece in _split(place, turn.step)]
    return places


def _split(place: Range, step: int) -> Iterator[Range]:
    start, length = place
    return ((start + at, min(step, length - at)) for at in range(0, length, step))


def _first(place: Range, inside: tuple[Turn, ...]) -> Range:
    for turn in inside:
        place = (place[0], min(turn.step, place[1]))
    return place


def _last(place: Range, inside: tuple[Turn, ...]) -> Range:
    for turn in inside:
        start, length = place
        at = (length - 1) // turn.step * turn.step
        place = (start + at, length - at)
    return place


Tile = range | frozenset[tuple[int, ...]]


def _tile(part: _Part, ranges: tuple[Range, ...]) -> Tile:
    """The elements, along the tensor axes of a part, that these ranges touch."""
    match part.subscripts:
        case ():
            return range(1)
        case (((_, factor),),) if factor:
            ((start, length),) = ranges
            return range(start * factor, (start + length) * factor, factor)
        case _:
            return _elements(part, ranges)


@cache
def _elements(part: _Part, ranges: tuple[Range, ...]) -> frozenset[tuple[int, ...]]:
    names = [axis for axis, _ in part.axes]
    steps = [[dict(subscript).get(name, 0) for name in names] for subscript in part.subscripts]
    points = product(*(range(start, start + length) for start, length in ranges))
    return frozenset(
        tuple(sum(c * x for c, x in zip(factors, point, strict=True)) for factors in steps)
        for point in points
    )


def _common(one: Tile, other: Tile) -> int:
    """How many elements two tiles share."""
    if isinstance(one, range) and isinstance(other, range):
        assert one.step == other.step
        low, high = sorted((one, other), key=min)
        return max(0, (min(max(low), max(high)) - min(high)) // abs(one.step) + 1)
    assert isinstance(one, frozenset)
    assert isinstance(other, frozenset)
    return len(one & other)


@dataclass(frozen=True, slots=True)
class StatementAccesses:
    """What a statement's schedule makes of its memories, once through its own loops, which `nest` has.

    Units: nanoseconds; `port_ns` that partial sums keep a shared port busy while issues run, `unload_ns` for
    the last of them behind the last issue; both 0 where the convention has a port for each.
    """

    statement: int
    issues: int
    compute_ns: float
    port_ns: float
    unload_ns: float
    accesses: tuple[Accesses, ...]
    nest: LoopNest

    @property
    def latency_ns(self) -> float:
        """Issues and the port side by side, each without a gap, then the last sums on their way out."""
        return max(self.compute_ns, self.port_ns) + self.unload_ns


def count_statement(
    nest: NestSchedule,
    option: NestOption,
    convention: Convention,
    home: str,
    bandwidths: Mapping[str, float] | None = None,
) -> StatementAccesses:
    """The counts of a statement under one of its options.

    `bandwidths` are those from `home` to the memory of that name. Units: bytes per nanosecond.
    """
    walked = nest_of(nest, option, home)
    counts = count_accesses(walked, convention)
    issues = count_issues(walked)
    busy, unload = _port_ns(option, convention, counts, bandwidths or {})
    return StatementAccesses(
        nest.statement, issues, issues * option.interval_ns, busy, unload, counts, walked
    )


def _port_ns(
    option: NestOption,
    convention: Convention,
    counts: tuple[Accesses, ...],
    bandwidths: Mapping[str, float],
) -> tuple[float, float]:
    """How long sums keep their port: all but the first read and the last write, and that write.

    Before the first issue there is nothing to wait for but a read that finds no sum; that is not counted.
    """
    busy, unload = 0.0, 0.0
    for operand in option.operands:
        bandwidth = bandwidths.get(operand.memory)
        if not (convention.shared_port and operand.is_accumulator and bandwidth):
            continue
        at_home = next(c for c in counts if c.operand == operand.name)
        tile = operand.tile_elements
        one = ceil(tile * operand.tensor_bytes / bandwidth)
        transfers = (at_home.reads + at_home.updates) // tile
        busy, unload = busy + max(0, transfers - 2) * one, unload + one
    return busy, unload
