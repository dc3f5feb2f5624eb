"""Copy one tile between the kernel's arrays and a buffer, completely or up to the ends of its axes.

For a tile of 32 pixels at an edge with 28 left, the last four are set to the operand's fill, then 28 are
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod

from isamap import match as matching
from isamap.ir import ZERO, Index, Read, index_min
from isamap.lower.copies import block_loops, block_of, clear, copy_loops, group_loops
from isamap.lower.place import Place, at_least
from isamap.lower.program import Condition, If, Names, Node, Value
from isamap.lower.scratchpad_epilogue import computed_in, route_through_scratchpad
from isamap.lower.transposed_tiles import transposed_by
from isamap.source.records import replace


def count_covered(operand: matching.OperandTile, copy: matching.Copy, counts: Mapping[str, Index]) -> int:
    """Return how many leading cells of a tile a copy fills without a gap, or 0 if that is unknown."""
    moved = prod(n.value or 0 for n in counts.values())
    rows = copy.target.index[1] if len(operand.cell_shape) > 1 else ZERO
    whole = next((n.value or 0 for c, n in counts.items() if rows == Index.of(c)), 0)
    return moved if moved == whole * prod(operand.cell_shape[1:]) else 0


def cleared_tile(
    operand: matching.OperandTile,
    buffer: str,
    offset: Index,
    search: matching.MoveSearch,
    names: Names,
    first: int = 0,
    cells: int | None = None,
) -> tuple[Node, ...]:
    """Return nodes that set a tile to the operand's fill, from a cell on or for a number of cells."""
    cells = prod(operand.cell_shape) if cells is None else cells
    if operand.fill.value == 0:
        return clear(buffer, operand.dtype, offset + first, cells - first, search, names)
    inner = (ZERO for _ in operand.cell_shape)
    there = Read(buffer, (offset + Index.of("~cell"), *inner), operand.dtype)
    filled = matching.Copy(there, operand.fill, ("~cell",))
    return copy_loops(filled, {"~cell": Index.of(cells)}, search, names)


def copy_tile(
    operand: matching.OperandTile,
    buffer: str,
    offset: Index,
    tile: matching.Tile,
    place: Place,
    search: matching.MoveSearch,
    names: Names,
    *,
    back: matching.Written | None,
    transposed: Mapping[str, int] | None = None,
    spared: frozenset[str] = frozenset(),
    held: Value | None = None,
    together: Mapping[str, Index] | None = None,
) -> tuple[Node, ...]:
    """Return the copy of one tile between the kernel's arrays and a buffer. Invalid elements become the fill.

    If `back` is given, the copy stores values of sums, from a register or through further buffers. With
    `transposed`, it copies a block of tiles along axes, counted by `+axis`; with `together`, as many tiles as
    one instruction moves. Along `spared` axes the elements beyond the end stay unchanged.
    """
    used = matching.shown_axes(operand, tile)
    spared = spared.union(tile.run_time_lengths)
    copy = _with_tiles(
        matching.copy_by_axes(operand, buffer, offset, tile, place.position, back=back), together or {}
    )
    if back is None and operand.subject == operand.fill and buffer in search.homes:
        return cleared_tile(operand, buffer, offset, search, names)
    computed = computed_in(operand, buffer, offset, tile, place, search, names) if back is None else None
    if computed is not None:
        return computed
    before: tuple[Node, ...] = ()
    if back is not None:
        copy, before = route_through_scratchpad(copy, operand, buffer, back, tile, place, search, names, held)

    lefts = {a: place.left[a.name] for a in used}
    short = (a for a, left in lefts.items() if not at_least(left, a.tile))
    open_axes = sorted(short, key=lambda a: a.name in spared)

    def clear_rest() -> tuple[Node, ...]:
        if back is not None:
            return ()
        first = count_covered(operand, copy, _counts(lefts, partly=True)) if buffer in search.homes else 0
        nodes = cleared_tile(operand, buffer, offset, search, names, first)
        return transposed_by(together or {}, nodes, names)

    def counted(partly: bool) -> dict[str, Index]:
        return _counts(lefts, partly) | {f"+{axis}": count for axis, count in (together or {}).items()}

    def run(partly: bool) -> tuple[Node, ...]:
        counts = counted(partly)
        if not partly and back is None and not together and matching.fills_all(operand, tile):
            packed = _pack(operand, buffer, offset, copy, counts, place, search, names)
            if packed is not None:
                return packed
        return copy_loops(copy, counts, search, names)

    def over_tiles(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return transposed_by(transposed or {}, nodes, names)

    def fills_rest(partly: bool) -> bool:
        if buffer not in search.homes:
            return False
        counts = counted(partly)
        beyond = [
            c for c, n in counts.items() if n.value is not None and n.value <= 0
        ]  # nothing is copied there
        dma = matching.find_dma(copy, {**counts, **dict.fromkeys(beyond, Index.of(1))}, search)
        return dma is not None and dma.fills_rest

    whole = over_tiles(() if matching.fills_all(operand, tile) or fills_rest(False) else clear_rest())
    whole += _block(copy, used, transposed, search, names) if transposed else run(False)
    if not open_axes:
        return (*before, *whole)

    def partly(zeros: bool) -> tuple[Node, ...]:
        return over_tiles((*(clear_rest() if zeros and not fills_rest(True) else ()), *run(True)))

    return (*before, *_as_far_as_axes_go(open_axes, lefts, spared, whole, partly))


def _with_tiles(copy: matching.Copy, axes: Iterable[str]) -> matching.Copy:
    """Return the copy of a tile and of the following ones along axes, which `+axis` counts."""
    return replace(copy, counters=(*copy.counters, *(f"+{axis}" for axis in axes)))


def _as_far_as_axes_go(
    open_axes: list[matching.LoopAxis],
    lefts: Mapping[matching.LoopAxis, Index],
    spared: frozenset[str],
    whole: tuple[Node, ...],
    partly: Callable[[bool], tuple[Node, ...]],
) -> tuple[Node, ...]:
    """Return code for a whole tile, or for the part of it that is left. `partly` builds the latter."""
    short = {a.name for a, left in lefts.items() if left.value is not None and left.value < a.tile}
    if short - spared:
        return partly(True)
    ends = [a for a in open_axes if a.name not in spared] if short else open_axes
    if not ends:
        return partly(False)
    body = partly(False) if short else whole
    nodes: list[Node] = [If(tuple((Index.of(a.tile), "<=", lefts[a]) for a in ends), body)]
    for first, conditions in zip(ends, _first_short(ends, lefts), strict=True):
        nodes.append(If(conditions, partly(first.name not in spared)))
    return tuple(nodes)


def _counts(lefts: Mapping[matching.LoopAxis, Index], partly: bool) -> dict[str, Index]:
    """Return the ranges of a tile's counters. With `partly`, they end where the axes end."""
    cut = {a for a, left in lefts.items() if partly or left.value is not None}
    return {
        f"~{a.name}": index_min(a.tile, left) if a in cut else Index.of(a.tile) for a, left in lefts.items()
    }


def _block(
    copy: matching.Copy,
    used: list[matching.LoopAxis],
    transposed: Mapping[str, int],
    search: matching.MoveSearch,
    names: Names,
) -> tuple[Node, ...]:
    """Return the copy of a whole tile, and of further tiles that blocks cover along `transposed` axes."""
    across = _with_tiles(copy, transposed)
    inside = {f"~{a.name}": a.tile for a in used}
    found = matching.find_block(
        across, inside, search, {f"+{axis}": tiles for axis, tiles in transposed.items()}
    )
    assert found is not None, "blocks were looked for before"
    return block_loops(found, {counter: Index.of(n) for counter, n in inside.items()}, names)


def _pack(
    operand: matching.OperandTile,
    buffer: str,
    offset: Index,
    by_axes: matching.Copy,
    counts: Mapping[str, Index],
    place: Place,
    search: matching.MoveSearch,
    names: Names,
) -> tuple[Node, ...] | None:
    """Return the copy of a whole tile in the order of the buffer, or None if a copy by axes costs no more."""
    by_cells = matching.copy_by_cells(operand, buffer, Index.of(matching.OFFSET))
    if by_cells is None:
        return None
    found = matching.find_packing(by_cells, operand.shape, search)
    if found is None:
        return None
    others = matching.find_transfer(by_axes, counts, search), block_of(by_axes, counts, search)
    if any(other is not None and other.cost_ns <= found.cost_ns for other in others):
        return None
    trips = {c: Index.of(n) for c, n in zip(by_cells.counters, operand.shape, strict=True)}
    trips[by_cells.counters[-1]] = Index.of(operand.shape[-1] // found.width)
    around = {f"@{n}": p for n, p in place.position.items()} | {matching.OFFSET: offset}
    return group_loops(found, trips, {}, around, names)


def _first_short(
    axes: list[matching.LoopAxis], lefts: Mapping[matching.LoopAxis, Index]
) -> Iterator[tuple[Condition, ...]]:
    """Yield for each axis the condition that it is the first axis with less than a tile left."""
    before: tuple[Condition, ...] = ()
    for axis in axes:
        yield (*before, (lefts[axis], "<", Index.of(axis.tile)))
        before = (*before, (Index.of(axis.tile), "<=", lefts[axis]))
