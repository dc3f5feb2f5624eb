"""Staging: an operand's tiles copied into a workspace buffer in the order in which the loops below read them.

A buffer holds whole tiles: what lies outside the axes is the operand's fill there, mostly zero, so that code
reading it needs no tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod

from isamap.ir import Index, Read, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.copies import Along, along_rows, by_lines, clear, copy_loops, group_loops
from isamap.lower.place import Place, at_least, left_inside
from isamap.lower.program import Buffer, Condition, For, If, Names, Node
from isamap.machine import line_bytes
from isamap.match import (
    OFFSET,
    Copy,
    LoopAxis,
    OperandTile,
    Suppliers,
    Tile,
    Written,
    copy_by_axes,
    copy_by_cells,
    fills_all,
    find_packing,
    find_transfer,
    shown_axes,
)
from isamap.plan.loops import LoopStep
from isamap.plan.schedule import Stage


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging buffer. `loops` are the loops (by number) that count its tiles, with elements per count.

    Units: `start`, where the copy in use begins, and `size`, how large a copy is, in elements.
    """

    buffer: str
    operand: OperandTile
    loops: tuple[tuple[int, Index], ...]
    start: Index = ZERO
    size: Index = ZERO

    def offset(self, trips: Mapping[int, Index]) -> Index:
        """Where the tile at these counters starts. Units: elements."""
        total = self.start
        for number, stride in self.loops:
            total = total + trips[number] * stride
        return total

    def elements(self) -> Read:
        """The tile's element at its coordinates."""
        return Read(self.buffer, (Index.of(OFFSET), *self.operand.cells), self.operand.dtype)


def claim_buffer(
    operand: OperandTile,
    elements: Index,
    suppliers: Suppliers,
    names: Names,
    why: str,
    stage: Stage | None = None,
) -> str:
    """The name of a new buffer of whole tiles of an operand, in the workspace or its stage's scratchpad."""
    name = names.fresh(f"{operand.name}_tiles")
    memory, address = (stage.memory, stage.address) if stage is not None and stage.memory else ("", None)
    names.buffers.append(Buffer(name, operand.dtype, elements, why, address, None, memory))
    if memory:
        suppliers.homes[name] = memory
    strides: list[Index] = []
    step = ONE
    for size in reversed(operand.cell_shape):
        strides.insert(0, step)
        step = step * size
    suppliers.strides[name] = (ONE, *strides)
    return name


def stage_at(
    operand: OperandTile,
    depth: int,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    suppliers: Suppliers,
    names: Names,
    *,
    copies: int = 1,
    stage: Stage | None = None,
) -> Staged:
    """A buffer for all tiles of an operand that the loops from `depth` on read, so many times over."""
    region: dict[str, Index] = {}
    for axis in tile.axes:
        steps = [s.step for s in loops[:depth] if s.axis == axis.name]
        region[axis.name] = index_min(steps[-1], axis.extent) if steps else axis.extent
    counts: list[tuple[int, Index]] = []
    for number, loop in enumerate(loops):
        if number >= depth and loop.axis in operand.axes:
            counts.append((number, region[loop.axis].ceildiv(loop.step)))
            region[loop.axis] = index_min(loop.step, region[loop.axis])
    step = Index.of(prod(operand.cell_shape))
    placed: list[tuple[int, Index]] = []
    for number, count in reversed(counts):
        placed.insert(0, (number, step))
        step = step * count
    why = "staged tiles" if copies == 1 else f"staged tiles, {copies} times"
    buffer = claim_buffer(operand, step * copies, suppliers, names, why, stage)
    return Staged(buffer, operand, tuple(placed), size=step)


def copy_tiles(
    staged: Staged,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    place: Place,
    suppliers: Suppliers,
    names: Names,
    *,
    back: Written | None = None,
) -> tuple[Node, ...]:
    """Loops that copy every tile of a staged operand into its buffer, or write something from it."""
    numbers = [n for n, _ in staged.loops]
    tensor = staged.operand.subject if back is None else back.target_at
    along, inner = along_rows(tensor, staged.operand.axes), set[str]()
    line = line_bytes(suppliers.machine)
    tile_bytes = prod(staged.operand.cell_shape) * staged.operand.dtype.size_bytes

    def nest(remaining: list[int], here: Place) -> tuple[Node, ...]:
        if not remaining:
            offset = staged.offset(here.trips)
            return copy_tile(staged.operand, staged.buffer, offset, tile, here, suppliers, names, back=back)
        number, rest = remaining[0], remaining[1:]
        loop = loops[number]
        left = here.left[loop.axis]
        variable = names.fresh(loop.axis)
        counter = Index.of(variable)
        if left.ceildiv(loop.step).value == 1:
            inside = here.enter(number, loop.axis, here.position[loop.axis], index_min(loop.step, left), ZERO)
            return nest(rest, inside)
        position = here.position[loop.axis] + counter * loop.step
        length = left_inside(tile, loops, number, here, position)
        trips = left.ceildiv(loop.step)
        body = nest(rest, here.enter(number, loop.axis, position, length, counter))
        if loop.axis not in along:
            return (For(variable, trips, body),)
        tiles = loop.step / tile.axis(loop.axis).tile
        rows = Along(loop.axis, variable, trips, loop.step * along[loop.axis], ceil(tiles * tile_bytes))
        return by_lines(rows, body, inner, line, names)

    return nest(numbers, place)


def copy_tile(
    operand: OperandTile,
    buffer: str,
    offset: Index,
    tile: Tile,
    place: Place,
    suppliers: Suppliers,
    names: Names,
    *,
    back: Written | None,
) -> tuple[Node, ...]:
    """One tile between the kernel's arrays and a buffer, where what is not valid becomes its fill."""
    used = shown_axes(operand, tile)
    copy = copy_by_axes(operand, buffer, offset, tile, place.position, back=back)
    cells = prod(operand.cell_shape)

    def cleared() -> tuple[Node, ...]:
        if back is not None:
            return ()
        if operand.fill.value == 0:
            return clear(buffer, operand.dtype, offset, cells, suppliers, names)
        inner = (ZERO for _ in operand.cell_shape)
        there = Read(buffer, (offset + Index.of("~cell"), *inner), operand.dtype)
        filled = Copy(there, operand.fill, ("~cell",))
        return copy_loops(filled, {"~cell": Index.of(cells)}, suppliers, names)

    lefts = {a: place.left[a.name] for a in used}
    open_axes = [a for a, left in lefts.items() if not at_least(left, a.tile)]

    def run(partly: bool) -> tuple[Node, ...]:
        counts = {
            f"~{a.name}": index_min(a.tile, left) if partly else Index.of(a.tile) for a, left in lefts.items()
        }
        if not partly and back is None and fills_all(operand, tile):
            packed = _pack(operand, buffer, offset, copy, counts, place, suppliers, names)
            if packed is not None:
                return packed
        return copy_loops(copy, counts, suppliers, names)

    whole = (*(() if fills_all(operand, tile) else cleared()), *run(False))
    if not open_axes:
        return whole
    if any(left.value is not None and left.value < a.tile for a, left in lefts.items()):
        return (*cleared(), *run(True))
    nodes: list[Node] = [If(tuple((Index.of(a.tile), "<=", lefts[a]) for a in open_axes), whole)]
    nodes += [If(conditions, (*cleared(), *run(True))) for conditions in _first_short(open_axes, lefts)]
    return tuple(nodes)


def _pack(
    operand: OperandTile,
    buffer: str,
    offset: Index,
    by_axes: Copy,
    counts: Mapping[str, Index],
    place: Place,
    suppliers: Suppliers,
    names: Names,
) -> tuple[Node, ...] | None:
    """A whole tile written group by group in the order of the buffer; None where by axes is no dearer."""
    by_cells = copy_by_cells(operand, buffer, Index.of(OFFSET))
    if by_cells is None:
        return None
    found = find_packing(by_cells, operand.shape, suppliers)
    if found is None:
        return None
    other = find_transfer(by_axes, counts, suppliers)
    if other is not None and other.cost_ns <= found.cost_ns:
        return None
    trips = {c: Index.of(n) for c, n in zip(by_cells.counters, operand.shape, strict=True)}
    trips[by_cells.counters[-1]] = Index.of(operand.shape[-1] // found.width)
    around = {f"@{n}": p for n, p in place.position.items()} | {OFFSET: offset}
    return group_loops(found, trips, {}, around, names)


def _first_short(axes: list[LoopAxis], lefts: Mapping[LoopAxis, Index]) -> Iterator[tuple[Condition, ...]]:
    """Conditions of which exactly one holds when some axis has less than a tile left: the first such axis."""
    before: tuple[Condition, ...] = ()
    for axis in axes:
        yield (*before, (lefts[axis], "<", Index.of(axis.tile)))
        before = (*before, (Index.of(axis.tile), "<=", lefts[axis]))
