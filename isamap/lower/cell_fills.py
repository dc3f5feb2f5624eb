"""Fill the cells of a tile that contain no element of the operand, or those that a copy does not write."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from isamap.ir import Index, Read
from isamap.ir.index import ZERO
from isamap.lower.copies import clear, copy_loops
from isamap.lower.program import Names, Node
from isamap.match import Copy, MoveSearch, OperandTile


def count_covered(operand: OperandTile, copy: Copy, counts: Mapping[str, Index]) -> int:
    """Return how many leading cells of a tile a copy fills without a gap, or 0 if that is unknown."""
    moved = prod(n.value or 0 for n in counts.values())
    rows = copy.target.index[1] if len(operand.cell_shape) > 1 else ZERO
    whole = next((n.value or 0 for c, n in counts.items() if rows == Index.of(c)), 0)
    return moved if moved == whole * prod(operand.cell_shape[1:]) else 0


def cleared_tile(
    operand: OperandTile,
    buffer: str,
    offset: Index,
    search: MoveSearch,
    names: Names,
    first: int = 0,
    cells: int | None = None,
) -> tuple[Node, ...]:
    """Return nodes that set a tile to the operand's fill, from a cell on or for a number of cells."""
    cells = prod(operand.cell_shape) if cells is None else cells
    if operand.fill.value == 0:
        return clear(buffer, operand.dtype, offset + first, cells - first, search, names)
    inner = (ZERO for _ in operand.cell_shape)
    there = Read(buffer, (offset + Index.of("~cell"), *inner), operand.dtype)
    filled = Copy(there, operand.fill, ("~cell",))
    return copy_loops(filled, {"~cell": Index.of(cells)}, search, names)
