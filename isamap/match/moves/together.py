"""Load neighbouring tiles into a scratchpad together, if that is faster than one by one.

    dma_in(scalar R: 0..64, scalar C: 0..64)    a cycle for 16 elements of a row, one at least

A tile of A[@m, @k] that is one element takes a cycle. 64 tiles along k take 4 cycles if they are contiguous
in the buffer. The layout of the buffer decides which tiles are contiguous: each order gives every tile an
address.
"""

from __future__ import annotations

from math import prod

from isamap.ir import Index
from isamap.match.moves.scratch_buffers import ScratchMove, find_dma, position_of, scratch_move
from isamap.match.moves.transfers import moved_counts
from isamap.match.moves.transposed_blocks import across_tiles
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, in_tiles
from isamap.match.tiles.overlapping_windows import windows_of
from isamap.source.records import dataclass

# Moves are taken to be cheaper together from this part of their time on: prices are sums of floats.
CHEAPER = 0.999


@dataclass(frozen=True, slots=True)
class TilesMove:
    """A move of `tiles` tiles along an axis at once, or of one tile if the axis is "". Units: ns per element."""

    move: ScratchMove
    axis: str = ""
    tiles: int = 1


def tiles_move(
    operand: OperandTile, tile: Tile, home: str, search: MoveSearch, *, back: bool = False
) -> TilesMove | None:
    """Return the cheapest way to move tiles of an operand into its scratchpad, or back, or None.

    Sums come and go a register block at a time, each tile by itself. Tiles of a window may move together along
    its rows, such as the rows of an image, if an instruction can be told the distance of two rows.
    """
    single = scratch_move(operand, tile, home, search, back=back)
    if single is None:
        return None
    best = TilesMove(single)
    if all(o.name != operand.name for o in tile.inputs):
        return best
    contiguous = Index.of(prod(operand.cell_shape))
    windows = [w.along for w in windows_of(operand, tile, search)]
    rows = {name: Index.of(f"#{name}") for name in windows if tile.axis(name).tile == 1}
    apart = rows if windows else dict.fromkeys(operand.axes, contiguous)
    for axis in (a.name for a in tile.axes if a.name in apart):
        found = _move_along(operand, tile, axis, home, apart[axis], search)
        if found is not None and found.move.cost_ns < CHEAPER * best.move.cost_ns:
            best = found
    return best


def _move_along(
    operand: OperandTile, tile: Tile, axis: str, home: str, distance: Index, search: MoveSearch
) -> TilesMove | None:
    """Return the move of all whole tiles along an axis, or None if the extent is unknown or there is one tile.

    Units: `distance` between two tiles in the buffer, in elements.
    """
    extent, step = tile.axis(axis).extent.value, tile.axis(axis).tile
    if extent is None or extent < 2 * step:
        return None
    buffer = in_tiles(operand, search, home).buffer
    position = position_of(operand, tile, search)
    copy = across_tiles(operand, buffer, Index.of(OFFSET), tile, position, {axis: distance}, back=None)
    counts = moved_counts(operand, tile)
    dma = find_dma(copy, {**counts, f"+{axis}": Index.of(extent // step)}, search)
    if dma is None:
        return None
    moved = ScratchMove(dma.instruction, dma.issues, dma.cost_ns, dma.energy_pj, waits=dma.waits)
    return TilesMove(moved, axis, extent // step)
