"""What is computed of sums in a scratchpad on their way out: in another one, from where it leaves.

    for r in R, n in 32 { y[r, n] = sat_i8(round(f32(x[r, n]) * s[n], even)); }    x @ acc, y @ spad, s @ spad

reads a tile of sums where it lies and leaves bytes in a buffer of `spad`, which a DMA takes to their array.
So does a chain of instructions that loads the tile into registers, computes of it there, and stores it.
What else it reads, as a scale for each column, is brought into a buffer before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import lcm, prod

from isamap.ir import DType, Index, Read
from isamap.ir.index import ONE, ZERO
from isamap.match.moves.chains import timed_steps
from isamap.match.moves.scratch_buffers import find_clearing, find_dma, scratchpads
from isamap.match.moves.transfers import Copy, copy_by_axes, find_transfer, shown_axes
from isamap.match.supplies.want import Suppliers
from isamap.match.tiles.held_sums import Written
from isamap.match.tiles.operand_tiles import OFFSET, PROBE, OperandTile, Tile, in_tiles
from isamap.source import added
from isamap.transform import distinct_reads, symbols
from isamap.transform.rewrite import map_reads

Moves = tuple[tuple[str, float], ...]
"""Instructions in their order, each with what it takes for all of a tile. Units: nanoseconds."""

ALIGNMENT_BYTES = 64
# Of copies of a buffer: two along each of two axes, so that tiles next to each other have different ones, as
# long as all of them take no more than a part of the scratchpad.
COPIES = (4, 2, 1)
MOST_PART = 8


@dataclass(frozen=True, slots=True)
class Between:
    """A buffer on the way, of which there are some copies: one tile leaves while the next one is computed.

    Units: `copy_bytes` that each takes of its scratchpad.
    """

    memory: str
    dtype: DType
    shape: tuple[int, ...]
    copy_bytes: int
    copies: int = 1

    @property
    def size_bytes(self) -> int:
        return self.copies * self.copy_bytes

    @property
    def copy_elements(self) -> int:
        """From one copy to the next."""
        return self.copy_bytes // self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class WayOut:
    """How a tile leaves a scratchpad: through `buffers`, that of what is computed first, then those of what
    else is read; there is none where one instruction does it all.

    `moves` are the instructions in their order, each with what it takes for all of a tile. Units:
    nanoseconds; `cost_ns` per element, computing and moving it.
    """

    buffers: tuple[Between, ...]
    cost_ns: float
    moves: Moves = ()

    def bytes_of(self, memory: str) -> int:
        """Bytes of a scratchpad that the buffers take."""
        return sum(buffer.size_bytes for buffer in self.buffers if buffer.memory == memory)


def way_out(acc: OperandTile, written: Written, tile: Tile, home: str, suppliers: Suppliers) -> WayOut | None:
    """How what is written of sums in scratchpad `home` gets to its array; None where nothing does it."""
    cells = in_tiles(acc, suppliers, home).buffer
    position = {a.name: Index.of(f"@{a.name}") for a in tile.axes}
    copy = copy_by_axes(acc, cells, Index.of(OFFSET), tile, position, back=written)
    counts = {f"~{a.name}": Index.of(a.tile) for a in shown_axes(acc, tile)}
    at_once = find_dma(copy, counts, suppliers)
    if at_once is not None:
        return WayOut((), at_once.cost_ns, ((at_once.instruction, at_once.cost_ns * prod(acc.cell_shape)),))
    kinds = [(copy.target.dtype, acc.cell_shape)]
    kinds += [(r.dtype, tuple(counts[c].value or 1 for c in counted(r, copy))) for r in beside(copy, cells)]
    for memories in product([m.name for m in scratchpads(suppliers.machine)], repeat=len(kinds)):
        buffers = tuple(
            _between(memory, dtype, shape, suppliers)
            for memory, (dtype, shape) in zip(memories, kinds, strict=True)
        )
        moves = _moves(copy, counts, cells, buffers, suppliers)
        if moves is not None:
            return WayOut(buffers, added(ns for _, ns in moves) / prod(acc.cell_shape), moves)
    return None


def _between(memory: str, dtype: DType, shape: tuple[int, ...], suppliers: Suppliers) -> Between:
    step = lcm(ALIGNMENT_BYTES, suppliers.known.address_steps[memory])
    size = -(-prod(shape) * dtype.size_bytes // step) * step
    room = (suppliers.machine.memories[memory].capacity_bytes or 0) // MOST_PART
    return Between(memory, dtype, shape, size, next((n for n in COPIES if n * size <= room), 1))


def _moves(
    copy: Copy,
    counts: Mapping[str, Index],
    cells: str,
    buffers: Sequence[Between],
    suppliers: Suppliers,
) -> Moves | None:
    """What each move of a tile through these buffers takes; None where nothing does some part of it."""
    names = [f"{PROBE}:{n}:{b.dtype}:{b.shape}@{b.memory}" for n, b in enumerate(buffers)]
    for name, buffer in zip(names, buffers, strict=True):
        lay_out_between(name, buffer, suppliers)
    if any(find_clearing(suppliers, b.memory, b.dtype.name) is None for b in buffers[1:] if b.shape):
        return None  # the end of an axis leaves some of it without an element
    parts = through(copy, cells, names)
    if not parts:
        return None
    *brought, computed, out = parts
    moves = [
        _at_once(part, counts, prod(b.shape), suppliers) for part, b in zip(brought, buffers[1:], strict=True)
    ]
    elements = prod(buffers[0].shape)
    moves.append(
        _at_once(computed, counts, elements, suppliers)
        or _by_registers(computed, counts, elements, suppliers)
    )
    moves.append(_at_once(out, counts, elements, suppliers))
    known = [move for move in moves if move is not None]
    return tuple(chain.from_iterable(known)) if len(known) == len(moves) else None


def _at_once(copy: Copy, counts: Mapping[str, Index], elements: int, suppliers: Suppliers) -> Moves | None:
    found = find_dma(copy, counts, suppliers)
    return None if found is None else ((found.instruction, found.cost_ns * elements),)


def _by_registers(
    copy: Copy, counts: Mapping[str, Index], elements: int, suppliers: Suppliers
) -> Moves | None:
    """The chain that loads sums from their buffer, computes of them, and stores that in the next one."""
    found = find_transfer(copy, counts, suppliers)
    if found is None:
        return None
    groups = elements // found.width
    return tuple((step.instruction, ns * groups) for step, ns in timed_steps(found.delivery))


def counted(read: Read, copy: Copy) -> tuple[str, ...]:
    """The counters of a copy along which an element that it reads differs."""
    return tuple(counter for counter in copy.counters if counter in symbols(read))


def beside(copy: Copy, cells: str) -> tuple[Read, ...]:
    """What a copy reads beside the buffer of tiles."""
    return tuple(read for read in distinct_reads(copy.value) if read.buffer != cells)


def through(
    copy: Copy, cells: str, names: Sequence[str], starts: Sequence[Index] | None = None
) -> tuple[Copy, ...]:
    """A copy from a buffer of tiles as several, in order: of each other array into a buffer, of what is
    computed into the first one, laid out as tiles are, and on from there. Buffers begin at `starts`.

    Nothing where the tile is read in two places, or an array beyond its edge.
    """
    own = [read for read in distinct_reads(copy.value) if read.buffer == cells]
    others = beside(copy, cells)
    if len(own) != 1 or any(read.fill is not None for read in others):
        return ()
    start, *behind = starts or (ZERO,) * len(names)
    there = Read(names[0], (start, *own[0].index[1:]), copy.target.dtype)
    here = {
        r: Read(name, (at, *map(Index.of, counted(r, copy))), r.dtype)
        for r, name, at in zip(others, names[1:], behind, strict=True)
    }
    value = map_reads(copy.value, lambda read: here.get(read, read))
    brought = (Copy(place, read, counted(read, copy)) for read, place in here.items())
    return *brought, Copy(there, value, copy.counters), Copy(copy.target, there, copy.counters)


def lay_out_between(name: str, buffer: Between, suppliers: Suppliers) -> None:
    """Tells suppliers of a buffer on the way."""
    shape = buffer.shape
    suppliers.homes[name] = buffer.memory
    suppliers.strides[name] = (ONE, *(Index.of(prod(shape[d + 1 :])) for d in range(len(shape))))
