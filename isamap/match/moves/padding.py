"""Pad the rows of tiles in a buffer that lanes share, where lanes would meet in a bank.

    f16[16, 16] in 32 banks of 4 bytes      rows of 32 bytes: rows 0 and 4 begin in one bank
                                            rows of 48 bytes: eight rows begin in eight different places

Nothing is copied into the padding, and nothing reads it. The buffer is larger by it, as the solver knows.
"""

from __future__ import annotations

from isamap.machine import Machine, private_memories
from isamap.machine.banks import banks_of
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.tiles.operand_tiles import OperandTile, Tile, bring, in_tiles
from isamap.source.records import replace


def pad_tiles(tile: Tile, machine: Machine) -> Tile:
    """Return the tile with rows of inputs in buffers padded where that makes loads by lanes cheaper."""
    for home in private_memories(machine):
        banks = banks_of(machine.memories[home], machine.clock_ghz)
        if banks is not None and banks.is_interleaved:
            search, row_bytes = MoveSearch(machine, {}), banks.count * banks.run_bytes
            padded = (_pad_rows(o, tile, home, row_bytes, search) for o in tile.inputs)
            tile = replace(tile, inputs=tuple(padded))
    return tile


def _pad_rows(
    operand: OperandTile, tile: Tile, home: str, most_bytes: int, search: MoveSearch
) -> OperandTile:
    """Return the operand with the padding that has the cheapest load, and of those the smallest."""
    if len(operand.cell_shape) < 2 or operand.cell_shape != operand.shape:
        return operand

    def load_ns(one: OperandTile) -> float:
        found = bring(search, tile, one, one.request({}, expr=in_tiles(one, search, home)))
        return found.cost_ns if isinstance(found, OperandMove) else 0.0

    *rows, row = operand.cell_shape
    step = max(1, search.known.address_steps[home] // operand.dtype.size_bytes)
    pads = range(0, most_bytes // operand.dtype.size_bytes, step)
    return min((replace(operand, cell_shape=(*rows, row + n), padding=n) for n in pads), key=load_ns)
