"""Measure the bandwidth of each memory level with buffers that are read, written, and updated in sequence.

A buffer takes half of its level, and several times the size of the levels before it. The buffer of main
memory takes four times the size of all caches, or as much as is available. The description's widest load and
store access it. Main memory is also read in several parallel streams, which keep more lines in flight. The
faster result counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.emit.c_functions import HELPER_NAMES
from isamap.emit.c_issue import Here, Issuer
from isamap.emit.c_names import CNames, storage_type
from isamap.emit.conformance_source import BARRIER
from isamap.emit.timing_source import OWN, hide_value, sampler, source_of
from isamap.ir import Index
from isamap.ir.walk import is_copy
from isamap.lower.program import Issue, MemoryRef, RegisterRef, Value
from isamap.machine import EmitNothing, Machine, MachineInstruction, caches_from_nearest
from isamap.run.clocking import ARENA, Timed
from isamap.source.numbers import Spread
from isamap.source.records import dataclass, replace
from isamap.tune.measured_parameters import BandwidthFigure
from isamap.tune.profile import ACCESSES

UNROLLED = 8
MOST_BYTES = 192 << 20
_SAMPLE_NS = 60_000


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of access to a memory: loads, stores, or both. Units: bytes.

    `is_parted`: each move of the inner loop goes through a part of the buffer of its own.
    """

    memory: str
    access: str
    size_bytes: int
    load: MachineInstruction
    store: MachineInstruction
    is_parted: bool = False

    @property
    def block_bytes(self) -> int:
        """The bytes that one iteration of the inner loop accesses."""
        return UNROLLED * move_bytes(self.load)

    @property
    def apart_bytes(self) -> int:
        """The distance between consecutive accesses of one move in the inner loop."""
        blocks = self.size_bytes // self.block_bytes if self.is_parted else 1
        return blocks * move_bytes(self.load)

    def timed(self, library: int, number: int) -> Timed:
        """Return the timed call of the stream's function, in which one iteration traverses the buffer once."""
        blocks = self.size_bytes // self.block_bytes
        per_trip = float(blocks * self.block_bytes)
        return Timed(library, f"stream_{number}", (ARENA,), (blocks,), per_trip, _SAMPLE_NS)


def streams(machine: Machine, reported_bytes: int = 0) -> tuple[Stream, ...]:
    """Return the streams through each memory level, or () if no register can be loaded and stored.

    `reported_bytes` is the size of the largest cache as the system reports it, which may exceed the
    machine's.
    """
    pair = widest_moves(machine)
    if pair is None:
        return ()
    found = [
        Stream(memory, access, size, *pair)
        for memory, size in _sizes(machine, reported_bytes)
        for access in ACCESSES
    ]
    caches = set(caches_from_nearest(machine))
    parted = [replace(s, is_parted=True) for s in found if s.access == "read" and s.memory not in caches]
    return (*found, *parted)


def bandwidth_figures(ways: Sequence[Stream], results: Sequence[Spread | str]) -> tuple[BandwidthFigure, ...]:
    """Return the bandwidths that streams measured. Of two streams for one memory and access, the faster counts."""
    found: dict[tuple[str, str], BandwidthFigure] = {}
    for stream, result in zip(ways, results, strict=True):
        if not isinstance(result, Spread):
            continue
        by = stream.store if stream.access == "write" else stream.load
        figure = BandwidthFigure(stream.memory, stream.access, by.name, stream.size_bytes, result)
        other = found.get((stream.memory, stream.access), figure)
        found[stream.memory, stream.access] = min(figure, other, key=lambda f: f.ns_per_byte.least)
    return tuple(found.values())


def _sizes(machine: Machine, reported_bytes: int) -> Iterator[tuple[str, int]]:
    """Yield the memories from the nearest cache outwards, each with the size of the buffer that measures it."""
    before = 0
    for name in caches_from_nearest(machine):
        capacity = machine.memories[name].capacity_bytes or 0
        yield name, min(max(capacity // 2, min(2 * before, capacity)), MOST_BYTES)
        before = capacity
    last = [m for m in machine.memories.values() if m.kind == "addressable" and m.base is None]
    if last and 0 < before <= MOST_BYTES // 2:  # else what would be read is partly in the cache
        yield last[0].name, min(4 * max(before, reported_bytes), MOST_BYTES)


def move_bytes(entry: MachineInstruction) -> int:
    """Return the bytes that a move without parameters copies, or 0 for other instructions."""
    i = entry.instruction
    if i.params or len(i.operands) != 2 or not is_copy(i) or isinstance(entry.emit, EmitNothing):
        return 0
    first, second = i.operands
    sizes = [extent.value for extent in first.shape]
    if first.shape != second.shape or first.dtype != second.dtype or None in sizes:
        return 0
    if any(o.strides is not None and o.strides[-1:] != (Index.of(1),) for o in i.operands if o.shape):
        return 0
    count = 1
    for size in sizes:
        count *= size or 0
    return count * first.dtype.size_bytes


def widest_moves(machine: Machine) -> tuple[MachineInstruction, MachineInstruction] | None:
    """Return the widest load and the widest store of one type, or None."""
    best: tuple[MachineInstruction, MachineInstruction] | None = None
    moves = [e for e in machine.instructions.values() if move_bytes(e)]
    for load in moves:
        a, z = _ends(load)
        if not _is_memory(machine, a) or machine.memories[z].named != "compiler":
            continue
        back = [s for s in moves if _ends(s) == (z, a) and _dtype(s) == _dtype(load)]
        for store in back:
            wider = best is None or move_bytes(load) > move_bytes(best[0])
            if move_bytes(store) == move_bytes(load) and wider:
                best = load, store
    return best


def _ends(entry: MachineInstruction) -> tuple[str, str]:
    read = next(o for o in entry.instruction.operands if o.role == "in")
    written = next(o for o in entry.instruction.operands if o.role != "in")
    return read.memory or "", written.memory or ""


def _dtype(entry: MachineInstruction) -> str:
    return entry.instruction.operands[0].dtype.name


def _is_memory(machine: Machine, name: str) -> bool:
    return machine.memories[name].kind == "addressable"


# --- text -------------------------------------------------------------------------------------------------


def stream_source(machine: Machine, ways: tuple[Stream, ...], sampled_by: str | None = None) -> str:
    """Return the file with a function for each stream. `sampled_by` replaces the usual sampling code."""
    names = CNames(taken=HELPER_NAMES)
    for word in ("now", "sample", "timed", "trip", "trips", *(f"stream_{n}" for n in range(len(ways)))):
        names.take(word)
    issuer = Issuer(machine, False, names)
    functions = [_function(issuer, n, stream) for n, stream in enumerate(ways)]
    # One way through the largest buffer takes many ms.
    return source_of(machine, issuer, functions, sampler(OWN) if sampled_by is None else sampled_by)


def _function(issuer: Issuer, number: int, stream: Stream) -> list[str]:
    read = next(o for o in stream.load.instruction.operands if o.role == "in")
    held = next(o for o in stream.load.instruction.operands if o.role != "in")
    shape = tuple(extent.value or 0 for extent in held.shape)
    names = issuer.names.inside()
    for word in ("data", "numbers", "block"):
        names.take(word)
    value = Value("x", held.memory or "", held.dtype, shape)
    here = Here(names, {"x": value}, {"mem": read.dtype})
    name, place = names.take("x"), names.take("mem")
    c_type, element = issuer.value_type(value), storage_type(read.dtype)
    assert c_type is not None, "streams use registers that C can name"
    lines = [
        f"void stream_{number}(unsigned char *const *data, const int64_t *numbers, int64_t trips) {{",
        f"  {c_type} {name}; memcpy(&{name}, data[0], sizeof {name});",
        "  for (int64_t trip = 0; trip < trips; ++trip) {",
        f"  {element} *{place} = ({element} *)(void *)data[0];",
        "  for (int64_t block = 0; block < numbers[0]; ++block) {",
    ]
    bytes_on = move_bytes(stream.load) if stream.is_parted else stream.block_bytes
    apart, on = (count // read.dtype.size_bytes for count in (stream.apart_bytes, bytes_on))
    for n in range(UNROLLED):
        if stream.access != "write":
            lines += [f"  {x}" for x in _move(issuer, stream.load, Index.of(n * apart), here)]
        lines.append(f"  {hide_value(name, c_type)}")
        if stream.access != "read":
            lines += [f"  {x}" for x in _move(issuer, stream.store, Index.of(n * apart), here)]
    return [*lines, f"  {BARRIER}", f"  {place} += {on};", "  }", "  }", "}"]


def _move(issuer: Issuer, entry: MachineInstruction, offset: Index, here: Here) -> list[str]:
    """Return the statements of one load or store of `x`."""
    operands: list[tuple[str, RegisterRef | MemoryRef]] = []
    for o in entry.instruction.operands:
        in_memory = _is_memory(issuer.machine, o.memory or "")
        dense = tuple(_stride_of_axis(o.shape, axis) for axis in range(len(o.shape)))
        operands.append((o.name, MemoryRef("mem", offset, dense) if in_memory else RegisterRef("x")))
    return issuer.statements(Issue(entry.name, tuple(operands), ()), here)


def _stride_of_axis(shape: tuple[Index, ...], axis: int) -> Index:
    stride = 1
    for extent in shape[axis + 1 :]:
        stride *= extent.value or 0
    return Index.of(stride)
