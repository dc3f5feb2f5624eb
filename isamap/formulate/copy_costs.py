"""Price the copy of an element between the kernel's arrays and a staging buffer.

bf16 sums that are staged in f32 are widened sixteen at a time: 0.03 ns an element in, 0.04 ns out.

An array that is read or written in place may end in the middle of a tile: 35 elements in registers of 8 are
four whole tiles, and three elements. If the machine has an instruction for a part of a register, that
instruction moves the three. Otherwise they go through a tile of their own, element by element, each time
the tile is used, and the load from it waits for these stores: 6 ns for three of f32 on AVX2, and 0.14 for a
whole register (docs/decisions/0002-tails.md). The price is the mean over all tiles, each axis by itself.
Statements that only assign, and operands that no buffer may store, are priced as if they ended with a tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from isamap.formulate.load_times import intervals_ns, unit_ns
from isamap.ir import Cast, Index, Read, typical_value
from isamap.ir.index import ONE, ZERO
from isamap.match import LoadRequest, MoveSearch, OperandMove, Present, find_operand_store, hide_position
from isamap.match.moves.joined import tiles_along
from isamap.match.moves.transfers import copy_by_axes, copy_by_cells, packing_ns, shown_axes, transfer_ns
from isamap.match.moves.transposed_blocks import find_tiles_block
from isamap.match.patterns.address import Location, is_lane
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, accumulator_store, bring, in_tiles
from isamap.match.tiles.written_values import Written, get_own_sum
from isamap.plan.problem import TileOperand, with_fields
from isamap.source import add_up, replace


def pack_ns(
    operand: OperandTile, direct: OperandMove | Present | Location | None, tile: Tile, search: MoveSearch
) -> float:
    """Return the time to copy one element into a staging buffer.

    It is that of the cheaper way: several tiles at once, or tile by tile. The last tile along an axis may be partial:
    it is copied by registers along other axes where the machine has them, else one element at a time.
    """
    by_tiles = _pack_tile_ns(operand, direct, search)
    block = find_tiles_block(operand, tile, tiles_along(operand, tile, search), search)
    whole = by_tiles if block is None else min(by_tiles, block.cost_ns)
    return whole + add_up(share * max(0.0, ns - whole) for share, ns in _parts(operand, tile, search))


def _parts(operand: OperandTile, tile: Tile, search: MoveSearch) -> Iterator[tuple[float, float]]:
    """Yield for each axis the share of elements in short tiles at its end, and the cost of an element there."""
    buffer = in_tiles(operand, search).buffer
    position = {axis.name: Index.of(f"@{axis.name}") for axis in tile.axes}
    copy = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=None)
    axes = shown_axes(operand, tile)
    whole = {f"~{axis.name}": Index.of(axis.tile) for axis in axes}
    for axis in axes:
        extent = axis.extent.value
        if extent is not None and extent % axis.tile:
            counts = {**whole, f"~{axis.name}": Index.of(f"~{axis.name}")}
            ns = transfer_ns(copy, counts, search)
            yield extent % axis.tile / extent, element_ns(operand, search) if ns is None else ns


def _pack_tile_ns(
    operand: OperandTile, direct: OperandMove | Present | Location | None, search: MoveSearch
) -> float:
    """Return the time to copy one tile: by registers where that is possible, otherwise by elements."""
    elements = prod(operand.cell_shape)
    if isinstance(direct, OperandMove) and elements == prod(operand.shape):
        stored = find_operand_store(
            search,
            in_tiles(operand, search),
            operand.held,
            operand.memory,
            operand.dtype,
            operand.request({}),
        )
        if stored is not None:
            return (direct.cost_ns + stored.cost_ns) / elements
    cells = copy_by_cells(operand, in_tiles(operand, search).buffer, ZERO)
    packed_ns = packing_ns(cells, operand.shape, search) if cells is not None else None
    return element_ns(operand, search) if packed_ns is None else packed_ns


def element_ns(operand: OperandTile, search: MoveSearch) -> float:
    """Return the time to copy a single element into a buffer."""
    element = hide_position(operand.subject, lambda _: False)
    single = LoadRequest(element, "", operand.dtype, (), ())
    cell = Read(
        in_tiles(operand, search).buffer, tuple(ZERO for _ in range(len(operand.shape) + 1)), operand.dtype
    )
    moved = find_operand_store(search, cell, element, "", operand.dtype, single)
    return moved.cost_ns if moved is not None else search.machine.model.unpriced_move_ns


def can_copy(operand: OperandTile, tile: Tile, search: MoveSearch) -> bool:
    """Return whether tiles, also partial ones, can be copied into a buffer.

    If the machine computes a value only in whole registers, a partial tile can only be copied element by
    element.
    """
    buffer = in_tiles(operand, search).buffer
    position = {axis.name: Index.of(f"@{axis.name}") for axis in tile.axes}
    copy = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=None)
    if transfer_ns(replace(copy, counters=()), {}, search) is not None:
        return True
    if transfer_ns(copy, dict.fromkeys(copy.counters, ONE), search) is not None:
        return True
    axes = shown_axes(operand, tile)
    if not all(a.extent.value and a.extent.value % a.tile == 0 for a in axes):
        return False
    counts = {f"~{axis.name}": Index.of(axis.tile) for axis in axes}
    if transfer_ns(copy, counts, search) is not None:
        return True
    cells = copy_by_cells(operand, buffer, ZERO)
    return cells is not None and packing_ns(cells, operand.shape, search) is not None


def pack_held_ns(acc: OperandTile, tile: Tile, search: MoveSearch) -> float:
    """Return the mean time to copy one element of an accumulator into its buffer, or back."""
    ways = [_copied_ns(acc, tile, search, None)]
    if isinstance(acc.elements, Cast):  # else the way back is the same
        ways.append(_copied_ns(acc, tile, search, get_own_sum(tile)))
    unpriced_ns = search.machine.model.unpriced_move_ns
    return add_up(unpriced_ns if ns is None else ns for ns in ways) / len(ways)


def _copied_ns(acc: OperandTile, tile: Tile, search: MoveSearch, back: Written | None) -> float | None:
    buffer = in_tiles(acc, search).buffer
    position = {axis.name: Index.of(f"@{axis.name}") for axis in tile.axes}
    counts = {f"~{axis.name}": Index.of(axis.tile) for axis in shown_axes(acc, tile)}
    copy = copy_by_axes(acc, buffer, Index.of(OFFSET), tile, position, back=back)
    by_tiles = transfer_ns(copy, counts, search)
    block = find_tiles_block(acc, tile, {}, search, back=back)
    return min((ns for ns in (by_tiles, block and block.cost_ns) if ns is not None), default=None)


def with_ends(
    described: TileOperand, operand: OperandTile, tile: Tile, search: MoveSearch, profile: Mapping[str, int]
) -> TileOperand:
    """Return the operand with its mean in-place times, which include the partial tiles at axis ends."""
    if described.costs.direct_ns is None or described.costs.staged_ns is None:
        return described
    more_ns, busy_ns = 0.0, 0.0
    for name in operand.axes:
        axis = tile.axis(name)
        extent = typical_value(axis.extent, profile) or 1
        left, tiles = extent % axis.tile, -(-extent // axis.tile)
        cut = Index.of(left) if axis.extent.value is not None else Index.of(f"#{name}")
        if not left:
            continue
        part_ns, part_busy_ns = _part_ns(described, operand, tile, name, cut, search)
        if part_ns is None:
            elements = prod(operand.cell_shape) * left / axis.tile
            ways = 2 if described.is_accumulator else 1
            part_ns = ways * elements * element_ns(operand, search) + described.costs.staged_ns
            part_ns += search.machine.loops.joined_ns
        more_ns += max(0.0, part_ns - described.costs.direct_ns) / tiles
        busy_ns += max(0.0, part_busy_ns - described.costs.direct_busy_ns) / tiles
    return with_fields(
        described,
        direct_ns=described.costs.direct_ns + more_ns,
        direct_busy_ns=described.costs.direct_busy_ns + busy_ns,
    )


def _part_ns(
    described: TileOperand, operand: OperandTile, tile: Tile, name: str, left: Index, search: MoveSearch
) -> tuple[float | None, float]:
    """Return the load time of the remainder at an axis' end, and the part of it on the computing unit.

    Sums are also stored back. The first is None if no instructions do it.
    """
    missing = None, described.costs.direct_busy_ns
    if name in operand.scattered:
        return missing
    request = operand.request({name: left}, filled=tile.axis(name).is_reduction)
    part = bring(search, tile, operand, request)
    if part is None:
        return missing
    if operand is not tile.accumulator:
        unit = search.machine.instructions[tile.mapping.instruction].cost.unit
        return intervals_ns(part, search), unit_ns(part, unit, search)
    target, value = accumulator_store(tile)
    there = hide_position(target, is_lane)
    assert isinstance(there, Read), "sums go to where an array has them"
    back = find_operand_store(search, there, value, "", None, request)
    return missing if back is None else (described.costs.direct_ns, described.costs.direct_busy_ns)
