"""The position of a piece of a nest: the offset and remainder along each axis, and each loop's counter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from isamap.ir import ZERO, Index, index_min
from isamap.lower.program import Condition
from isamap.lower.steps import Unroll
from isamap.match import LoopAxis, Tile
from isamap.plan.schedule import LoopStep
from isamap.source.records import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class RemainderPiece:
    """A piece of a block's remainder: `count` tiles, of which the last may be partial.

    Units: `first` is the number of tiles of the block before it.
    """

    first: Index
    count: int


@dataclass(frozen=True, slots=True)
class Place:
    """Units: `position` and `left` in elements of the axis, over loop variables. `trips` counts from 0.

    `spans` are the lengths of axes that threads share, of which this place covers a part. `pieces` are the
    numbers of tiles at this place, for axes whose blocks are partial. `team` has the loops, by number, whose
    iterations belong to the instances of a level, with the number of an instance and how many there are. An
    instance has something to do here if all `conditions` hold.
    """

    position: Mapping[str, Index]
    left: Mapping[str, Index]
    trips: Mapping[int, Index] = field(default_factory=dict[int, Index])
    spans: Mapping[str, Index] = field(default_factory=dict[str, Index])
    pieces: Mapping[str, RemainderPiece] = field(default_factory=dict[str, RemainderPiece])
    team: Mapping[int, tuple[Index, int]] = field(default_factory=dict[int, tuple[Index, int]])
    conditions: tuple[Condition, ...] = ()

    def enter(self, loop: int, axis: str, position: Index, left: Index, trip: Index) -> Place:
        """Return the place inside loop number `loop`."""
        moved = {**self.position, axis: position}, {**self.left, axis: left}, {**self.trips, loop: trip}
        return Place(*moved, self.spans, self.pieces, self.team, self.conditions)

    def first(self, axis: str) -> Index:
        """Return the number of tiles of an axis's block before this place."""
        return self.pieces[axis].first if axis in self.pieces else ZERO


def start_of(tile: Tile) -> Place:
    """Return the place before any loop."""
    return Place({a.name: Index.of(0) for a in tile.axes}, {a.name: a.extent for a in tile.axes})


def elements_left(
    tile: Tile, loops: tuple[LoopStep, ...], number: int, place: Place, position: Index
) -> Index:
    """Return the elements left for the iteration of loop `number` at `position` of its axis.

    If all outer loops on its axis advance in multiples of its step, only the axis's end can cut it short.
    """
    loop = loops[number]
    step, extent = loop.step, tile.axis(loop.axis).extent
    nested = all(s.step % step == 0 for s in loops[:number] if s.axis == loop.axis)
    left = place.left[loop.axis] - (position - place.position[loop.axis])
    if is_multiple(left, step) or (nested and is_multiple(extent, step)):
        return Index.of(step)
    return index_min(step, extent - position if nested else left)


def is_multiple(count: Index, step: int) -> bool:
    """Return whether `count` is provably a multiple of `step`."""
    return step == 1 or all(c % step == 0 for _, c in count.terms)


def at_least(count: Index, size: int) -> bool:
    """Return whether `count` elements are provably at least `size`."""
    return count.value is not None and count.value >= size


def partial_axes(axes: tuple[LoopAxis, ...], place: Place) -> dict[str, Index]:
    """Return the axes whose tile may be partial at this place, with the remaining elements."""
    return {
        a.name: place.left[a.name] for a in axes if a.tile > 1 and not at_least(place.left[a.name], a.tile)
    }


def count_tiles_here(place: Place, axis: str, step: int) -> int | None:
    """Return the number of an axis' tiles at a place, or None if it is known only at run time."""
    left = place.left[axis].value
    if left is not None:
        return -(-left // step)
    return place.pieces[axis].count if axis in place.pieces else None


def unrolled_places(place: Place, loops: Sequence[Unroll]) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Yield the places of all tiles under unrolled loops, with their counters, the last fastest.

    An axis with a symbolic remainder has one tile here, inside a loop over tiles.
    """
    if not loops:
        yield (), place
        return
    rest = loops[1:]
    number, axis, step = loops[0].number, loops[0].axis, loops[0].step
    if number in place.team:
        for counters, leaf in unrolled_places(_own_tile(place, loops[0]), rest):
            yield (0, *counters), leaf
        return
    if number in place.trips:  # a loop over its tiles stands around it, and has set the place
        for counters, leaf in unrolled_places(place, rest):
            yield (0, *counters), leaf
        return
    left, count = place.left[axis], count_tiles_here(place, axis, step) or 1
    for trip in range(count):
        inner = left - trip * step if trip == count - 1 else Index.of(step)
        counter = place.first(axis) + trip
        inside = place.enter(number, axis, place.position[axis] + trip * step, inner, counter)
        for counters, leaf in unrolled_places(inside, rest):
            yield (trip, *counters), leaf


def _own_tile(place: Place, loop: Unroll) -> Place:
    """Return the place of one instance's tile, under a loop over the tiles of all instances."""
    (counter, count), left = place.team[loop.number], place.left[loop.axis]
    position = place.position[loop.axis] + counter * loop.step
    if at_least(left, count * loop.step) or is_multiple(left, count * loop.step):
        return place.enter(loop.number, loop.axis, position, Index.of(loop.step), counter)
    inside = index_min(loop.step, left - counter * loop.step)
    here = place.enter(loop.number, loop.axis, position, inside, counter)
    return replace(here, conditions=(*here.conditions, (counter * loop.step, "<", left)))
