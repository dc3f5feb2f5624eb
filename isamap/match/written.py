"""What is written of a held accumulator: its sum, or what companions of the statement make of it.

For `C[m, n] += A[m, k] * B[k, n]` with `C[m, n] = max(C[m, n], 0)` taken along, in a register along n:

    target   C[@m, @n + %0]      value   max($held, 0)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from isamap.ir import Cast, Expr, Index, Read
from isamap.match.reach import dims
from isamap.match.tiles import OperandTile, Tile, over_tile
from isamap.transform.companions import HELD, Outcome
from isamap.transform.rewrite import map_reads


@dataclass(frozen=True, slots=True)
class Written:
    """One array written from a held tile: over the register's coordinates, and (`_at`) over positions."""

    target: Read
    value: Expr
    target_at: Read
    value_at: Expr


def with_held(value: Expr, held: Expr) -> Expr:
    """The value with the held sum put in, converted to the type of the sum's array."""

    def put(read: Read) -> Expr:
        if read.buffer != HELD:
            return read
        return held if held.dtype == read.dtype else Cast(held, read.dtype)

    return map_reads(value, put)


def in_register(written: Written, acc: OperandTile) -> Expr:
    """The value over the coordinates of the register that the accumulator lives in."""
    here = tuple(Index.of(d) for d in dims(len(acc.shape)))
    return with_held(written.value, Read(f"$value:{acc.memory}", here, acc.dtype))


def own_sum(tile: Tile) -> Written:
    """The sum itself, into its own array."""
    target = tile.statement.assign.target
    found = _written(tile, target, Read(HELD, (), target.dtype))
    assert found is not None, "an accumulator is an element of the kernel's arrays"
    return found


def written_by(tile: Tile, outcome: Outcome) -> tuple[Written, ...] | None:
    """What is written of a finished tile; None where a value has no place in the tile."""
    found = [_written(tile, target, value) for target, value in outcome.writes]
    return tuple(w for w in found if w is not None) if None not in found else None


def start_of_sum(tile: Tile, outcome: Outcome) -> tuple[OperandTile, Written] | None:
    """The accumulator with what a companion lets it start from, and that written to the sum's own array.

    None where no companion says it, or it has no place in the tile.
    """
    acc, target = tile.accumulator, tile.statement.assign.target
    if outcome.first is None or acc is None:
        return None
    first, written = outcome.first, _written(tile, target, outcome.first)
    wide = first if first.dtype == acc.dtype else Cast(first, acc.dtype)
    found = over_tile(tile, wide)
    if found is None or written is None:
        return None
    return _filled_with(acc, found), written


def _filled_with(acc: OperandTile, other: OperandTile) -> OperandTile:
    """The accumulator's tile with other elements."""
    return replace(acc, subject=other.subject, elements=other.elements)


def _written(tile: Tile, target: Read, value: Expr) -> Written | None:
    where, what = over_tile(tile, target), over_tile(tile, value)
    if where is None or what is None:
        return None
    assert isinstance(where.elements, Read)
    assert isinstance(where.subject, Read)
    return Written(where.elements, what.elements, where.subject, what.subject)
