"""Buffers in scratchpads: which of them serve an operand, and what moves its elements there and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from isamap.ir import DType, Index
from isamap.machine import Machine, Memory
from isamap.match.address import Location
from isamap.match.chains import Movement, moved_by, steps_of
from isamap.match.copying import copy_by_axes, fills_all, find_transfer, shown_axes
from isamap.match.dma import find_clearing, find_dma, largest
from isamap.match.layouts import OFFSET, in_tiles
from isamap.match.tiles import OperandTile, Tile, bring
from isamap.match.want import Leaf, Suppliers, Supply
from isamap.match.written import own_sum
from isamap.source import Diagnostic, NoMapping, added


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
        if brought is None or (home and scratch_move(operand, tile, home, suppliers) is None):
            continue
        if not home or is_cleared(operand, tile, home, suppliers):
            found[home] = brought
    return found


def is_cleared(operand: OperandTile, tile: Tile, home: str, suppliers: Suppliers) -> bool:
    """Whether every cell of an operand's tiles in a scratchpad gets an element or zero.

    What sizes are still open leave over is seen when the program is made.
    """
    if operand.fill.value == 0 and find_clearing(suppliers, home, operand.dtype.name) is not None:
        return True
    extents = [(a.extent.value, a.tile) for a in shown_axes(operand, tile)]
    return fills_all(operand, tile) and all(n is None or n % of == 0 for n, of in extents)


def uncleared(tile: Tile, suppliers: Suppliers) -> NoMapping | None:
    """The error for a mapping whose tiles some instruction has to fill up with zeros, where none does."""
    for operand in (*tile.inputs, *((tile.accumulator,) if tile.accumulator is not None else ())):
        for memory in scratchpads(suppliers.machine):
            if is_cleared(operand, tile, memory.name, suppliers):
                continue
            cells = in_tiles(operand, suppliers, memory.name)
            if bring(suppliers, tile, operand, operand.want({}, expr=cells)) is not None:
                return no_clearing(operand.dtype, memory.name, f"tiles of `{operand.name}` are", suppliers)
    return None


def no_clearing(dtype: DType, home: str, what: str, suppliers: Suppliers) -> NoMapping:
    """The error for tiles in a scratchpad that elements do not fill, where nothing writes zeros."""
    return NoMapping(
        Diagnostic(
            "no-clearing",
            f"{suppliers.machine.name} cannot set {dtype} in {home} to zero",
            notes=(f"{what} filled in part at the end of an axis",),
            help="give the machine an instruction that writes 0 to neighbouring elements, as many as a "
            "scalar parameter says, or choose sizes that are whole tiles",
        )
    )


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
            packing_ns=added(move.cost_ns for move in known) * prod(operand.cell_shape),
        )
    return None
