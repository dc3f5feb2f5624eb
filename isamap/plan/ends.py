"""What it takes more to read or write an array in place where it ends in the middle of a tile.

    for n in 35, registers of 8: four whole tiles, and three elements

Where the machine has an instruction for a part of a register, that one moves them. Where it has none, they go
through a tile of their own, element by element, every time that the tile is wanted: three of f32 on AVX2 in
6 ns, a whole register in 0.3 (docs/decisions/0002-tails.md). Tiles are counted; all of them take the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from isamap.ir import Index
from isamap.match.tiles import OperandTile, Tile, bring
from isamap.match.want import Suppliers
from isamap.plan.packing import element_ns
from isamap.plan.problem import TileOperand


def with_ends(
    described: TileOperand, operand: OperandTile, tile: Tile, suppliers: Suppliers, profile: Mapping[str, int]
) -> TileOperand:
    """The operand with what its tiles take in place, those at the ends of axes too, on average."""
    if described.direct_ns is None or described.staged_ns is None:
        return described
    ways = 2 if described.is_accumulator else 1
    more_ns = 0.0
    for name in operand.axes:
        axis = tile.axis(name)
        extent = axis.extent.substitute(profile).value or 1
        left = extent % axis.tile
        if not left or _moves_part(operand, tile, name, left, suppliers):
            continue
        elements = prod(operand.cell_shape) * left / axis.tile
        apart_ns = ways * elements * element_ns(operand, suppliers) + described.staged_ns
        more_ns += max(0.0, apart_ns - described.direct_ns) / -(-extent // axis.tile)
    return replace(described, direct_ns=described.direct_ns + more_ns)


def _moves_part(operand: OperandTile, tile: Tile, name: str, left: int, suppliers: Suppliers) -> bool:
    """Whether an instruction brings what is left of a tile at an axis' end."""
    if name in operand.scattered:
        return False
    want = operand.want({name: Index.of(left)}, zero=tile.axis(name).is_reduction)
    return bring(suppliers, tile, operand, want) is not None
