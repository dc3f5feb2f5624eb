"""What it costs to hold shares of a sum on lanes, and to add them up."""

from __future__ import annotations

from math import prod

from isamap.ir import Index, Read
from isamap.match import (
    OperandTile,
    Suppliers,
    Supply,
    Tile,
    Want,
    dims,
    find_delivery,
    find_supply,
    in_tiles,
    sum_of_lanes,
)


def lanes_ns(tile: Tile, acc: OperandTile, suppliers: Suppliers) -> float | None:
    """The time of lanes that begin from 0, are stored, and added up one by one; None where they cannot.

    Units: nanoseconds.
    """
    cell, here = in_tiles(acc, suppliers), tuple(Index.of(d) for d in dims(len(acc.shape)))
    held = Read(f"$value:{acc.memory}", here, acc.dtype)
    begun = find_supply(suppliers, acc.want({}))
    stored = find_delivery(suppliers, cell, held, acc.memory, acc.dtype, acc.want({}))
    target, value = sum_of_lanes(cell.buffer, prod(acc.shape), tile)
    added = find_delivery(suppliers, target, value, "", None, Want(value, "", value.dtype, (), ()))
    if begun is None or stored is None or added is None or len(acc.shape) != 1:
        return None
    return (begun.cost_ns if isinstance(begun, Supply) else 0.0) + stored.cost_ns + added.cost_ns
