"""How a staging buffer holds windows: each element once, taps so many elements behind each other.

for p by 8: stage a     10 rows of X[p + r, c] for 3 taps: p is a row farther, and so is r
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from isamap.ir import Index
from isamap.ir.index import ONE, ZERO
from isamap.lower.place import Place
from isamap.match import LoopAxis, OperandTile, Suppliers, Tile, Window, windows_of
from isamap.plan.loops import LoopStep


@dataclass(frozen=True, slots=True)
class HeldWindow:
    """A window in a buffer. `taps` are the loops (by number) over its taps, with their steps.

    Units: `reaches` of each plane in elements of the axis along; elements of the buffer from one step along
    to the next, `cell`, and from one plane to the next, `plane`.
    """

    window: Window
    reaches: tuple[int, ...]
    cell: Index
    plane: Index
    taps: tuple[tuple[int, int], ...]

    def offset(self, trips: Mapping[int, Index]) -> Index:
        """How much farther the tap at these counters begins than the first."""
        tap = sum((trips.get(number, ZERO) * step for number, step in self.taps), start=ZERO)
        turn = tap.floordiv(self.window.period)
        return tap.mod(self.window.period) * self.plane + turn * (self.cell * self.window.shift)

    def at_plane(self, first: int, axes: dict[str, LoopAxis], place: Place) -> Place:
        """The place of the first tap of a plane, whose axis is as much longer as the last one reaches."""
        along, reach = self.window.along, self.reaches[first]
        axes[along] = replace(axes[along], extent=axes[along].extent + reach)
        longer = replace(place, left={**place.left, along: place.left[along] + reach})
        return longer.enter(self.taps[-1][0], self.window.tap, Index.of(first), ONE, Index.of(first))


def windows_inside(
    operand: OperandTile, tile: Tile, region: Mapping[str, Index], suppliers: Suppliers
) -> tuple[Window, ...]:
    """The windows all of whose taps lie in a region."""
    found = windows_of(operand, tile, suppliers) if operand is not tile.accumulator else ()
    return tuple(w for w in found if region[w.tap] == tile.axis(w.tap).extent)


def in_windows(
    windows: Sequence[Window],
    operand: OperandTile,
    tile: Tile,
    region: Mapping[str, Index],
    loops: Sequence[tuple[int, LoopStep]],
) -> tuple[tuple[HeldWindow, ...], Index]:
    """Windows as a buffer of a region holds them, rows innermost, and how many elements that takes."""
    found: list[HeldWindow] = []
    size = Index.of(prod(operand.cell_shape))
    for window in windows:
        along, count = tile.axis(window.along), tile.axis(window.tap).extent.value
        assert count is not None, "windows have so many taps"
        cell, reaches = size.floordiv(along.tile), window.reaches(count)
        held = region[window.along].ceildiv(along.tile) * along.tile + reaches[0]
        size = held.ceildiv(along.tile) * along.tile * cell
        taps = tuple((n, loop.step) for n, loop in loops if loop.axis == window.tap)
        found.append(HeldWindow(window, reaches, cell, size, taps))
        size = size * len(reaches)
    return tuple(found), size
