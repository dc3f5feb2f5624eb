"""What is computed of sums in a scratchpad on their way out, in a buffer of another one.

requantise x=c_tiles0 y=c_out0; dma_out_i8 x=c_out0 y=Y
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from isamap.ir import Index
from isamap.lower.copies import dma_loops
from isamap.lower.program import Buffer, Names, Node
from isamap.match import (
    Copy,
    OperandTile,
    Suppliers,
    Tile,
    WayOut,
    Written,
    lay_out_tile,
    shown_axes,
    through,
    way_out,
)

WHY = "one tile on its way out"


def passing(
    copy: Copy,
    operand: OperandTile,
    buffer: str,
    written: Written,
    tile: Tile,
    suppliers: Suppliers,
    names: Names,
) -> tuple[Copy, tuple[Node, ...]]:
    """The copy that takes what is written of a tile out, and what computes it before, all of the tile."""
    home = suppliers.homes.get(buffer)
    way = way_out(operand, written, tile, home, suppliers) if home is not None else None
    if way is None or not way.memory:
        return copy, ()
    computed, out = through(copy, buffer, _buffer(way, copy, operand, suppliers, names))
    whole = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(operand, tile)}
    nodes = dma_loops(computed, whole, suppliers, names)
    assert nodes is not None, "planning has found what computes it"
    return out, nodes


def _buffer(way: WayOut, copy: Copy, operand: OperandTile, suppliers: Suppliers, names: Names) -> str:
    """The buffer at the end of its scratchpad, which schedules leave free: one for all tiles of a type."""
    offset = (suppliers.machine.memories[way.memory].capacity_bytes or 0) - way.size_bytes
    elements = Index.of(prod(operand.cell_shape))
    wanted = Buffer("", copy.target.dtype, elements, WHY, offset, None, way.memory)
    known = next((b.name for b in names.buffers if replace(b, name="") == wanted), None)
    if known is not None:
        return known
    name = names.fresh(f"{operand.name}_out")
    names.buffers.append(replace(wanted, name=name))
    lay_out_tile(name, way.memory, operand, suppliers)
    return name
