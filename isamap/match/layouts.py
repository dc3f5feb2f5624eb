"""How a kernel's arrays lie in memory, and the buffers of whole tiles into which operands may be copied.

A: f32[M, K], an argument   ->  (A.s0, 1)     its rows are as far apart as the caller says
T: f32[M, K], a temporary   ->  (K, 1)
"""

from __future__ import annotations

from math import prod

from isamap.ir import Index, Kernel, Operand, Read, product
from isamap.ir.index import ONE
from isamap.machine import Machine
from isamap.match.tiles import OperandTile
from isamap.match.want import Suppliers
from isamap.transform import Statement

PROBE = "$tiles"  # a stand-in for the staging buffer that an operand might get
OFFSET = "@offset"  # where a tile starts in its staging buffer, in expressions of its elements


def tensor_strides(operand: Operand) -> tuple[Index, ...]:
    """Strides in elements: the caller's for its arrays (the last axis dense), row-major for temporaries."""
    rank = len(operand.shape)
    if operand.role == "temp":
        return tuple(product(operand.shape[d + 1 :]) for d in range(rank))
    return tuple(ONE if d == rank - 1 else Index.of(f"{operand.name}.s{d}") for d in range(rank))


def layouts(kernel: Kernel) -> dict[str, tuple[Index, ...]]:
    """Strides of all arrays of a kernel."""
    return {o.name: tensor_strides(o) for o in kernel.operands}


def suppliers_of(kernel: Kernel, machine: Machine) -> Suppliers:
    """What finds chains of moves for a kernel's arrays, and remembers them."""
    return Suppliers(machine, layouts(kernel), strict=kernel.strict)


def profile_sizes(statement: Statement) -> dict[str, int]:
    """Values that stand for sizes left symbolic when lengths are chosen: large."""
    return {s: 2**20 for a in statement.axes for s in a.extent.symbols}


def in_tiles(operand: OperandTile, suppliers: Suppliers, home: str = "") -> Read:
    """An operand's elements, over its coordinates, as they would lie in a staging buffer.

    `home` is the scratchpad that the buffer is to lie in; "" means the workspace.
    """
    name = f"{PROBE}:{operand.dtype}:{operand.cell_shape}" + (f"@{home}" if home else "")
    if home:
        suppliers.homes[name] = home
    strides = tuple(Index.of(prod(operand.cell_shape[d + 1 :])) for d in range(len(operand.cell_shape)))
    suppliers.strides.setdefault(name, (ONE, *strides))
    return Read(name, (Index.of(OFFSET), *operand.cells), operand.dtype)
