"""Buffers in scratchpads: which of them serve an operand, and what moves its elements there and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from isamap.ir import Index
from isamap.machine import Machine, Memory
from isamap.match.address import Location
from isamap.match.chains import Movement, moved_by, steps_of
from isamap.match.copying import copy_by_axes, find_transfer, shown_axes
from isamap.match.dma import find_dma, largest
from isamap.match.layouts import OFFSET, in_tiles
from isamap.match.tiles import OperandTile, Tile, bring
from isamap.match.want import Leaf, Suppliers, Supply
from isamap.match.written import own_sum


@dataclass(frozen=True, slots=True)
class ScratchMove:
    """What moves one tile between an array and a buffer: issues of one instruction. Units: ns per element."""

    instruction: str
    issues: int
    cost_ns: float


def scratchpads(machine: Machine) -> tuple[Memory, ...]:
    """The memories that buffers are placed in one by one."""
    return tuple(m for m in machine.memories.values() if m.kind == "scratchpad")


def homes_of(tile: Tile, operand: OperandTile, suppliers: Suppliers) -> dict[str, Supply | Leaf | Location]:
    """How a tile is brought from a buffer, by the memory that the buffer may lie in; "" is the workspace."""
    found: dict[str, Supply | Leaf | Location] = {}
    for home in ("", *(m.name for m in scratchpads(suppliers.machine))):
        brought = bring(suppliers, tile, operand, operand.want({}, expr=in_tiles(operand, suppliers, home)))
        if brought is not None and (not home or scratch_move(operand, tile, home, suppliers) is not None):
            found[home] = brought
    return found


def scratch_move(
    operand: OperandTile, tile: Tile, home: str, suppliers: Suppliers, *, back: bool = False
) -> ScratchMove | None:
    """What moves a whole tile into a buffer in a scratchpad, or back; None when nothing does."""
    buffer = in_tiles(operand, suppliers, home).buffer
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    written = own_sum(tile) if back else None
    copy = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=written)
    counts = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(operand, tile)}
    elements = prod(operand.cell_shape)
    dma = find_dma(copy, counts, suppliers)
    if dma is not None:
        at_once = prod(largest(counts[c]) or 1 for c in dma.counters)
        return ScratchMove(dma.instruction, elements // at_once, dma.cost_ns)
    found = find_transfer(copy, counts, suppliers)
    if found is None:
        return None
    return ScratchMove(found.delivery.instruction, elements // found.width, found.cost_ns)


def through_scratchpad(
    operand: OperandTile, tile: Tile, suppliers: Suppliers, *, back: bool = False
) -> Movement | None:
    """The operand copied into a scratchpad, and read there; of sums also copied out again."""
    for home, loaded in homes_of(tile, operand, suppliers).items():
        moves = [
            scratch_move(operand, tile, home, suppliers, back=b)
            for b in ((False, True) if back else (False,))
        ]
        known = [move for move in moves if move is not None]
        if not home or len(known) < len(moves):
            continue
        chain = () if isinstance(loaded, Location) else steps_of(loaded)
        at_once = all(move.issues < prod(operand.cell_shape) for move in known)
        moved = moved_by(operand, "packed" if at_once or prod(operand.cell_shape) == 1 else "gathered", chain)
        return replace(
            moved,
            packing=tuple(move.instruction for move in known),
            packing_moves=sum(move.issues for move in known),
        )
    return None
