"""Expressions of a kernel that are the same but for their subscripts.

X[n] * 2  and  X[m + 1] * 2      the same where n is m + 1
X[n]      and  Z[n]              never
"""

from __future__ import annotations

from isamap.ir import Call, Cast, Expr, IndexValue, Read
from isamap.ir.index import Index

Pairs = tuple[tuple[Index, Index], ...]


def subscripts_to_agree(one: Expr, other: Expr) -> Pairs | None:
    """The subscripts whose values must be equal for both to be one value; None where they never are.

    Two reads that fill what lies outside of an array with two different values are two values, though one
    that fills nothing is never outside.
    """
    match one, other:
        case Read(), Read():
            if one.buffer != other.buffer or (one.fill and other.fill and one.fill != other.fill):
                return None
            return tuple(zip(one.index, other.index, strict=True))
        case IndexValue(mine, dtype), IndexValue(theirs):
            return ((mine, theirs),) if dtype == other.dtype else None
        case Call(op, args), Call():
            alike = (op, one.mode, one.dtype) == (other.op, other.mode, other.dtype)
            return _all(args, other.args) if alike else None
        case Cast(value), Cast(its):
            alike = (one.dtype, one.mode) == (other.dtype, other.mode)
            return subscripts_to_agree(value, its) if alike else None
        case _:
            return () if one == other else None


def _all(mine: tuple[Expr, ...], theirs: tuple[Expr, ...]) -> Pairs | None:
    if len(mine) != len(theirs):
        return None
    found: list[tuple[Index, Index]] = []
    for a, b in zip(mine, theirs, strict=True):
        pairs = subscripts_to_agree(a, b)
        if pairs is None:
            return None
        found += pairs
    return tuple(found)
