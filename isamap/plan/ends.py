"""What it takes more to read or write an array in place where it ends in the middle of a tile.

    for n in 35, registers of 8: four whole tiles, and three elements

Where the machine has an instruction for a part of a register, that one moves them. Where it has none, they go
through a tile of their own, element by element, every time that the tile is wanted, and the load out of it
waits until they are there: 6 ns for three of f32 on AVX2, and 0.14 for a whole register
(docs/decisions/0002-tails.md). Tiles are counted, each axis by itself, and all of them take the mean.

Of inputs and sums that are read and written in place; what only assigns, and what no buffer may hold, is
priced as if it ended with a tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from isamap.ir import Index, Read
from isamap.match import find_delivery
from isamap.match.standing import is_lane, standing
from isamap.match.tiles import OperandTile, Tile, accumulator_delivery, bring
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
        cut = Index.of(left) if axis.extent.value is not None else Index.of(f"#{name}")
        if not left or _moves_part(operand, tile, name, cut, suppliers):
            continue
        elements = prod(operand.cell_shape) * left / axis.tile
        apart_ns = ways * elements * element_ns(operand, suppliers) + described.staged_ns
        apart_ns += suppliers.machine.loops.joined_ns
        more_ns += max(0.0, apart_ns - described.direct_ns) / -(-extent // axis.tile)
    return replace(described, direct_ns=described.direct_ns + more_ns)


def _moves_part(operand: OperandTile, tile: Tile, name: str, left: Index, suppliers: Suppliers) -> bool:
    """Whether instructions bring what is left of a tile at an axis' end, and take it back from a sum."""
    if name in operand.scattered:
        return False
    want = operand.want({name: left}, filled=tile.axis(name).is_reduction)
    if bring(suppliers, tile, operand, want) is None:
        return False
    if operand is not tile.accumulator:
        return True
    target, value = accumulator_delivery(tile)
    there = standing(target, is_lane)
    assert isinstance(there, Read), "sums go to where an array has them"
    return find_delivery(suppliers, there, value, "", None, want) is not None
