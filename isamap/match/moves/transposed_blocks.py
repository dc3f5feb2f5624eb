"""Copy blocks whose two sides are contiguous along different axes: transpose rows to columns.

    transpose16_f32:  for i in 16, j in 16 { z[j, i] = a[i, j]; }

moves 16 by 16 elements of `buffer[16*~k + ~n] = B[~n, ~k]`: i counts ~n, j counts ~k. Such an instruction
goes from memory to memory, and is found by its meaning alone: each of its axes counts a counter of the copy,
or a digit of one, and the addresses that follow are those of its operands.

    transpose16_pairs_bf16:  for i in 16, j in 16, p in 2 { z[j, 2*i + p] = a[i, 2*j + p]; }

moves `buffer[32*(~k / 2) + 2*~n + ~k % 2] = B[~n, ~k]`: ~k is 2*j + p.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from math import prod

from isamap.ir import ZERO, Cast, Expr, Index, Read, substitute_expr
from isamap.match.moves.transfers import Copy, copy_by_axes, shown_axes
from isamap.match.operand_loads.load_request import BlockMove, MoveSearch
from isamap.match.operand_loads.standing import hide_position
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.unify import Binding
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, in_tiles
from isamap.match.tiles.written_values import Written
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a copy. Blocks must divide counters in `inside`, and may be cut along those in `around`."""

    inside: Mapping[str, int]
    around: Mapping[str, int | None]

    def fits(self, counter: str, length: int) -> bool:
        """Return whether a block may have this length along the counter."""
        if counter in self.inside:
            return self.inside[counter] % length == 0
        most = self.around[counter]
        return most is None or most >= length


def find_block(
    copy: Copy, counts: Mapping[str, int], search: MoveSearch, around: Mapping[str, int | None] | None = None
) -> BlockMove | None:
    """Return the cheapest instruction that moves blocks of a copy, or None if there is none.

    Blocks run over the counters of `counts`. The counters in `around` shorten them at the end. Their value is
    the largest count, if known.
    """
    counters = Counters(counts, around or {})
    best: BlockMove | None = None
    for pattern in search.known.block_moves:
        cost = search.interval_ns(pattern.name, {}) / prod(_lengths(pattern).values())
        if best is not None and cost >= best.cost_ns:
            continue
        best = _laid_over(copy, counters, pattern, cost, search) or best
    return best


def across_tiles(
    operand: OperandTile,
    buffer: str,
    offset: Index,
    tile: Tile,
    position: Mapping[str, Index],
    strides: Mapping[str, Index],
    *,
    back: Written | None,
) -> Copy:
    """Return the copy of `copy_by_axes` for several tiles. A counter `+axis` runs over the tiles of an axis.

    Units: `strides` between these tiles in the buffer, in elements.
    """
    moved = dict(position)
    for axis, stride in strides.items():
        counter = Index.of(f"+{axis}")
        moved[axis] = position[axis] + counter * tile.axis(axis).tile
        offset = offset + counter * stride
    copy = copy_by_axes(operand, buffer, offset, tile, moved, back=back)
    return Copy(copy.target, copy.value, (*copy.counters, *(f"+{axis}" for axis in strides)))


def find_tiles_block(
    operand: OperandTile,
    tile: Tile,
    most: Mapping[str, int | None],
    search: MoveSearch,
    *,
    back: Written | None = None,
) -> BlockMove | None:
    """Return the block move that copies tiles of an operand into a buffer, or out of it, or None.

    `most` is the largest number of tiles along each axis, if known.
    """
    if not search.known.block_moves:
        return None
    strides = {axis: Index.of(f"#{axis}") for axis in most}
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    known = in_tiles(operand, search).buffer, Index.of(OFFSET), tile, position, strides
    copy = across_tiles(operand, *known, back=back)
    counts = {f"~{a.name}": a.tile for a in shown_axes(operand, tile)}
    around = {f"+{axis}": count for axis, count in most.items()}
    target, value = (
        hide_position(e, lambda symbol: symbol in copy.counters) for e in (copy.target, copy.value)
    )
    assert isinstance(target, Read)
    question = (target, value, (*counts.items(), *around.items()))
    if question not in search.blocks:
        alike = Copy(target, value, copy.counters)
        search.blocks[question] = find_block(alike, counts, search, around)
    return search.blocks[question]


def _lengths(pattern: Pattern) -> dict[str, int]:
    return {a.name: a.extent.constant for a in pattern.axes}


def _laid_over(
    copy: Copy, counters: Counters, pattern: Pattern, cost: float, search: MoveSearch
) -> BlockMove | None:
    """Return the instruction with its axes assigned to counters, or None if no assignment fits."""
    reads = _same_casts(pattern.value, copy.value)
    if reads is None or pattern.output.dtype != copy.target.dtype:
        return None
    pairs = (reads, (pattern.target, copy.target))
    lengths = _lengths(pattern)
    for chosen in _assignments(lengths, counters):
        sizes = {counter: prod(lengths[axis] for axis in axes) for counter, axes in chosen.items()}
        over = {c: Index.of(c) * sizes[c] + _number(axes, lengths) for c, axes in chosen.items()}
        places: list[tuple[str, Location]] = []
        for own, subject in pairs:
            operand = pattern.instruction.operand(own.buffer)
            binding = Binding(operand.name, own.index, substitute_expr(subject, over))
            place = search.locate(pattern.instruction, binding, {}, lengths)
            if place is None:
                break
            places.append((operand.name, place))
        else:
            return BlockMove(pattern.name, tuple(places), tuple(sizes.items()), cost)
    return None


def _same_casts(own: Expr, value: Expr) -> tuple[Read, Read] | None:
    """Return the reads in two expressions if both apply the same casts to them, else None."""
    match own, value:
        case Read(), Read(fill=None) if own.dtype == value.dtype:
            return own, value
        case Cast(mine, a, b), Cast(other, c, d) if (a, b) == (c, d):
            return _same_casts(mine, other)
        case _:
            return None


def _number(axes: tuple[str, ...], lengths: Mapping[str, int]) -> Index:
    """Return the number in mixed radix whose digits are these axes, the last one fastest."""
    total = ZERO
    for axis in axes:
        total = total * lengths[axis] + Index.of(f"%{axis}")
    return total


def _assignments(lengths: Mapping[str, int], counters: Counters) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield assignments of an instruction's axes to counters. An axis counts a counter, or a digit of one."""
    axes = [axis for axis, length in lengths.items() if length > 1]
    for choice in product((*counters.inside, *counters.around), repeat=len(axes)):
        chosen = {c: [axis for axis, own in zip(axes, choice, strict=True) if own == c] for c in choice}
        if all(counters.fits(c, prod(lengths[axis] for axis in own)) for c, own in chosen.items()):
            for orders in product(*map(permutations, chosen.values())):
                yield dict(zip(chosen, orders, strict=True))
