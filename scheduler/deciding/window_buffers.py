"""Buffers that store the overlapping elements of neighbouring iterations once: their size and their fill.

    X[p + r, c]: a block of 8 rows and all 3 taps is 10 rows, where each iteration's own were 24

Only a block that has all taps of a window is stored like that.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.machine.timings import WindowOverlap
from isamap.plan.cost import Add, CeilDiv, Const, Cost, Decision, Threshold, times
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.scheduler.deciding.option_view import Choices


def reaches_of(window: WindowOverlap, option: NestOption) -> tuple[int, ...]:
    """Return the distance from the first to the last tap of a window for each plane. Units: elements."""
    return window.reaches(next(a.extent for a in option.axes if a.name == window.tap))


def in_window(space: Choices, operand: TileOperand, shared: Cost, own: Cost, window: WindowOverlap) -> Cost:
    """Return `shared` if a block contains all taps of a window, else `own`."""
    tap = next(a for a in space.option.axes if a.name == window.tap)
    if operand.is_accumulator:
        return own
    blocks = CeilDiv(Const(tap.extent), Decision(space.block(tap)))
    return Threshold(blocks, 1, shared, own)


def tiles_in_window(window: WindowOverlap, option: NestOption, along: TileAxis, tiles: Cost) -> Cost:
    """Return the number of tiles in a buffer for a window over these tiles."""
    reaches = reaches_of(window, option)
    plane = CeilDiv(Add((times(along.tile, tiles), Const(reaches[0]))), Const(along.tile))
    return times(len(reaches), plane)


def filled_again(space: Choices, operand: TileOperand) -> Iterator[Cost]:
    """Yield the factor by which elements of each window are loaded more than once.

    The ends of neighbouring blocks overlap. Without all taps each iteration loads its own elements.
    """
    extents = {axis.name: axis.extent for axis in space.option.axes}
    for window in operand.staging.windows:
        reaches = reaches_of(window, space.option)
        whole = extents[window.along] * len(reaches) + sum(reaches)
        shared: Cost = Const(whole)
        along = next((a for a in space.axes if a.name == window.along), None)
        if along is not None:
            size = Decision(space.block(along))
            held = Add((times(len(reaches), size), Const(sum(reaches))))
            shared = times(CeilDiv(Const(along.extent), size), held)
        yield Const(1 / whole)
        yield in_window(space, operand, shared, Const(extents[window.along] * extents[window.tap]), window)
