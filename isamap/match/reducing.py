"""Private sums put together: what a machine adds elementwise when several threads have summed one element.

b[i] = b[i] + b[i + distance]      as wide as registers and instructions allow
"""

from __future__ import annotations

from isamap.ir import Call, Index, Read
from isamap.ir.index import ZERO
from isamap.match.copying import Copy, Transfer, find_transfer
from isamap.match.tiles import OperandTile
from isamap.match.want import Suppliers

# Operations whose partial results may be put together; a sum starts at zero, the others at what is there.
JOINABLE = ("add", "max", "min")
# Elements joined at once: a multiple of what any register holds.
BLOCK = 64
COUNTER = "~i"


def joining(operand: OperandTile, buffer: str, op: str, here: Index, other: Index) -> Copy:
    """Elements of a buffer of an operand's tiles from `here` on, joined with those from `other` on."""
    zeros = tuple(ZERO for _ in operand.cell_shape)
    mine, theirs = (Read(buffer, (at + Index.of(COUNTER), *zeros), operand.dtype) for at in (here, other))
    return Copy(mine, Call(op, (mine, theirs), operand.dtype), (COUNTER,))


def find_joining(
    operand: OperandTile, buffer: str, op: str, here: Index, other: Index, suppliers: Suppliers
) -> Transfer | None:
    """How a machine joins a block of partial results; None where it cannot."""
    copy = joining(operand, buffer, op, here, other)
    return find_transfer(copy, {COUNTER: Index.of(BLOCK)}, suppliers)
