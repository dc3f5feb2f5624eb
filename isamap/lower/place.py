"""Where a piece of a nest stands: how far each axis has come, what is left, and every loop's counter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isamap.ir import Index, index_min
from isamap.match import LoopAxis, Tile
from isamap.plan.schedule import LoopStep


@dataclass(frozen=True, slots=True)
class Place:
    """Units: `position` and `left` in elements of the axis, over loop variables; `trips` counts from 0.

    `spans` are the lengths of axes of which only a part is performed here, where threads share an axis.
    """

    position: Mapping[str, Index]
    left: Mapping[str, Index]
    trips: Mapping[int, Index] = field(default_factory=dict[int, Index])
    spans: Mapping[str, Index] = field(default_factory=dict[str, Index])

    def enter(self, loop: int, axis: str, position: Index, left: Index, trip: Index) -> Place:
        """The place inside loop number `loop`."""
        moved = {**self.position, axis: position}, {**self.left, axis: left}, {**self.trips, loop: trip}
        return Place(*moved, self.spans)


def start_of(tile: Tile) -> Place:
    """The place before any loop."""
    return Place({a.name: Index.of(0) for a in tile.axes}, {a.name: a.extent for a in tile.axes})


def left_inside(tile: Tile, loops: tuple[LoopStep, ...], number: int, place: Place, position: Index) -> Index:
    """Elements left for one trip of loop `number` that stands at `position` of its axis.

    Where all loops around it on its axis go in multiples of its step, only the axis's end can cut it short.
    """
    loop = loops[number]
    step, extent = loop.step, tile.axis(loop.axis).extent
    nested = all(s.step % step == 0 for s in loops[:number] if s.axis == loop.axis)
    left = place.left[loop.axis] - (position - place.position[loop.axis])
    if divides(left, step) or (nested and divides(extent, step)):
        return Index.of(step)
    return index_min(step, extent - position if nested else left)


def divides(count: Index, step: int) -> bool:
    """Whether it is certain that `count` is a multiple of `step`."""
    return step == 1 or all(c % step == 0 for _, c in count.terms)


def at_least(count: Index, size: int) -> bool:
    """Whether it is certain that `count` elements are `size` or more."""
    return count.value is not None and count.value >= size


def partial_axes(axes: tuple[LoopAxis, ...], place: Place) -> dict[str, Index]:
    """Axes of which a tile may not be full here, with the elements that are left."""
    return {
        a.name: place.left[a.name] for a in axes if a.tile > 1 and not at_least(place.left[a.name], a.tile)
    }


def unrolled_places(
    place: Place, loops: tuple[tuple[int, str, int], ...]
) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Places of all tiles under unrolled loops (number, axis, step), the last fastest, with their counters.

    An axis whose rest is not a number has one tile here: a loop over tiles stands around it.
    """
    if not loops:
        yield (), place
        return
    (number, axis, step), rest = loops[0], loops[1:]
    if number in place.trips:  # a loop over its tiles stands around it, and has set the place
        for counters, leaf in unrolled_places(place, rest):
            yield (0, *counters), leaf
        return
    left = place.left[axis]
    count = -(-left.value // step) if left.value is not None else 1
    for trip in range(count):
        inner = left - trip * step
        if inner.value is not None:
            inner = Index.of(min(step, inner.value))
        counter = Index.of(trip) if left.value is not None else place.trips.get(number, Index.of(0))
        inside = place.enter(number, axis, place.position[axis] + trip * step, inner, counter)
        for counters, leaf in unrolled_places(inside, rest):
            yield (trip, *counters), leaf
