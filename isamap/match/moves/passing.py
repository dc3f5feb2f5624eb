"""What is computed of sums in a scratchpad on their way out: in another one, from where it leaves.

    for r in R, n in 32 { y[r, n] = sat_i8(round(f32(x[r, n]) * scale, even)); }    x @ acc, y @ spad

reads a tile of sums where it lies and leaves bytes in a buffer of `spad`, which a DMA takes to their array.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from isamap.ir import Index, Read
from isamap.ir.index import ONE, ZERO
from isamap.match.moves.scratch_buffers import find_dma, scratchpads
from isamap.match.moves.transfers import Copy, copy_by_axes, shown_axes
from isamap.match.supplies.want import Suppliers
from isamap.match.tiles.held_sums import Written
from isamap.match.tiles.operand_tiles import OFFSET, PROBE, OperandTile, Tile, in_tiles
from isamap.source import added
from isamap.transform import distinct_reads

ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True)
class WayOut:
    """How a tile leaves a scratchpad: through a buffer in `memory`, "" where one instruction does it.

    Units: `cost_ns` per element, computing and moving it; `size_bytes` of the buffer.
    """

    memory: str
    size_bytes: int
    cost_ns: float


def way_out(acc: OperandTile, written: Written, tile: Tile, home: str, suppliers: Suppliers) -> WayOut | None:
    """How what is written of sums in scratchpad `home` gets to its array; None where nothing does it."""
    cells = in_tiles(acc, suppliers, home).buffer
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    copy = copy_by_axes(acc, cells, Index.of(OFFSET), tile, position, back=written)
    counts = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(acc, tile)}
    at_once = find_dma(copy, counts, suppliers)
    if at_once is not None:
        return WayOut("", 0, at_once.cost_ns)
    for memory in scratchpads(suppliers.machine):
        middle = f"{PROBE}:{copy.target.dtype}:{acc.cell_shape}@{memory.name}"
        lay_out_tile(middle, memory.name, acc, suppliers)
        moves = tuple(find_dma(part, counts, suppliers) for part in through(copy, cells, middle))
        known = tuple(move for move in moves if move is not None)
        if len(known) == 2:
            size = prod(acc.cell_shape) * copy.target.dtype.size_bytes
            step = lcm(ALIGNMENT_BYTES, suppliers.known.address_steps[memory.name])
            whole = -(-size // step) * step
            return WayOut(memory.name, whole, added(move.cost_ns for move in known))
    return None


def through(copy: Copy, cells: str, middle: str) -> tuple[Copy, ...]:
    """A copy from a buffer as two: what is computed goes to another one, laid out alike, and on from there.

    Nothing where it is computed from more than the buffer's tile.
    """
    read = distinct_reads(copy.value)
    if len(read) != 1 or read[0].buffer != cells:
        return ()
    there = Read(middle, (ZERO, *read[0].index[1:]), copy.target.dtype)
    return Copy(there, copy.value, copy.counters), Copy(copy.target, there, copy.counters)


def lay_out_tile(name: str, memory: str, acc: OperandTile, suppliers: Suppliers) -> None:
    """Tells suppliers of a buffer of one tile in a scratchpad."""
    shape = acc.cell_shape
    suppliers.homes[name] = memory
    suppliers.strides[name] = (ONE, *(Index.of(prod(shape[d + 1 :])) for d in range(len(shape))))
