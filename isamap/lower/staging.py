"""Staging: an operand's tiles copied into a workspace buffer in the order in which the loops below read them.

By rows, if a schedule says so, each row of the array is gone along before the next one is:

    for n in 2:                        for k in 16:
      for k in 16:                       for k' in 16:
        for k' in 16:             ->       for n in 2:
          copy B[16*k + k', 32*n + 32]       copy B[16*k + k', 32*n + 32]

A buffer holds whole tiles: what lies outside the axes is the operand's fill there, mostly zero, so that code
reading it needs no tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, prod

from isamap.ir import Index, Read, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.copies import block_loops, block_of, copy_loops, group_loops
from isamap.lower.fills import cleared_tile, covered
from isamap.lower.lines import Along, along_rows, by_lines, sunk
from isamap.lower.passing import passing
from isamap.lower.place import Place, at_least, divides, left_inside
from isamap.lower.program import Buffer, Condition, For, If, Names, Node
from isamap.lower.turning import joined_loops, turned_by, turned_tiles
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
    find_block,
    find_packing,
    find_transfer,
    shown_axes,
)
from isamap.plan.loops import LoopStep
from isamap.plan.schedule import Stage


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging buffer. `loops` are the loops (by number) that count its tiles, with elements per count;
    `by_rows` says that copies go along whole rows of its array.

    Units: `start`, where the copy in use begins, and `size`, how large a copy is, in elements.
    """

    buffer: str
    operand: OperandTile
    loops: tuple[tuple[int, Index], ...]
    start: Index = ZERO
    size: Index = ZERO
    by_rows: bool = False

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
        suppliers.steps[name] = {OFFSET: prod(operand.cell_shape)}
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
    return Staged(buffer, operand, tuple(placed), size=step, by_rows=stage is not None and stage.by_rows)


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
    along = along_rows(tensor, staged.operand.axes)
    known = staged.operand, numbers, tile, loops, suppliers
    chains = joined_loops(*known, back=back)
    turns = turned_tiles(*known, back=back, chains=chains)
    chains = {first: chain for first, chain in chains.items() if chain[-1] in turns}
    return _TileLoops(staged, tile, loops, suppliers, names, back, along, turns, chains).nest(
        numbers, place, {}
    )


@dataclass(frozen=True, slots=True)
class _TileLoops:
    """The loops around copies of tiles. `turns` are those whose iterations blocks take, as `turned_tiles`;
    `chains` those that one counter goes through for them, as `joined_loops`.
    """

    staged: Staged
    tile: Tile
    loops: tuple[LoopStep, ...]
    suppliers: Suppliers
    names: Names
    back: Written | None
    along: Mapping[str, int]
    turns: Mapping[int, tuple[str, tuple[int, ...]]]
    chains: Mapping[int, tuple[int, ...]]
    inner: set[str] = field(default_factory=set[str])

    def nest(self, remaining: list[int], here: Place, turned: Mapping[str, int]) -> tuple[Node, ...]:
        """The loops of these numbers; `turned` are the tiles that blocks have along axes around."""
        if not remaining:
            return self.copied(here, turned)
        chain = self.chains.get(remaining[0], ())
        if chain and all(self.is_whole(number, here) for number in chain[1:]):
            here, remaining = self.through(chain, remaining, here)
        number, rest = remaining[0], remaining[1:]
        loop = self.loops[number]
        left, base = here.left[loop.axis], here.position[loop.axis]
        if left.ceildiv(loop.step).value == 1:
            inside = here.enter(number, loop.axis, base, index_min(loop.step, left), ZERO)
            return self.nest(rest, inside, turned)
        nodes: tuple[Node, ...] = ()
        first = ZERO
        for size in self.turns[number][1] if number in self.turns else ():
            more, taken = self.blocks(number, rest, here, turned, size, first)
            nodes, first = nodes + more, first + taken
        # Whole tiles have no conditions about their columns, so that all loops over rows go around them.
        apart = self.staged.by_rows and loop.axis in self.along and not divides(left, loop.step)
        trips = (left.floordiv(loop.step) if apart else left.ceildiv(loop.step)) - first
        last = self.last(number, rest, here, turned) if apart else ()
        if trips.value == 0:
            return (*nodes, *last)
        variable = self.names.fresh(loop.axis)
        counter = first + Index.of(variable)
        position = base + counter * loop.step
        whole = Index.of(loop.step)
        length = whole if apart else left_inside(self.tile, self.loops, number, here, position)
        body = self.nest(rest, here.enter(number, loop.axis, position, length, counter), turned)
        return (*nodes, *self.over(loop.axis, variable, trips, loop.step, body), *last)

    def is_whole(self, number: int, here: Place) -> bool:
        """Whether a loop goes through all that there is of its axis, also where threads share it."""
        axis = self.loops[number].axis
        return here.left[axis] == self.tile.axis(axis).extent

    def through(self, chain: tuple[int, ...], remaining: list[int], here: Place) -> tuple[Place, list[int]]:
        """All iterations of loops that go along one row, given to the innermost one."""
        axis = self.loops[chain[-1]].axis
        total = here.left[axis]
        for number in chain[:-1]:
            outer = self.loops[number].axis
            total = total * here.left[outer]
            here = here.enter(number, outer, here.position[outer], ONE, ZERO)
        here = replace(here, left={**here.left, axis: total})
        return here, [number for number in remaining if number not in chain[:-1]]

    def last(self, number: int, rest: list[int], here: Place, turned: Mapping[str, int]) -> tuple[Node, ...]:
        """What is left behind the last whole step of a loop."""
        axis, step = self.loops[number].axis, self.loops[number].step
        left = here.left[axis]
        whole = left.floordiv(step)
        inside = here.enter(number, axis, here.position[axis] + whole * step, left - whole * step, whole)
        body = self.nest(rest, inside, turned)
        return body if left.value is not None else (If(((whole * step, "<", left),), body),)

    def blocks(
        self, number: int, rest: list[int], here: Place, turned: Mapping[str, int], size: int, first: Index
    ) -> tuple[tuple[Node, ...], Index]:
        """The loop over whole blocks of so many tiles behind the first ones, and how many tiles they take."""
        (axis, _), step = self.turns[number], self.loops[number].step
        count = (here.left[axis] - first * step).floordiv(step * size)
        if count.value == 0:
            return (), ZERO
        variable = self.names.fresh(axis)
        now = first + Index.of(variable) * size + Index.of(f"+{axis}")
        inside = here.enter(number, axis, here.position[axis] + now * step, Index.of(step), now)
        body = self.nest(rest, inside, {**turned, axis: size})
        return self.over(axis, variable, count, step * size, body), count * size

    def over(
        self, axis: str, variable: str, trips: Index, elements: int, body: tuple[Node, ...]
    ) -> tuple[Node, ...]:
        """The loop whose iterations take so many elements of an axis."""
        if axis not in self.along:
            return (For(variable, trips, body),)
        operand = self.staged.operand
        tile_bytes = prod(operand.cell_shape) * operand.dtype.size_bytes
        written = ceil(elements / self.tile.axis(axis).tile * tile_bytes)
        rows = Along(axis, variable, trips, elements * self.along[axis], written)
        if self.staged.by_rows:
            self.inner.add(variable)
            return sunk(rows, body, self.inner, self.names)
        return by_lines(rows, body, self.inner, line_bytes(self.suppliers.machine), self.names)

    def copied(self, here: Place, turned: Mapping[str, int]) -> tuple[Node, ...]:
        """One tile, or a block of them; where a loop has too few tiles left for it, those of the others."""
        whole = len(turned) == len(self.turns)
        nodes = copy_tile(
            self.staged.operand,
            self.staged.buffer,
            self.staged.offset(here.trips),
            self.tile,
            here,
            self.suppliers,
            self.names,
            back=self.back,
            turned=turned if whole else None,
        )
        return nodes if whole else turned_by(turned, nodes, self.names)


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
    turned: Mapping[str, int] | None = None,
) -> tuple[Node, ...]:
    """One tile between the kernel's arrays and a buffer, where what is not valid becomes its fill.

    With `turned`, a block of so many tiles along axes, which symbols `+axis` count.
    """
    used = shown_axes(operand, tile)
    copy = copy_by_axes(operand, buffer, offset, tile, place.position, back=back)
    if back is None and operand.subject == operand.fill and buffer in suppliers.homes:
        return cleared_tile(operand, buffer, offset, suppliers, names)
    before: tuple[Node, ...] = ()
    if back is not None:
        copy, before = passing(copy, operand, buffer, back, tile, place, suppliers, names)

    lefts = {a: place.left[a.name] for a in used}
    open_axes = [a for a, left in lefts.items() if not at_least(left, a.tile)]

    def cleared() -> tuple[Node, ...]:
        if back is not None:
            return ()
        first = covered(operand, copy, _counts(lefts, partly=True)) if buffer in suppliers.homes else 0
        return cleared_tile(operand, buffer, offset, suppliers, names, first)

    def run(partly: bool) -> tuple[Node, ...]:
        counts = _counts(lefts, partly)
        if not partly and back is None and fills_all(operand, tile):
            packed = _pack(operand, buffer, offset, copy, counts, place, suppliers, names)
            if packed is not None:
                return packed
        return copy_loops(copy, counts, suppliers, names)

    def over_tiles(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return turned_by(turned or {}, nodes, names)

    whole = over_tiles(() if fills_all(operand, tile) else cleared())
    if turned:
        whole += _block(copy, used, turned, suppliers, names)
    else:
        whole += run(False)
    if not open_axes:
        return (*before, *whole)
    if any(left.value is not None and left.value < a.tile for a, left in lefts.items()):
        return (*before, *over_tiles((*cleared(), *run(True))))
    nodes: list[Node] = [*before, If(tuple((Index.of(a.tile), "<=", lefts[a]) for a in open_axes), whole)]
    nodes += [
        If(conditions, over_tiles((*cleared(), *run(True)))) for conditions in _first_short(open_axes, lefts)
    ]
    return tuple(nodes)


def _counts(lefts: Mapping[LoopAxis, Index], partly: bool) -> dict[str, Index]:
    """How far the counters of a tile go: over all of it, or `partly` as far as its axes do."""
    return {
        f"~{a.name}": index_min(a.tile, left) if partly else Index.of(a.tile) for a, left in lefts.items()
    }


def _block(
    copy: Copy, used: list[LoopAxis], turned: Mapping[str, int], suppliers: Suppliers, names: Names
) -> tuple[Node, ...]:
    """A whole tile and those after it, which blocks take along axes that are `turned`."""
    across = Copy(copy.target, copy.value, (*copy.counters, *(f"+{axis}" for axis in turned)))
    inside = {f"~{a.name}": a.tile for a in used}
    found = find_block(across, inside, suppliers, {f"+{axis}": tiles for axis, tiles in turned.items()})
    assert found is not None, "blocks were looked for before"
    return block_loops(found, {counter: Index.of(n) for counter, n in inside.items()}, names)


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
    others = find_transfer(by_axes, counts, suppliers), block_of(by_axes, counts, suppliers)
    if any(other is not None and other.cost_ns <= found.cost_ns for other in others):
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
