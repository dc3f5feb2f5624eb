"""Stage operands: copy tiles into a workspace buffer in the order in which inner loops read them.

If the schedule copies by rows, each row of the array is copied completely before the next one:

    for n in 2:                        for k in 16:
      for k in 16:                       for k' in 16:
        for k' in 16:             ->       for n in 2:
          copy B[16*k + k', 32*n + 32]       copy B[16*k + k', 32*n + 32]

A buffer holds whole tiles: elements outside the axes have the operand's fill, mostly zero, so that code
reading it needs no tails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from math import ceil, gcd, prod

from isamap.ir import Expr, Index, Read, index_min
from isamap.ir.domains import largest_value
from isamap.ir.index import ONE, ZERO
from isamap.ir.walk import reads
from isamap.lower.place import Place, elements_left, is_multiple
from isamap.lower.program import Block, Buffer, Fill, For, If, Issue, Names, Node
from isamap.lower.tile_copies import cleared_tile, copy_tile
from isamap.lower.transposed_tiles import joined_loops, transposed_by, transposed_tiles
from isamap.lower.walk import has_loop, rename_in
from isamap.machine import line_bytes
from isamap.machine.timings import WindowOverlap
from isamap.match import OFFSET, LoopAxis, MoveSearch, OperandTile, Tile, Written
from isamap.match.moves.scratch_buffers import largest
from isamap.match.moves.together import tiles_move
from isamap.match.tiles.overlapping_windows import windows_of
from isamap.plan.decisions import WRITTEN_BYTES
from isamap.plan.schedule import CountedLoop, LoopStep, Stage
from isamap.source.records import dataclass, field, replace

# --- lines ----------------------------------------------------------------------------------------------

# Copy in the order of memory lines: the loop along the rows of a tensor is inside the loops over rows.
#
#     for k in 1024:                     for k in 64:
#       for m in 64:               ->      for m in 64:
#         copy A[m, k]                       for k' in 16:
#                                              copy A[m, 16*k + k']
#
# On the left a line is visited sixteen times, and 63 others in between: where rows lie a power of two of bytes
# apart, those evict it each time. On the right a row is left when its line is done.
#
#     for n in 10:                       for k in 128:
#       for k in 384:                      for n in 10:
#         copy B[k, 48*n + 48]     ->        for k' in 3:
#                                              copy B[3*k + k', 48*n + 48]
#
# Pieces of rows, longer than a line, are copied a few rows at a time: on the left each piece is the first of a
# row that was not read from, on the right it follows the one before it. Copies of 4 MB of f32 for a product
# on Ice Lake, 192 bytes a piece, took 5.8 ms on the left, 2.4 with 8 rows at a time, 2.7 row by row. A few
# rows are as many as WRITTEN_BYTES of the buffer take, where one tile may have pieces of several rows.


Nodes = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AxisLoop:
    """A loop that counts an axis along the rows of a tensor.

    Units: `step_bytes` that each iteration moves on in a row, `written_bytes` of the buffer that it writes
    for each iteration of a loop over rows.
    """

    axis: str
    variable: str
    trips: Index
    step_bytes: int
    written_bytes: int


def along_rows(subject: Expr, axes: Iterable[str]) -> Mapping[str, int]:
    """Return the axes along the rows of the only tensor that is read, each with the bytes of a step.

    Axes that also run along other dimensions are left out. Positions are `@axis`. Operations on the element
    do not matter.
    """
    met = reads(subject)
    if len(met) != 1 or len(met[0].index) < 2:
        return {}
    (read,) = met
    *outer, last = read.index
    rows = frozenset(symbol for index in outer for symbol in index.symbols)
    steps = {axis: last.coefficient(f"@{axis}") for axis in axes if f"@{axis}" not in rows}
    return {axis: read.dtype.size_bytes for axis, step in steps.items() if step and step.value == 1}


def by_lines(loop: AxisLoop, body: Nodes, inner: set[str], line_bytes: int, names: Names) -> Nodes:
    """Return the loop over a body, moved inside the body's loops to advance line by line, around loops over rows.

    The loop is unchanged if lines are unknown, or if the body has no loops. `inner` are variables of loops in
    the body that run along the same rows and stay inside. New ones are added. The iterations of all loops may
    run in any order.
    """
    inner.add(loop.variable)
    iterations = line_bytes // max(1, loop.step_bytes)
    if iterations < 2 or not has_loop(body) or not _can_sink(loop.variable, body, inner):
        return _few_rows(loop, body, inner, names) if line_bytes else (_over(loop, body),)
    each = _iterations_per_slice(loop.trips, iterations)
    if each is None:
        return sink_loop(loop, body, inner, names)
    first, iteration = Index.of(loop.variable) * each, names.fresh(loop.axis)
    exact = loop.trips.value is not None and loop.trips.value % each == 0
    left = Index.of(each) if exact else index_min(each, loop.trips - first)
    inside = rename_in(body, {loop.variable: first + Index.of(iteration)})
    within = sink_loop(replace(loop, variable=iteration, trips=left), inside, inner, names)
    lines = replace(
        loop,
        trips=loop.trips.ceildiv(each),
        step_bytes=each * loop.step_bytes,
        written_bytes=each * loop.written_bytes,
    )
    return _few_rows(lines, within, inner, names)


def _over(loop: AxisLoop, body: Nodes) -> Node:
    return For(loop.variable, loop.trips, body)


def _few_rows(loop: AxisLoop, body: Nodes, inner: Collection[str], names: Names) -> Nodes:
    """Return the loop inside a body's loop over rows, a few rows at a time."""
    each = ceil(WRITTEN_BYTES / max(1, loop.written_bytes))
    match body:
        case (For(rows, trips, within),) if (
            each > 1 and rows not in inner and loop.variable not in trips.symbols
        ):
            if trips.value is not None and trips.value <= 2 * each:
                return (_over(loop, body),)
            first, iteration = Index.of(rows) * each, names.fresh(rows.rstrip("0123456789"))
            exact = trips.value is not None and trips.value % each == 0
            left = Index.of(each) if exact else index_min(each, trips - first)
            near = For(iteration, left, rename_in(within, {rows: first + Index.of(iteration)}))
            return (For(rows, trips.ceildiv(each), (_over(loop, (near,)),)),)
        case _:
            return (_over(loop, body),)


def _iterations_per_slice(trips: Index, iterations: int) -> int | None:
    """Return how many iterations stay together in one slice, or None for all of them."""
    if trips.value is None:
        return iterations
    if trips.value <= 2 * iterations:
        return None
    return next((n for n in range(iterations, iterations // 2, -1) if trips.value % n == 0), iterations)


def sink_loop(loop: AxisLoop, nodes: Nodes, inner: set[str], names: Names) -> Nodes:
    """Return the nodes with a loop moved inside them, around the loops' bodies."""

    def repeat(some: Nodes) -> Node:
        iteration = names.fresh(loop.axis)
        inner.add(iteration)
        return For(iteration, loop.trips, rename_in(some, {loop.variable: Index.of(iteration)}))

    if not _can_sink(loop.variable, nodes, inner):
        return (repeat(nodes),)
    found: list[Node] = []
    for node in nodes:
        match node:
            case For(_, _, body) | If(_, body) | Block(_, body):
                found.append(replace(node, body=sink_loop(loop, body, inner, names)))
            case _:
                found.append(repeat((node,)))
    return tuple(found)


def _can_sink(variable: str, nodes: Nodes, inner: Collection[str]) -> bool:
    """Return whether each node may run for all iterations before the next node runs for any iteration.

    Values in registers are seen by the nodes behind: issues stay together.
    """

    def can(node: Node) -> bool:
        match node:
            case For(own, trips):
                return own not in inner and variable not in trips.symbols
            case If(conditions):
                return all(variable not in side.symbols for a, _, b in conditions for side in (a, b))
            case Block() | Fill():
                return True
            case _:
                return False

    return all(can(node) for node in nodes)


# --- staging --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Staged:
    """A staging buffer, with the loops that count its tiles.

    `loops` are these loops (by number) with elements per count. With `by_rows`, copies go along whole rows of
    its array. Each element of `windows` is stored once. Tiles along the axis `together` are contiguous, so
    that one copy moves several. Units: elements, for `start` (the copy in use) and `size` (of a copy).
    """

    buffer: str
    operand: OperandTile
    loops: tuple[tuple[int, Index], ...]
    start: Index = ZERO
    size: Index = ZERO
    by_rows: bool = False
    windows: tuple[HeldWindow, ...] = ()
    together: str = ""

    def offset(self, trips: Mapping[int, Index]) -> Index:
        """Return the offset of the tile at these counters. Units: elements."""
        total = self.start
        for number, stride in self.loops:
            total = total + trips[number] * stride
        for held in self.windows:
            total = total + held.offset(trips)
        return total

    def elements(self) -> Read:
        """Return the tile's element at its coordinates."""
        return Read(self.buffer, (Index.of(OFFSET), *self.operand.cells), self.operand.dtype)


def claim_buffer(
    operand: OperandTile,
    elements: Index,
    search: MoveSearch,
    names: Names,
    why: str,
    stage: Stage | None = None,
    steps: Iterable[int] = (),
) -> str:
    """Return the name of a new buffer of whole tiles of an operand, in the workspace or its stage's scratchpad.

    In a scratchpad, tiles start at multiples of their size, or at multiples of `steps`.
    """
    name = names.fresh(f"{operand.name}_tiles")
    memory, address = (stage.memory, stage.address) if stage is not None and stage.memory else ("", None)
    names.buffers.append(Buffer(name, operand.dtype, elements, why, address, None, memory))
    if memory:
        search.homes[name] = memory
        search.steps[name] = {OFFSET: gcd(prod(operand.cell_shape), *steps)}
    strides: list[Index] = []
    step = ONE
    for size in reversed(operand.cell_shape):
        strides.insert(0, step)
        step = step * size
    search.strides[name] = (ONE, *strides)
    return name


def stage_at(
    operand: OperandTile,
    depth: int,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    search: MoveSearch,
    names: Names,
    *,
    copies: int = 1,
    stage: Stage | None = None,
) -> Staged:
    """Return a buffer with `copies` copies of all tiles of an operand that the loops from `depth` on read."""
    region: dict[str, Index] = {}
    for axis in tile.axes:
        steps = [s.step for s in loops[:depth] if s.axis == axis.name]
        extent = largest_value(axis.extent, search.ordered)
        region[axis.name] = index_min(steps[-1], extent) if steps else extent
    inside = [(number, loop) for number, loop in enumerate(loops) if number >= depth]
    found = windows_inside(operand, tile, region, search) if stage is not None and stage.memory else ()
    windows, step = in_windows(found, operand, tile, region, inside)
    taps = {held.window.tap for held in windows}
    cells = {held.window.along: held.cell for held in windows}
    together = _joined_axis(operand, tile, search, stage)
    counts: list[tuple[int, Index]] = []
    for number, loop in inside:
        if loop.axis in operand.axes and loop.axis not in taps | cells.keys():
            counts.append((number, region[loop.axis].ceildiv(loop.step)))
            region[loop.axis] = index_min(loop.step, region[loop.axis])
    placed = [(number, cells[loop.axis] * loop.step) for number, loop in inside if loop.axis in cells]
    counts.sort(key=lambda count: loops[count[0]].axis == together)
    for number, count in reversed(counts):
        placed.append((number, step))
        step = step * count
    placed.sort(key=lambda pair: pair[0])
    why = "staged tiles" if copies == 1 else f"staged tiles, {copies} times"
    steps = (held.cell.value * held.window.shift for held in windows if held.cell.value is not None)
    buffer = claim_buffer(operand, step * copies, search, names, why, stage, steps)
    by_rows = stage is not None and stage.by_rows
    known = buffer, operand, tuple(placed)
    return Staged(*known, size=step, by_rows=by_rows, windows=windows, together=together)


def _joined_axis(operand: OperandTile, tile: Tile, search: MoveSearch, stage: Stage | None) -> str:
    """Return the axis along which tiles move into a scratchpad together, or ""."""
    found = tiles_move(operand, tile, stage.memory, search) if stage is not None and stage.memory else None
    return "" if found is None else found.axis


def copy_tiles(
    staged: Staged,
    tile: Tile,
    loops: tuple[LoopStep, ...],
    place: Place,
    search: MoveSearch,
    names: Names,
    *,
    back: Written | None = None,
) -> tuple[Node, ...]:
    """Return the loops that copy every tile of an operand into its buffer, or out of it."""
    if staged.windows:
        assert back is None, "windows are of inputs"
        return _windows_filled(staged, tile, loops, place, search, names)
    numbers = sorted((n for n, _ in staged.loops), key=lambda n: (loops[n].axis == staged.together, n))
    tensor = staged.operand.subject if back is None else back.target_at
    along = along_rows(tensor, staged.operand.axes)
    known = staged.operand, numbers, tile, loops, search
    chains = joined_loops(*known, back=back)
    iterations = transposed_tiles(*known, back=back, chains=chains)
    chains = {first: chain for first, chain in chains.items() if chain[-1] in iterations}
    made = _TileLoops(staged, tile, loops, search, names, back, along, iterations, chains)
    nodes = made.nest(numbers, place, {})
    return _pieces(nodes) if staged.together else nodes


def _windows_filled(
    staged: Staged, tile: Tile, loops: tuple[LoopStep, ...], place: Place, search: MoveSearch, names: Names
) -> tuple[Node, ...]:
    """Return loops that fill windows: each plane from its first tap to the end of its last one."""
    axes = {axis.name: axis for axis in tile.axes}
    for held in staged.windows:
        along = held.window.along
        if all(loops[n].axis != along for n, _ in staged.loops):  # one tile, which taps reach out of
            size = axes[along].tile
            staged = replace(staged, loops=(*staged.loops, (len(loops), held.cell * size)))
            loops = (*loops, CountedLoop(along, size))
    rows = staged.windows[0].window.along
    numbers = sorted((n for n, _ in staged.loops), key=lambda n: (loops[n].axis == staged.together, n))
    nodes: tuple[Node, ...] = ()
    for firsts in product(*(range(len(held.reaches)) for held in staged.windows)):
        here, longer = place, dict(axes)
        for held, first in zip(staged.windows, firsts, strict=True):
            here = held.at_plane(first, longer, here)
        known = staged, replace(tile, axes=tuple(longer.values())), loops, search, names
        windows = frozenset(held.window.along for held in staged.windows)
        made = _TileLoops(*known, back=None, along={}, iterations={}, chains={}, windows=windows)
        if not is_multiple(place.left[rows], axes[rows].tile):
            others = [n for n in numbers if loops[n].axis != rows]
            nodes += replace(made, rows=(rows, place.left[rows])).nest(others, here, {})
        nodes += made.nest(numbers, here, {})
    return _pieces(nodes)


def _pieces(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes with each move as a separate piece of work, to be interleaved with iterations of loops."""
    return tuple(Block("", (node,)) if isinstance(node, Issue) else node for node in nodes)


@dataclass(frozen=True, slots=True)
class _TileLoops:
    """The loops around the copies of tiles.

    `iterations` are the loops whose iterations blocks take (`transposed_tiles`). `chains` are the loops that
    one counter runs through (`joined_loops`). `windows` are axes along windows. With `rows`, a row's
    remainder without taps is set to zero instead of copied.
    """

    staged: Staged
    tile: Tile
    loops: tuple[LoopStep, ...]
    search: MoveSearch
    names: Names
    back: Written | None
    along: Mapping[str, int]
    iterations: Mapping[int, tuple[str, tuple[int, ...]]]
    chains: Mapping[int, tuple[int, ...]]
    inner: set[str] = field(default_factory=set[str])
    windows: frozenset[str] = frozenset()
    rows: tuple[str, Index] | None = None

    def nest(self, remaining: list[int], here: Place, transposed: Mapping[str, int]) -> tuple[Node, ...]:
        """Return the loops with these numbers. `transposed` has the tiles of blocks along outer axes."""
        if not remaining:
            return self.copied(here, transposed) if self.rows is None else self.behind_rows(*self.rows, here)
        chain = self.chains.get(remaining[0], ())
        if chain and all(self.is_whole(number, here) for number in chain[1:]):
            here, remaining = self.through(chain, remaining, here)
        number, rest = remaining[0], remaining[1:]
        loop = self.loops[number]
        left, base = here.left[loop.axis], here.position[loop.axis]
        if left.ceildiv(loop.step).value == 1:
            inside = here.enter(number, loop.axis, base, index_min(loop.step, left), ZERO)
            return self.nest(rest, inside, transposed)
        is_last = loop.axis == self.staged.together and not rest and self.rows is None
        if is_last and largest(left.floordiv(loop.step)) is not None:
            return self.at_once(number, here)
        nodes: tuple[Node, ...] = ()
        first = ZERO
        for size in self.iterations[number][1] if number in self.iterations else ():
            more, taken = self.blocks(number, rest, here, transposed, size, first)
            nodes, first = nodes + more, first + taken
        # Whole tiles have no conditions about their columns, so that all loops over rows go around them.
        is_row = (self.staged.by_rows and loop.axis in self.along) or loop.axis in self.windows
        apart = is_row and not is_multiple(left, loop.step)
        trips = (left.floordiv(loop.step) if apart else left.ceildiv(loop.step)) - first
        last = self.last(number, rest, here, transposed) if apart else ()
        if trips.value == 0:
            return (*nodes, *last)
        variable = self.names.fresh(loop.axis)
        counter = first + Index.of(variable)
        position = base + counter * loop.step
        whole = Index.of(loop.step)
        length = whole if apart else elements_left(self.tile, self.loops, number, here, position)
        body = self.nest(rest, here.enter(number, loop.axis, position, length, counter), transposed)
        return (*nodes, *self.over(loop.axis, variable, trips, loop.step, body), *last)

    def at_once(self, number: int, here: Place) -> tuple[Node, ...]:
        """Return the copy of all whole tiles of the innermost loop by one move, and of the remainder."""
        axis, step = self.loops[number].axis, self.loops[number].step
        counter, count = Index.of(f"+{axis}"), here.left[axis].floordiv(step)
        place = here.enter(number, axis, here.position[axis] + counter * step, Index.of(step), counter)
        nodes = self.copied(place, {}, {axis: count})
        return nodes if is_multiple(here.left[axis], step) else (*nodes, *self.last(number, [], here, {}))

    def behind_rows(self, axis: str, left: Index, here: Place) -> tuple[Node, ...]:
        """Return the code that sets rows after the last one to zero, which the last tile of a tap also reads."""
        tile = self.tile.axis(axis).tile
        cell = prod(self.staged.operand.cell_shape) // tile
        reach = here.left[axis] - left
        ends = left.ceildiv(tile) * tile
        number = left.value is not None and ends.value is not None
        # Where only the run knows how many there are, a tile of them, before it is filled.
        first = left if number else ends - tile
        count = -left.value % tile if left.value is not None else tile
        start = self.staged.offset({**dict.fromkeys((n for n, _ in self.staged.loops), ZERO), **here.trips})
        operand, buffer = self.staged.operand, self.staged.buffer
        at = start + (first + reach) * cell
        nodes = cleared_tile(operand, buffer, at, self.search, self.names, cells=count * cell)
        return nodes if number else (If(((left, "<", ends),), nodes),)

    def is_whole(self, number: int, here: Place) -> bool:
        """Return whether a loop covers its whole axis, even if threads share the axis."""
        axis = self.loops[number].axis
        return here.left[axis] == self.tile.axis(axis).extent

    def through(self, chain: tuple[int, ...], remaining: list[int], here: Place) -> tuple[Place, list[int]]:
        """Return the place and the remaining loops after a chain of loops along one row is made innermost."""
        axis = self.loops[chain[-1]].axis
        total = here.left[axis]
        for number in chain[:-1]:
            outer = self.loops[number].axis
            total = total * here.left[outer]
            here = here.enter(number, outer, here.position[outer], ONE, ZERO)
        here = replace(here, left={**here.left, axis: total})
        return here, [number for number in remaining if number not in chain[:-1]]

    def last(
        self, number: int, rest: list[int], here: Place, transposed: Mapping[str, int]
    ) -> tuple[Node, ...]:
        """Return the code for the remainder after the last whole step of a loop."""
        axis, step = self.loops[number].axis, self.loops[number].step
        left = here.left[axis]
        whole = left.floordiv(step)
        inside = here.enter(number, axis, here.position[axis] + whole * step, left - whole * step, whole)
        body = self.nest(rest, inside, transposed)
        return body if left.value is not None else (If(((whole * step, "<", left),), body),)

    def blocks(
        self,
        number: int,
        rest: list[int],
        here: Place,
        transposed: Mapping[str, int],
        size: int,
        first: Index,
    ) -> tuple[tuple[Node, ...], Index]:
        """Return the loop over whole blocks of tiles after the `first` ones, and the number of tiles in it."""
        (axis, _), step = self.iterations[number], self.loops[number].step
        count = (here.left[axis] - first * step).floordiv(step * size)
        if count.value == 0:
            return (), ZERO
        variable = self.names.fresh(axis)
        now = first + Index.of(variable) * size + Index.of(f"+{axis}")
        inside = here.enter(number, axis, here.position[axis] + now * step, Index.of(step), now)
        body = self.nest(rest, inside, {**transposed, axis: size})
        return self.over(axis, variable, count, step * size, body), count * size

    def over(
        self, axis: str, variable: str, trips: Index, elements: int, body: tuple[Node, ...]
    ) -> tuple[Node, ...]:
        """Return a loop whose iterations each cover `elements` elements of an axis."""
        if axis not in self.along:
            return (For(variable, trips, body),)
        operand = self.staged.operand
        tile_bytes = prod(operand.cell_shape) * operand.dtype.size_bytes
        written = ceil(elements / self.tile.axis(axis).tile * tile_bytes)
        rows = AxisLoop(axis, variable, trips, elements * self.along[axis], written)
        if self.staged.by_rows:
            self.inner.add(variable)
            return sink_loop(rows, body, self.inner, self.names)
        return by_lines(rows, body, self.inner, line_bytes(self.search.machine), self.names)

    def copied(
        self, here: Place, transposed: Mapping[str, int], together: Mapping[str, Index] | None = None
    ) -> tuple[Node, ...]:
        """Return the copy of one tile or of a block of tiles. Where too few tiles remain, blocks are smaller."""
        whole = len(transposed) == len(self.iterations)
        nodes = copy_tile(
            self.staged.operand,
            self.staged.buffer,
            self.staged.offset(here.trips),
            self.tile,
            here,
            self.search,
            self.names,
            back=self.back,
            transposed=transposed if whole else None,
            spared=self.windows,
            together=together,
        )
        return nodes if whole else transposed_by(transposed, nodes, self.names)


# --- How a staging buffer holds windows: each element once, taps so many elements behind each other ---


@dataclass(frozen=True, slots=True)
class HeldWindow:
    """A window in a buffer. `taps` are the loops (by number) over its taps, with their steps.

    Units: `reaches` of each plane in elements of the axis along; elements of the buffer from one step along
    to the next, `cell`, and from one plane to the next, `plane`.
    """

    window: WindowOverlap
    reaches: tuple[int, ...]
    cell: Index
    plane: Index
    taps: tuple[tuple[int, int], ...]

    def offset(self, trips: Mapping[int, Index]) -> Index:
        """Return the distance from the first tap to the one at these counters."""
        tap = sum((trips.get(number, ZERO) * step for number, step in self.taps), start=ZERO)
        iteration = tap.floordiv(self.window.period)
        return tap.mod(self.window.period) * self.plane + iteration * (self.cell * self.window.shift)

    def at_plane(self, first: int, axes: dict[str, LoopAxis], place: Place) -> Place:
        """Return the place of a plane's first tap, with its axis longer by the distance to the last tap."""
        along, reach = self.window.along, self.reaches[first]
        axes[along] = replace(axes[along], extent=axes[along].extent + reach)
        longer = replace(place, left={**place.left, along: place.left[along] + reach})
        return longer.enter(self.taps[-1][0], self.window.tap, Index.of(first), ONE, Index.of(first))


def windows_inside(
    operand: OperandTile, tile: Tile, region: Mapping[str, Index], search: MoveSearch
) -> tuple[WindowOverlap, ...]:
    """Return the windows of which all taps lie in a region."""
    found = windows_of(operand, tile, search) if operand is not tile.accumulator else ()
    return tuple(w for w in found if region[w.tap] == tile.axis(w.tap).extent)


def in_windows(
    windows: Sequence[WindowOverlap],
    operand: OperandTile,
    tile: Tile,
    region: Mapping[str, Index],
    loops: Sequence[tuple[int, LoopStep]],
) -> tuple[tuple[HeldWindow, ...], Index]:
    """Return the windows in a buffer of a region, rows innermost, and their size in elements."""
    found: list[HeldWindow] = []
    size = Index.of(prod(operand.cell_shape))
    for window in windows:
        along, count = tile.axis(window.along), tile.axis(window.tap).extent.value
        assert count is not None, "windows have so many taps"
        cell, reaches = size.floordiv(along.tile), window.reaches(count)
        held = region[window.along].ceildiv(along.tile) * along.tile + reaches[0]
        size = held.ceildiv(along.tile) * along.tile * cell
        taps = tuple((n, loop.step) for n, loop in loops if loop.axis == window.tap)
        found.append(HeldWindow(window, reaches, cell, size, taps))
        size = size * len(reaches)
    return tuple(found), size
