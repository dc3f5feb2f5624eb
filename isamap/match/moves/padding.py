"""Pad the rows of tiles in a buffer that lanes share, where lanes would meet in a bank.

    f16[16, 16] in 32 banks of 4 bytes      rows of 32 bytes: rows 0 and 4 of a matrix begin in one bank
                                            rows of 48 bytes: eight rows begin in eight different places

The padding with the cheapest load is taken, and of those the smallest. A buffer is larger by it, which the
capacity of its memory bounds. Nothing is copied into the padding, and nothing reads it.
"""

from __future__ import annotations

from isamap.machine import Machine, private_memories
from isamap.machine.banks import banks_of
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.tiles.operand_tiles import OperandTile, Tile, bring, in_tiles
from isamap.source.records import replace


def pad_tiles(tile: Tile, machine: Machine) -> Tile:
    """Return the tile with rows of inputs in buffers padded where that makes loads by lanes cheaper."""
    for name in private_memories(machine) if machine.levels else ():
        banks = banks_of(machine.memories[name], machine.clock_ghz)
        if banks is not None and banks.is_interleaved:
            search = MoveSearch(machine, {})
            row_bytes = banks.count * banks.run_bytes
            tile = replace(
                tile, inputs=tuple(_pad_rows(o, tile, name, row_bytes, search) for o in tile.inputs)
            )
    return tile


def _pad_rows(
    operand: OperandTile, tile: Tile, home: str, banks_bytes: int, search: MoveSearch
) -> OperandTile:
    """Return the operand with the cheapest padding of its rows, by steps that addresses in the memory may have."""
    if len(operand.cell_shape) < 2 or operand.cell_shape != operand.shape:
        return operand
    step = search.known.address_steps[home] // operand.dtype.size_bytes
    pads = range(0, banks_bytes // operand.dtype.size_bytes, max(1, step))
    padded = [
        replace(operand, cell_shape=(*operand.cell_shape[:-1], operand.cell_shape[-1] + pad), padding=pad)
        for pad in pads
    ]
    return min(padded, key=lambda one: (_load_ns(one, tile, home, search), one.padding))


def _load_ns(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> float:
    """Return the time to load a tile from a buffer; 0 if no instruction loads it."""
    found = bring(search, tile, operand, operand.request({}, expr=in_tiles(operand, search, home)))
    return found.cost_ns if isinstance(found, OperandMove) else 0.0
