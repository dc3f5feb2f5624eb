"""Copies between arrays and buffers by instructions that move as many elements at once as possible.

A copy is given for one element. By axes, a group of elements that follow each other along one axis moves at
once, if both sides are contiguous. By cells, a group that follows each other in the buffer moves at once,
wherever its elements come from: interleaves and transposing loads pack whole registers in this way.

It also joins the private partial sums of several threads elementwise:

    b[i] = b[i] + b[i + distance]      as wide as registers and instructions allow
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import cast

from isamap.ir import Call, Expr, Index, Read, substitute_expr, substitute_read
from isamap.ir.index import ONE, ZERO
from isamap.ir.walk import map_reads
from isamap.match.operand_loads.load_request import LoadRequest, MoveSearch, OperandMove
from isamap.match.operand_loads.standing import hide_position, lane_layout
from isamap.match.operand_loads.store_search import find_operand_store, widths
from isamap.match.patterns.address import is_lane, lay_over, wraps
from isamap.match.patterns.reach import coordinate_names
from isamap.match.tiles.operand_tiles import OperandTile, Tile
from isamap.match.tiles.walks import LoopAxis
from isamap.match.tiles.written_values import Written, with_held
from isamap.source.records import dataclass, replace
from isamap.transform import symbols

LANE = Index.of("%0")


@dataclass(frozen=True, slots=True)
class Copy:
    """`target = value` for every point of `counters`, which start at 0. No two points write one element."""

    target: Read
    value: Expr
    counters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """The operand store of one group of a copy: `width` elements along `counter`, which counts groups.

    The counter counts groups.
    """

    counter: str | None
    width: int
    store: OperandMove

    @property
    def cost_ns(self) -> float:
        """The cost per element. Units: ns."""
        return self.store.cost_ns / self.width


def find_transfer(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> Transfer | None:
    """Return the cheapest way to move a copy's elements, or None if the machine cannot move a single one."""
    question = copy, tuple(counts.items())  # mappings with equal tiles ask for the same copies
    if question not in search.transfers:
        search.transfers[question] = _search_transfer(copy, counts, search)
    return cast("Transfer | None", search.transfers[question])


def _search_transfer(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> Transfer | None:
    best: Transfer | None = None
    for counter in copy.counters:
        for width, register in widths(search, copy.target.dtype):
            count = counts[counter].value
            if count is None or count % width:
                continue
            found = _store_run(copy, counter, width, register, search)
            if found is not None and (best is None or found.cost_ns < best.cost_ns):
                best = found
    if best is not None:
        return best
    one = LoadRequest(copy.value, "", copy.value.dtype, (), ())
    single = find_operand_store(search, copy.target, copy.value, "", None, one)
    return Transfer(None, 1, single) if single is not None else _store_one_element(copy, search)


def _store_one_element(copy: Copy, search: MoveSearch) -> Transfer | None:
    """Return the cheapest store of one element from the first lane of a register, or None."""
    target, value = _over_lanes(copy.target), map_reads(copy.value, _over_lanes)
    ways = (
        _deliver(target, value, "", 1, register, search) for _, register in widths(search, copy.target.dtype)
    )
    found = min((way for way in ways if way is not None), key=lambda way: way.cost_ns, default=None)
    return None if found is None else replace(found, counter=None)


def _over_lanes(read: Read) -> Read:
    """Return an access whose lane 0 has the given element, and whose next lanes have the next elements."""
    return replace(read, index=(*read.index[:-1], read.index[-1] + LANE)) if read.index else read


def transfer_ns(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> float | None:
    """Return the cached cost of `find_transfer`. Equal layouts share it. Units: ns per element."""
    target, value = (hide_position(e, lambda symbol: symbol in counts) for e in (copy.target, copy.value))
    assert isinstance(target, Read)
    found = find_transfer(replace(copy, target=target, value=value), counts, search)
    return None if found is None else found.cost_ns


def _store_run(copy: Copy, counter: str, width: int, register: int, search: MoveSearch) -> Transfer | None:
    """Return the store of `width` consecutive elements along a counter, or None."""
    lanes = {counter: Index.of(counter) + LANE}
    target = substitute_expr(copy.target, lanes)
    value = substitute_expr(copy.value, lanes)
    return _deliver(target, value, counter, width, register, search)


def _deliver(
    target: Expr, value: Expr, counter: str, width: int, register: int, search: MoveSearch
) -> Transfer | None:
    assert isinstance(target, Read)
    if wraps(value, (width,), search.strides):
        return None
    part = Index.of(width) if width < register else None
    request = LoadRequest(value, "", value.dtype, (register,), (part,))
    found = find_operand_store(search, target, value, "", None, request)
    return Transfer(counter, width, found) if found is not None else None


# --- tiles ------------------------------------------------------------------------------------------------


def shown_axes(operand: OperandTile, tile: Tile) -> list[LoopAxis]:
    """Return the loop axes with several elements in one tile of an operand."""
    return [
        a
        for a in tile.axes
        if a.tile > 1
        and (a.name in operand.axes or a.name.startswith("_"))
        and any(d in i.symbols for d, n in a.digits if n > 1 for i in operand.pattern)
    ]


def computed_counts(operand: OperandTile, tile: Tile) -> dict[str, Index]:
    """Return the elements along each counter of a tile that an instruction computes."""
    return {f"~{a.name}": Index.of(a.tile) for a in shown_axes(operand, tile)}


def moved_counts(operand: OperandTile, tile: Tile) -> dict[str, Index]:
    """Return the elements that are moved along each counter. An axis that no kernel axis uses has one."""
    found = computed_counts(operand, tile)
    return {counter: ONE if counter.startswith("~_") else count for counter, count in found.items()}


def fills_all(operand: OperandTile, tile: Tile) -> bool:
    """Return whether every cell of a buffered tile, except padding, has an element of the operand."""
    *rows, row = operand.cell_shape or (1,)
    return prod(a.tile for a in shown_axes(operand, tile)) == prod(rows) * (row - operand.padding)


def copy_by_axes(
    operand: OperandTile,
    buffer: str,
    offset: Index,
    tile: Tile,
    position: Mapping[str, Index],
    *,
    back: Written | None,
) -> Copy:
    """Return the copy of one element between an array and a buffered tile, with counters `~axis` in the tile.

    It copies into the buffer; if `back` gives the written value, it copies out of the buffer.
    """
    digits: dict[str, Index] = {d: ZERO for a in tile.axes for d, _ in a.digits}
    moved: dict[str, Index] = {f"@{n}": p for n, p in position.items()}
    used = shown_axes(operand, tile)
    for axis in used:
        counter, inner = Index.of(f"~{axis.name}"), 1
        moved[f"@{axis.name}"] = position[axis.name] + counter
        for place, (digit, length) in reversed(list(enumerate(axis.digits))):
            value = counter.floordiv(inner)
            digits[digit] = value if place == 0 else value.mod(length)
            inner *= length
    cell = Read(buffer, (offset, *(i.substitute(digits) for i in operand.cell_pattern)), operand.dtype)
    counters = tuple(f"~{a.name}" for a in used)
    if back is None:
        return Copy(cell, substitute_expr(operand.subject, moved), counters)
    value = with_held(back.value_at, cell)
    return Copy(substitute_read(back.target_at, moved), substitute_expr(value, moved), counters)


def copy_by_cells(operand: OperandTile, buffer: str, offset: Index) -> Copy | None:
    """Return one cell of a buffered tile as an element of the kernel, over counters `~0`, … of its coordinates.

    Return None if elements repeat in the register: its coordinates are then not those of the buffer.
    """
    if operand.cell_shape != operand.shape or not operand.shape:
        return None
    counters = tuple(f"~{i}" for i in range(len(operand.shape)))
    here = {d: Index.of(c) for d, c in zip(coordinate_names(len(counters)), counters, strict=True)}
    cell = Read(buffer, (offset, *here.values()), operand.dtype)
    return Copy(cell, substitute_expr(operand.elements, here), counters)


def find_packing(copy: Copy, shape: tuple[int, ...], search: MoveSearch) -> Transfer | None:
    """Return the cheapest operand store of whole groups of a copy by cells, along the last coordinate."""
    best: Transfer | None = None
    for target, value, width, register in _groups(copy, shape, search):
        found = _deliver(target, value, copy.counters[-1], width, register, search)
        if found is not None and (best is None or found.cost_ns < best.cost_ns):
            best = found
    return best


def _groups(copy: Copy, shape: tuple[int, ...], search: MoveSearch) -> Iterator[tuple[Expr, Expr, int, int]]:
    """Yield groups of elements that may move at once: target, value, element count, and register length."""
    last = copy.counters[-1]
    sizes = dict(zip(copy.counters, shape, strict=True))
    for width, register in widths(search, copy.target.dtype):
        if shape[-1] % width:
            continue
        extents = {**sizes, last: shape[-1] // width, "%0": width}
        lanes = {last: Index.of(last) * width + LANE}
        yield lay_over(copy.target, lanes, extents), lay_over(copy.value, lanes, extents), width, register


def packing_ns(copy: Copy, shape: tuple[int, ...], search: MoveSearch) -> float | None:
    """Return the cached cost of `find_packing`. Equal layouts share it. Units: ns per element."""
    first, last = copy.counters[0], copy.counters[-1]
    alike = replace(copy, value=hide_position(copy.value, lambda symbol: symbol == last))
    rows = shape[:1] if first == last or first in symbols(alike.value) else ()
    question = (search.strides[copy.target.buffer], copy.target.dtype, alike.value, (*rows, *shape[1:]))
    if question not in search.packings:
        costs = [_group_ns(*group, search) for group in _groups(alike, shape, search)]
        search.packings[question] = min((ns for ns in costs if ns is not None), default=None)
    return search.packings[question]


def _group_ns(target: Expr, value: Expr, width: int, register: int, search: MoveSearch) -> float | None:
    """Return the cached cost of moving elements that are contiguous in the buffer. Units: ns per element."""
    alike = hide_position(value, is_lane)
    question = (
        target.dtype,
        (not search.homes and lane_layout(alike, search.strides)) or alike,
        width,
        register,
    )
    if question not in search.groups:
        found = _deliver(target, alike, "", width, register, search)
        search.groups[question] = found.cost_ns if found is not None else None
    return search.groups[question]


# Operations whose partial results may be put together; a sum starts at zero, the others at what is there.
JOINABLE = ("add", "max", "min")
# Elements joined at once: a multiple of what any register holds.
BLOCK = 64
COUNTER = "~i"


def combine_elements(operand: OperandTile, buffer: str, op: str, here: Index, other: Index) -> Copy:
    """Return the copy that combines elements of a buffer by `op`: those from `here` on with those from `other` on."""
    zeros = tuple(ZERO for _ in operand.cell_shape)
    mine, theirs = (Read(buffer, (at + Index.of(COUNTER), *zeros), operand.dtype) for at in (here, other))
    return Copy(mine, Call(op, (mine, theirs), operand.dtype), (COUNTER,))


def find_joining(
    operand: OperandTile, buffer: str, op: str, here: Index, other: Index, search: MoveSearch
) -> Transfer | None:
    """Return the cheapest way to combine two blocks of partial results, or None."""
    copy = combine_elements(operand, buffer, op, here, other)
    return find_transfer(copy, {COUNTER: Index.of(BLOCK)}, search)
