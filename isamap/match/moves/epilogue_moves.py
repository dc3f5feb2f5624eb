"""Compute the epilogue of sums in a scratchpad while they are stored, through other scratchpads or registers.

    for r in R, n in 32 { y[r, n] = sat_i8(round(f32(x[r, n]) * s[n], even)); }    x @ acc, y @ spad, s @ spad

This instruction reads a tile of sums from `acc` and leaves bytes in a buffer of `spad`; a DMA then copies
them to their array. A chain of instructions serves as well: it loads the tile into registers, or finds it
there if registers held it when it was finished, computes the epilogue, and stores the result. Other inputs,
such as a scale for each column, are copied into a buffer before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from math import inf, lcm, prod

from isamap.ir import DType, Expr, Index, Read
from isamap.ir.index import ONE, ZERO
from isamap.ir.walk import map_reads, parts_of, with_parts
from isamap.machine.timings import LINE_BYTES
from isamap.match.moves.chains import timed_steps
from isamap.match.moves.scratch_buffers import find_clearing, find_dma, scratchpads
from isamap.match.moves.transfers import Copy, computed_counts, copy_by_axes, find_transfer, moved_counts
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.patterns.pattern import pattern_of
from isamap.match.patterns.unify import unify_once
from isamap.match.tiles.operand_tiles import OFFSET, PROBE, OperandTile, Tile, in_tiles
from isamap.match.tiles.written_values import Written
from isamap.source import add_up, dataclass, field
from isamap.transform import distinct_reads, reads, symbols

Moves = tuple[tuple[str, float, int], ...]
"""Instructions in execution order, each with its time for a tile, and its elements. Units: nanoseconds."""

# What is kept takes no more than such a part of its scratchpad.
MOST_PART = 8
# Copies of a buffer, each number with the part of the scratchpad that they take at most: two along each of
# two axes, so that tiles next to each other have different ones, and more, while earlier ones leave, where
# they are next to nothing.
COPIES = ((16, 64), (8, 64), (4, MOST_PART), (2, MOST_PART))


@dataclass(frozen=True, slots=True)
class BufferOnTheWay:
    """An intermediate buffer with several copies, so that one tile is stored while the next one is computed.

    With `kept` it has the elements that all tiles read, loaded once. Tiles along axis `along` each read a
    different part. Units: `copy_bytes` is the size of each copy in its scratchpad.
    """

    memory: str
    dtype: DType
    shape: tuple[int, ...]
    copy_bytes: int
    copies: int = 1
    kept: bool = False
    along: str = ""

    @property
    def size_bytes(self) -> int:
        return self.copies * self.copy_bytes

    @property
    def copy_elements(self) -> int:
        """Return the distance from one copy to the next. Units: elements."""
        return self.copy_bytes // self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class WayOut:
    """A path of a tile from a scratchpad to its array.

    `buffers` are the buffer of the computed result, then those of other inputs, and of the parts of a `cut`
    value. There is none if one instruction performs the whole path. `moves` are the instructions in order,
    each with its time for all of a tile, and with the elements that it moves; the first `brought` of them load
    other inputs. `held` is true if the result comes from the registers that hold the sums. `once` are the moves
    that fill buffers for all tiles together. Units: nanoseconds; `cost_ns` per element, computing and moving it.
    """

    buffers: tuple[BufferOnTheWay, ...]
    cost_ns: float
    moves: Moves = ()
    held: bool = False
    cut: Cut = ()
    once: Moves = ()
    brought: int = 0

    def bytes_of(self, memory: str) -> int:
        """Return the bytes of a scratchpad that the buffers take."""
        return sum(buffer.size_bytes for buffer in self.buffers if buffer.memory == memory)


def way_out(acc: OperandTile, written: Written, tile: Tile, home: str, search: MoveSearch) -> WayOut | None:
    """Return the path by which an expression of sums is stored, or None if no instructions perform it.

    The path starts at the registers that hold the sums if possible, else at scratchpad `home`.
    """
    held = held_way_out(acc, written, tile, home, search)
    return held or stored_way_out(acc, written, tile, home, search)


def stored_way_out(
    acc: OperandTile, written: Written, tile: Tile, home: str, search: MoveSearch
) -> WayOut | None:
    """Return the path of results out of the scratchpad `home` of their sums, or None if no instruction moves them."""
    copy, counts = _tile_out(acc, written, tile, home, search)
    moved = moved_counts(acc, tile)
    at_once = find_dma(copy, moved, search)
    if at_once is not None:
        elements = prod(count.value or 1 for count in moved.values())
        return WayOut((), at_once.cost_ns, ((at_once.instruction, at_once.cost_ns * elements, elements),))
    return _through_buffers(acc, copy, counts, tile if written.alone else None, home, search, held=False)


def held_way_out(
    acc: OperandTile, written: Written, tile: Tile, home: str, search: MoveSearch
) -> WayOut | None:
    """Return the path of results from registers, or None if there are no such sums or one move stores them."""
    if search.is_addressable(acc.memory):
        return None
    copy, counts = _tile_out(acc, written, tile, home, search)
    if find_dma(copy, moved_counts(acc, tile), search) is not None:
        return None
    return _through_buffers(acc, copy, counts, tile if written.alone else None, home, search, held=True)


def _tile_out(
    acc: OperandTile, written: Written, tile: Tile, home: str, search: MoveSearch
) -> tuple[Copy, dict[str, Index]]:
    """Return the copy that stores the result of a tile of sums, and the extents of its counters."""
    cells = in_tiles(acc, search, home).buffer
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    copy = copy_by_axes(acc, cells, Index.of(OFFSET), tile, position, back=written)
    return copy, computed_counts(acc, tile)


def _through_buffers(
    acc: OperandTile,
    copy: Copy,
    counts: Mapping[str, Index],
    tile: Tile | None,
    home: str,
    search: MoveSearch,
    *,
    held: bool,
) -> WayOut | None:
    """Return the path through buffers in the first suitable scratchpads. `tile` allows buffers for all tiles."""
    cells = in_tiles(acc, search, home).buffer
    others = other_arrays(copy, cells)
    kinds = [(copy.target.dtype, acc.cell_shape)]
    kinds += [(r.dtype, tuple(counts[c].value or 1 for c in find_counters(r, copy))) for r in others]
    wholes = [None, *(_whole(r, copy, acc, tile) if tile is not None else None for r in others)]
    extents = {} if tile is None else {a.name: a.extent.value for a in tile.axes}
    choice = _MemoryChoice(copy, cells, 1 + len(others), search, held)
    for cut in [()] if held else cuts(copy.value, cells):
        own = [*kinds, *((subexpression_at(copy.value, cells, depth).dtype, acc.cell_shape) for depth in cut)]
        kept = [*wholes, *(None for _ in cut)]
        for memories in product(*choice.of_buffers(cut)):
            buffers = tuple(
                _scratchpad_buffer(memory, dtype, shape, search, whole)
                for memory, (dtype, shape), whole in zip(memories, own, kept, strict=True)
            )
            if any(
                find_clearing(search, b.memory, b.dtype.name) is None
                for b in buffers[1 : 1 + len(others)]
                if b.shape and not (b.kept and extents.get(b.along) == prod(b.shape))
            ):
                continue  # the end of an axis leaves some of it without an element
            found = _moves(copy, counts, cells, buffers, search, cut, acc if held else None)
            if found is not None:
                once, moves = found
                cost_ns = add_up(ns for _, ns, _ in moves) / prod(acc.cell_shape)
                brought = sum(not b.kept for b in buffers[1 : 1 + len(others)])
                return WayOut(buffers, cost_ns, moves, held, cut, once, brought)
    return None


@dataclass(frozen=True)
class _MemoryChoice:
    """The scratchpads that buffers of a path may lie in, given the operations and memories of instructions.

    `whole` is the number of buffers without those of a cut. `known` are, by step of a path, the memories that
    instructions have for it, by buffer; None if no instruction performs the operations of the step.
    """

    copy: Copy
    cells: str
    whole: int
    search: MoveSearch
    held: bool
    known: dict[tuple[Read, Expr], dict[str, set[str]] | None] = field(
        default_factory=dict[tuple[Read, Expr], "dict[str, set[str]] | None"]
    )

    def of_buffers(self, cut: Cut) -> list[list[str]]:
        """Return the scratchpads of each buffer, in the machine's order."""
        names = [f"{PROBE}:{n}" for n in range(self.whole + len(cut))]
        all_of_them = [m.name for m in scratchpads(self.search.machine)]
        passage = through(self.copy, self.cells, names, cut=cut)
        if passage is None:
            return [[] for _ in names]
        computed = () if self.held or _stores_registers(self.search) else passage.computed
        found = [self._of_step(step) for step in (*passage.brought, *computed, passage.out)]
        known = [memories for memories in found if memories is not None]
        if len(known) < len(found):
            return [[] for _ in names]
        return [
            [m for m in all_of_them if all(m in step.get(name, (m,)) for step in known)] for name in names
        ]

    def _of_step(self, step: Copy) -> dict[str, set[str]] | None:
        if (step.target, step.value) not in self.known:
            self.known[step.target, step.value] = self._find_memories(step)
        return self.known[step.target, step.value]

    def _find_memories(self, step: Copy) -> dict[str, set[str]] | None:
        found: dict[str, set[str]] = {}
        for pattern in self.search.known.assigning:
            memories = {o.name: o.memory or "" for o in pattern.instruction.operands}
            for bindings in unify_once(pattern.value, step.value):
                places = [(b.name, b.subject) for b in bindings if b.name in memories]
                for name, place in ((pattern.output.name, step.target), *places):
                    if isinstance(place, Read):
                        found.setdefault(place.buffer, set()).add(memories[name])
        return found or None


def _stores_registers(search: MoveSearch) -> bool:
    """Return whether an instruction stores a register to memory."""
    patterns = (pattern_of(item.instruction) for item in search.machine.instructions.values())
    return any(
        pattern.statement.assign.op is None
        and search.is_addressable(pattern.output.memory)
        and not all(search.is_addressable(o.memory) for o in pattern.instruction.operands)
        for pattern in patterns
        if pattern is not None
    )


def _whole(read: Read, copy: Copy, acc: OperandTile, tile: Tile) -> tuple[str, tuple[int, ...]] | None:
    """Return the axis along which tiles share an array, with its elements, or None if no elements are read again."""
    own = [a for a in tile.axes if f"~{a.name}" in find_counters(read, copy)]
    moving = {symbol for symbol in symbols(read) if symbol.startswith("@")}
    again = [a for a in tile.axes if a.name in acc.axes and a not in own and (a.extent.value or inf) > a.tile]
    if not again or len(own) > 1 or not moving <= {f"@{a.name}" for a in own}:
        return None
    if not own:
        return "", ()
    extent = own[0].extent.value
    return None if extent is None else (own[0].name, (-(-extent // own[0].tile) * own[0].tile,))


def _scratchpad_buffer(
    memory: str,
    dtype: DType,
    shape: tuple[int, ...],
    search: MoveSearch,
    whole: tuple[str, tuple[int, ...]] | None,
) -> BufferOnTheWay:
    """Return a buffer in a scratchpad. With `whole`, it holds the elements of all tiles if there is room."""
    step = lcm(LINE_BYTES, search.known.address_steps[memory])
    capacity = search.machine.memories[memory].capacity_bytes or 0

    def size(elements: int) -> int:
        return -(-elements * dtype.size_bytes // step) * step

    if whole is not None and size(prod(whole[1])) <= capacity // MOST_PART:
        return BufferOnTheWay(memory, dtype, whole[1], size(prod(whole[1])), kept=True, along=whole[0])
    one = size(prod(shape))
    return BufferOnTheWay(
        memory, dtype, shape, one, next((n for n, part in COPIES if n * one <= capacity // part), 1)
    )


def _moves(
    copy: Copy,
    counts: Mapping[str, Index],
    cells: str,
    buffers: Sequence[BufferOnTheWay],
    search: MoveSearch,
    cut: Cut,
    holding: OperandTile | None,
) -> tuple[Moves, Moves] | None:
    """Return the moves that fill buffers for all tiles, and those of each tile, or None if a step has no move.

    With `holding`, the sums are in registers.
    """
    names = [f"{PROBE}:{n}:{b.dtype}:{b.shape}@{b.memory}" for n, b in enumerate(buffers)]
    for name, buffer in zip(names, buffers, strict=True):
        lay_out_between(name, buffer, search)
    passage = through(copy, cells, names, cut=cut)
    if passage is None:
        return None
    others = buffers[1 : 1 + len(passage.brought)]
    once: list[Moves | None] = []
    moves: list[Moves | None] = []
    for part, buffer in zip(passage.brought, others, strict=True):
        size = prod(buffer.shape)
        far = {c: Index.of(size) for c in part.counters} if buffer.kept else counts
        (once if buffer.kept else moves).append(_at_once(part, far, size, search))
    elements = prod(buffers[0].shape)
    if holding is not None:
        delivered = find_delivered(copy, cells, holding, names, None, search)
        moves.append(None if delivered is None else _chain(delivered, 1, elements))
    else:
        moves += [
            _at_once(part, counts, elements, search) or _by_registers(part, counts, elements, search)
            for part in passage.computed
        ]
    moves.append(_at_once(passage.out, counts, elements, search))
    known = [[move for move in some if move is not None] for some in (once, moves)]
    if any(move is None for move in (*once, *moves)):
        return None
    return tuple(chain.from_iterable(known[0])), tuple(chain.from_iterable(known[1]))


def _at_once(copy: Copy, counts: Mapping[str, Index], elements: int, search: MoveSearch) -> Moves | None:
    found = find_dma(copy, counts, search)
    moved = prod(count.value or 1 for counter, count in counts.items() if counter in copy.counters)
    return None if found is None else ((found.instruction, found.cost_ns * elements, moved),)


def _by_registers(copy: Copy, counts: Mapping[str, Index], elements: int, search: MoveSearch) -> Moves | None:
    """Return the chain that loads sums from their buffer, computes a value, and stores it in the next buffer."""
    found = find_transfer(copy, counts, search)
    return None if found is None else _chain(found.store, elements // found.width, elements)


def _chain(found: OperandMove, times: int, elements: int) -> Moves:
    return tuple((step.instruction, ns * times, elements) for step, ns in timed_steps(found))


def find_delivered(
    copy: Copy,
    cells: str,
    acc: OperandTile,
    names: Sequence[str],
    starts: Sequence[Index] | None,
    search: MoveSearch,
) -> OperandMove | None:
    """Return the store that computes the first copy of a path from registers, or None if no instruction does it."""
    own = [read for read in distinct_reads(copy.value) if read.buffer == cells]
    if len(own) != 1:
        return None
    start, *behind = starts or (ZERO,) * len(names)
    lanes = {str(c): lane for c, lane in zip(own[0].index[1:], acc.cells, strict=True)}
    here = {own[0]: acc.held}
    for read, name, at in zip(other_arrays(copy, cells), names[1:], behind, strict=True):
        if not lanes.keys() >= set(find_counters(read, copy)):
            return None
        here[read] = Read(name, (at, *(lanes[c] for c in find_counters(read, copy))), read.dtype)
    value = map_reads(copy.value, lambda read: here.get(read, read))
    there = Read(names[0], (start, *acc.cells), copy.target.dtype)
    return find_operand_store(search, there, value, "", None, acc.request({}))


def find_counters(read: Read, copy: Copy) -> tuple[str, ...]:
    """Return the counters of a copy on which an element that it reads depends."""
    return tuple(counter for counter in copy.counters if counter in symbols(read))


def other_arrays(copy: Copy, cells: str) -> tuple[Read, ...]:
    """Return the arrays that a copy reads, other than the buffer of tiles."""
    return tuple(read for read in distinct_reads(copy.value) if read.buffer != cells)


@dataclass(frozen=True, slots=True)
class Passage:
    """Copies in order: inputs into buffers, computed values into other buffers, and results into their array."""

    brought: tuple[Copy, ...]
    computed: tuple[Copy, ...]
    out: Copy


def through(
    copy: Copy, cells: str, names: Sequence[str], starts: Sequence[Index] | None = None, *, cut: Cut = ()
) -> Passage | None:
    """Return the copies that replace a copy from a buffer of tiles, by way of buffers that begin at `starts`.

    There is a buffer for the computed value in the tiles' layout, one for each other array, and one for each
    part of the value before the last. Return None if the tile is read in two places, or an array beyond its
    edge.
    """
    own = [read for read in distinct_reads(copy.value) if read.buffer == cells]
    others = other_arrays(copy, cells)
    if len(own) != 1 or any(read.fill is not None for read in others):
        return None
    places = list(zip(names, starts or (ZERO,) * len(names), strict=True))
    here = {
        r: Read(name, (at, *map(Index.of, find_counters(r, copy))), r.dtype)
        for r, (name, at) in zip(others, places[1:], strict=False)
    }
    brought = tuple(Copy(place, read, find_counters(read, copy)) for read, place in here.items())
    value = map_reads(copy.value, lambda read: here.get(read, read))
    dtypes = [*(subexpression_at(value, cells, depth).dtype for depth in cut), copy.target.dtype]
    behind = [*places[1 + len(others) :], places[0]]
    filled = [
        Read(name, (at, *own[0].index[1:]), dtype) for (name, at), dtype in zip(behind, dtypes, strict=True)
    ]
    parts = parts_of_value(value, cells, cut, filled[:-1])
    computed = tuple(Copy(there, part, copy.counters) for there, part in zip(filled, parts, strict=True))
    return Passage(brought, computed, Copy(copy.target, filled[-1], copy.counters))


def lay_out_between(name: str, buffer: BufferOnTheWay, search: MoveSearch) -> None:
    """Register the layout of an intermediate buffer for the search."""
    shape = buffer.shape
    search.homes[name] = buffer.memory
    search.strides[name] = (ONE, *(Index.of(prod(shape[d + 1 :])) for d in range(len(shape))))


# A value made of one element, cut into parts, each made of the one before, as no instruction makes it all.
#
# sat_i8(round(f32(max(x, 0)) * s, even))    cut four below the top:
# max(x, 0), then sat_i8(round(f32(that) * s, even))


# Chains of so many instructions behind each other are looked for, one more than there are cuts.
MOST_CUTS = 2

Cut = tuple[int, ...]
"""The depth below the top at which each part of a value begins, the innermost part first."""


def cuts(value: Expr, buffer: str) -> Iterator[Cut]:
    """Yield the ways to split an epilogue of `buffer` into consecutive parts, the fewest parts first."""
    below = [depth for depth, node in enumerate(_path_to_buffer(value, buffer)) if not isinstance(node, Read)]
    for size in range(MOST_CUTS + 1):
        for chosen in combinations(below[1:], size):
            yield tuple(reversed(chosen))


def parts_of_value(value: Expr, buffer: str, cut: Cut, between: Sequence[Read]) -> tuple[Expr, ...]:
    """Return the parts of a value in execution order. Each later part reads the previous result from `between`."""
    way, found = _path_to_buffer(value, buffer), list[Expr]()
    inner = None
    for depth, read in zip((*cut, 0), (*between, None), strict=True):
        part = way[depth]
        found.append(part if inner is None else _replace_at(part, buffer, inner[0] - depth, inner[1]))
        inner = (depth, read) if read is not None else None
    return tuple(found)


def subexpression_at(value: Expr, buffer: str, depth: int) -> Expr:
    """Return the subexpression on the path to the buffer's element, at `depth` below the root."""
    return _path_to_buffer(value, buffer)[depth]


def _path_to_buffer(value: Expr, buffer: str) -> list[Expr]:
    """Return the expressions from the root to the buffer's element. The list ends where several operands read it."""
    within = [child for child in parts_of(value) if _is_made_of(child, buffer)]
    return [value, *(_path_to_buffer(within[0], buffer) if len(within) == 1 else ())]


def _replace_at(value: Expr, buffer: str, depth: int, new: Read) -> Expr:
    """Return the value with the subexpression at `depth`, on the path to the buffer's element, replaced by `new`."""
    if not depth:
        return new

    def put(child: Expr) -> Expr:
        return _replace_at(child, buffer, depth - 1, new) if _is_made_of(child, buffer) else child

    assert parts_of(value), "nothing is below what has no parts"
    return with_parts(value, put)


def _is_made_of(value: Expr, buffer: str) -> bool:
    return any(read.buffer == buffer for read in reads(value))
