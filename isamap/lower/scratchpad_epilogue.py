"""Emit the epilogue of scratchpad sums, which other scratchpads hold while it is computed.

dma_in_f32 x=scale z=c_out1; requantise_columns x=c_tiles0 s=c_out1 y=c_out0; dma_out_i8 x=c_out0 y=Y
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from isamap import match as matching
from isamap.ir import ZERO, DType, Index, Read, index_min, substitute_expr, substitute_read
from isamap.ir.walk import map_reads
from isamap.lower.copies import clear, copy_loops
from isamap.lower.load_issues import Emitter
from isamap.lower.place import Place, partial_axes, start_of
from isamap.lower.program import Buffer, Names, Node, Value
from isamap.source.records import replace
from isamap.transform import reads

WHY = "tiles on their way out"
# Of so many copies neighbours along two axes may have the same one.
MOST_ALIKE = 2


def route_through_scratchpad(
    copy: matching.Copy,
    operand: matching.OperandTile,
    buffer: str,
    written: matching.Written,
    tile: matching.Tile,
    place: Place,
    search: matching.MoveSearch,
    names: Names,
    held: Value | None = None,
) -> tuple[matching.Copy, tuple[Node, ...]]:
    """Return the copy that stores a tile's result, and the nodes that compute the whole tile before it.

    They compute from a register if the sums are `held` in one, else from the buffer.
    """
    home, found = search.homes.get(buffer), matching.stored_way_out if held is None else matching.held_way_out
    way = found(operand, written, tile, home, search) if home is not None else None
    if way is None or not way.buffers:
        return copy, ()
    own = [_buffer(way, number, operand.name, tile, search, names) for number in range(len(way.buffers))]
    used, short = matching.shown_axes(operand, tile), {f"~{axis}" for axis in partial_axes(tile.axes, place)}
    tiles = [place.position[a.name].floordiv(a.tile) for a in _axes_of_tiles(operand, tile)[:2]]
    starts = [_start(between, tiles, place) for between in way.buffers]
    passage = matching.through(copy, buffer, own, starts, cut=way.cut)
    assert passage is not None, "planning has found a way through buffers"
    left = {f"~{a.name}": index_min(a.tile, place.left[a.name]) for a in used}
    counts = [
        _valid_counts(part, matching.computed_counts(operand, tile), left, search)
        for part in passage.computed
    ]
    short &= {c for c in left if held is not None or any(n[c] != left[c] for n in counts)}
    nodes: tuple[Node, ...] = ()
    for part, between, start in zip(passage.brought, way.buffers[1:], starts[1:], strict=False):
        if between.kept:
            continue
        if short & set(part.counters):
            there = part.target
            nodes += clear(there.buffer, there.dtype, start, prod(between.shape), search, names)
        nodes += _move_copy(part, left, search, names)
    if held is None:
        for part, own_counts in zip(passage.computed, counts, strict=True):
            nodes += _move_copy(part, own_counts, search, names)
        return passage.out, nodes
    delivered = matching.find_delivered(copy, buffer, operand, own, starts, search)
    assert delivered is not None, "planning has found what computes it from registers"
    emitter = Emitter(names)
    emitter.deliver(delivered, {}, held)
    return passage.out, (*nodes, *emitter.nodes)


def computed_in(
    operand: matching.OperandTile,
    buffer: str,
    offset: Index,
    tile: matching.Tile,
    place: Place,
    search: matching.MoveSearch,
    names: Names,
) -> tuple[Node, ...] | None:
    """Return nodes that compute a tile of an input into its buffer in a scratchpad, or None if it is copied."""
    ways = matching.computed_inputs(tile, search) if buffer in search.homes else {}
    if operand.name not in ways:
        return None
    tiles = [place.position[a.name].floordiv(a.tile) for a in _axes_of_tiles(operand, tile)[:2]]
    behind, own, starts = dict[str, int](), dict[str, str](), dict[str, Index]()
    for name, way in ways.items():
        for each in way.buffers:
            behind[each.memory] = behind.get(each.memory, 0) + each.size_bytes
            if name == operand.name:
                at = (search.machine.memories[each.memory].capacity_bytes or 0) - behind[each.memory]
                own[each.name] = _claim_buffer(each, at, f"{operand.name}_in", search, names)
                step_elements = each.copy_bytes // each.dtype.size_bytes
                starts[each.name] = _iteration(tiles, each.copies) * step_elements
    lengths = matching.computed_counts(operand, tile)
    left = {c: index_min(n, place.left[c[1:]]) for c, n in lengths.items()}
    short = {f"~{axis}" for axis in partial_axes(tile.axes, place)}
    here = {f"@{axis}": position for axis, position in place.position.items()}
    nodes: tuple[Node, ...] = ()

    def placed(read: Read) -> Read:
        if read.buffer not in own:
            return read
        return replace(read, buffer=own[read.buffer], index=(starts[read.buffer], *read.index[1:]))

    for step in ways[operand.name].steps:
        is_last = step.target.buffer not in own
        target = replace(step.target, buffer=buffer) if is_last else placed(step.target)
        bound = here | {matching.OFFSET: offset}
        value = substitute_expr(map_reads(step.value, placed), bound)
        copy = matching.Copy(substitute_read(target, bound), value, step.counters)
        brought = any(read.buffer not in own.values() for read in reads(value))
        open_ = {c for c in lengths if c[1:] in tile.run_time_lengths}
        if brought and not is_last and (short - open_) & lengths.keys():
            nodes += _clear_rest(
                target.buffer, target.dtype, copy.target.index[0], prod(operand.cell_shape), search, names
            )
        counts = {c: left[c] if brought or c in open_ else n for c, n in lengths.items()}
        nodes += copy_loops(copy, counts, search, names)
    return nodes


def _valid_counts(
    copy: matching.Copy, whole: dict[str, Index], left: dict[str, Index], search: matching.MoveSearch
) -> dict[str, Index]:
    """Return the elements to compute of a tile: the valid ones along each axis that an instruction counts.

    Elements behind them would occupy bytes of the scratchpad that no instruction reads.
    """
    counts, dma = dict(whole), matching.find_dma(copy, whole, search)
    for counter in copy.counters:
        part = matching.find_dma(copy, tried := counts | {counter: left[counter]}, search)
        if part is not None and dma is not None and part.issues <= dma.issues:
            counts = tried
    return counts


def _clear_rest(
    buffer: str, dtype: DType, offset: Index, elements: int, search: matching.MoveSearch, names: Names
) -> tuple[Node, ...]:
    """Return nodes that zero a buffer with an unwritten remainder, or () if no instruction writes zeros."""
    if matching.find_clearing(search, search.homes[buffer], dtype.name) is None:
        return ()
    return clear(buffer, dtype, offset, elements, search, names)


def _claim_buffer(
    each: matching.InBetween, offset: int, stem: str, search: matching.MoveSearch, names: Names
) -> str:
    """Return the program's name of an intermediate buffer."""
    elements = Index.of(each.size_bytes // each.dtype.size_bytes)
    required = Buffer("", each.dtype, elements, "tiles on their way in", offset, None, each.memory)
    known = next((b.name for b in names.buffers if replace(b, name="") == required), None)
    if known is None:
        known = names.fresh(stem)
        names.buffers.append(replace(required, name=known))
        search.homes[known] = each.memory
        search.strides[known] = search.strides[each.name]
    return known


def fill_kept_buffers(
    operand: matching.OperandTile,
    written: matching.Written,
    tile: matching.Tile,
    home: str,
    search: matching.MoveSearch,
    names: Names,
    *,
    held: bool,
) -> tuple[Node, ...]:
    """Return nodes that fill, before the first tile, the buffers that the epilogues of all tiles read."""
    way = (matching.held_way_out if held else matching.stored_way_out)(operand, written, tile, home, search)
    if way is None or not any(between.kept for between in way.buffers):
        return ()
    start, buffer = start_of(tile), matching.in_tiles(operand, search, home).buffer
    own = [_buffer(way, number, operand.name, tile, search, names) for number in range(len(way.buffers))]
    copy = matching.copy_by_axes(operand, buffer, ZERO, tile, start.position, back=written)
    passage = matching.through(copy, buffer, own, cut=way.cut)
    assert passage is not None, "planning has found a way through buffers"
    nodes: tuple[Node, ...] = ()
    for part, between in zip(passage.brought, way.buffers[1:], strict=False):
        if between.kept:
            far = {f"~{between.along}": start.left[between.along]} if between.along else {}
            if far and far[f"~{between.along}"].value != prod(between.shape):
                there = part.target
                nodes += clear(there.buffer, there.dtype, ZERO, prod(between.shape), search, names)
            nodes += _move_copy(part, far, search, names)
    return nodes


def _start(between: matching.BufferOnTheWay, tiles: Sequence[Index], place: Place) -> Index:
    """Return where a tile's part of an intermediate buffer starts. Units: elements."""
    if between.kept:
        return place.position[between.along] if between.along else ZERO
    return _iteration(tiles, between.copies) * between.copy_elements


def _axes_of_tiles(operand: matching.OperandTile, tile: matching.Tile) -> list[matching.LoopAxis]:
    """Return the axes along which an operand has several tiles, axes inside the tile first."""
    axes = [a for a in tile.axes if a.name in operand.axes]
    return sorted((a for a in axes if (a.extent.value or inf) > a.tile), key=lambda a: a.tile == 1)


def _iteration(tiles: Sequence[Index], copies: int) -> Index:
    """Return the number of the buffer copy that a tile uses."""
    if copies > MOST_ALIKE:
        return sum((count * (number + 1) for number, count in enumerate(tiles)), ZERO).mod(copies)
    return sum(tiles, ZERO).mod(copies)


def _move_copy(
    copy: matching.Copy, counts: dict[str, Index], search: matching.MoveSearch, names: Names
) -> tuple[Node, ...]:
    return copy_loops(copy, {c: counts[c] for c in copy.counters}, search, names)


def _buffer(
    way: matching.WayOut,
    number: int,
    stem: str,
    tile: matching.Tile,
    search: matching.MoveSearch,
    names: Names,
) -> str:
    """Return the buffer at the end of a scratchpad, which schedules keep free, shared by all tiles of a type."""
    between = way.buffers[number]
    behind = sum(b.size_bytes for b in way.buffers[: number + 1] if b.memory == between.memory)
    behind += sum(w.bytes_of(between.memory) for w in matching.computed_inputs(tile, search).values())
    offset = (search.machine.memories[between.memory].capacity_bytes or 0) - behind
    elements = Index.of(between.copies * between.copy_elements)
    required = Buffer("", between.dtype, elements, WHY, offset, None, between.memory)
    known = next((b.name for b in names.buffers if replace(b, name="") == required), None)
    if known is not None:
        return known
    name = names.fresh(f"{stem}_out")
    names.buffers.append(replace(required, name=name))
    matching.lay_out_between(name, between, search)
    return name
