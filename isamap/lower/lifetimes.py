"""Compute lifetimes of workspace buffers, and place buffers so that disjoint ones share bytes.

    workspace_buffers(program, machine)   the packing problem: sizes, lifetimes, alignment
    place_buffers(program, offsets)       the program with its solution

Buffers whose size is known only at run time have separate places after all others.

    stage a { a_tiles0 = … }          time 0
    for m { … a_tiles0 …              times 1 to 3
            store c_tiles1, copy it } times 4 to 6
    stage b { b_tiles2 = … }          time 7

Times number the leaves of the program. A buffer lives in the innermost body that contains all of its uses,
from the first node there that uses it to the last. A loop counts as a whole. Here a_tiles0 lives from 0 to 3,
and c_tiles1 from 4 to 6, anew in every iteration of the loop. If the first use is a read, the contents come
from the previous iteration, and the buffer lives as long as that loop. An array of the kernel also lives that
long, since any element may be read in a later iteration, unless its first statement in the loop writes all of
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.ir import Index, Kernel
from isamap.ir.index import bounds
from isamap.lower import program as lir
from isamap.lower.walk import children
from isamap.machine import Machine, private_memories
from isamap.machine.timings import LINE_BYTES
from isamap.plan.placement import PlacedBuffer as Placed
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, reads, statements

Life = tuple[int, int]
"""The first time at which a buffer is needed, and the first at which it no longer is."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A leaf that accesses a buffer: its time, and whether it only writes the buffer."""

    time: int
    writes: bool


@dataclass(frozen=True, slots=True)
class _Body:
    """A node with its span and the uses inside. Leaves have no children."""

    start: int
    end: int
    children: tuple[_Body, ...]
    uses: Mapping[str, _Use]
    is_loop: bool = False
    is_parallel: bool = False


def lifetimes(program: lir.LoweredProgram, machine: Machine) -> dict[str, Life]:
    """Return the life of each buffer that the program uses, by name."""
    arrays = {o.name for o in program.kernel.operands if o.role == "temp"} - _written_anew(program.kernel)
    names = {b.name for b in program.buffers}
    clock = _Clock()
    root = _number(program.body, machine, names, clock, is_loop=False)
    own = {b.name for b in program.buffers if b.memory in private_memories(machine)}
    return {name: _life(root, name, name in arrays, name in own) for name in sorted(root.uses)}


def _written_anew(kernel: Kernel) -> set[str]:
    """Return the arrays that each iteration of ordered loops overwrites before it reads them."""
    anew: set[str] = set()
    around: dict[str, tuple[int, ...]] = {}
    for statement in statements(kernel):
        target = statement.assign.target.buffer
        mentioned = {target, *(read.buffer for read in reads(statement.assign.value))}
        if statement.assign.guard is not None:
            mentioned |= {read.buffer for read in reads(statement.assign.guard)}
        for name in mentioned:
            if name not in around:
                around[name] = statement.ordered_loops
                if name == target and _assigns_all(kernel, statement):
                    anew.add(name)
            elif around[name] != statement.ordered_loops:
                anew.discard(name)
    return anew


def _assigns_all(kernel: Kernel, statement: Statement) -> bool:
    """Return whether a statement writes every element of its target, and does not read the old ones."""
    target, extents = statement.assign.target, {a.name: a.extent for a in statement.axes}
    shape = next(o.shape for o in kernel.operands if o.name == target.buffer)
    plain = [i for i in target.index if len(i.symbols) == 1 and i == Index.of(next(iter(i.symbols)))]
    names = [next(iter(i.symbols)) for i in plain]
    own = any(read.buffer == target.buffer for read in reads(statement.assign.value))
    return (
        statement.assign.op is None
        and statement.assign.guard is None
        and not own
        and len(set(names)) == len(target.index)
        and all(extents.get(n) == size for n, size in zip(names, shape, strict=True))
    )


def _life(body: _Body, name: str, carried: bool, own: bool) -> Life:
    """Return the lifetime of a buffer in this body, or in a child that contains all of its uses.

    One thread may still need a buffer that another no longer uses, unless each has a memory of its `own`.
    """
    using = [child for child in body.children if name in child.uses]
    if not using:
        return body.start, body.end
    if len(using) > 1 or carried:
        return using[0].start, using[-1].end
    (child,) = using
    if child.is_loop and not child.uses[name].writes:
        return child.start, child.end
    if not child.children or (child.is_parallel and not own):
        return child.start, child.end
    return _life(child, name, carried, own)


@dataclass(slots=True)
class _Clock:
    now: int = 0

    def tick(self) -> int:
        self.now += 1
        return self.now - 1


def _number(
    nodes: tuple[lir.Node, ...], machine: Machine, names: set[str], clock: _Clock, *, is_loop: bool
) -> _Body:
    start = clock.now
    children = tuple(_child(node, machine, names, clock) for node in nodes)
    uses: dict[str, _Use] = {}
    for child in children:
        for name, use in child.uses.items():
            uses.setdefault(name, use)
    return _Body(start, clock.now, children, uses, is_loop)


def _child(node: lir.Node, machine: Machine, names: set[str], clock: _Clock) -> _Body:
    if isinstance(node, lir.Issue | lir.Fill):
        time = clock.tick()
        uses = {n: _Use(time, w) for n, w in _accessed_buffers(node, machine) if n in names}
        return _Body(time, time + 1, (), uses)
    body = _number(
        children(node),
        machine,
        names,
        clock,
        is_loop=isinstance(node, lir.For | lir.WorkSlice | lir.Parallel),
    )
    return replace(body, is_parallel=isinstance(node, lir.Parallel))


def _accessed_buffers(node: lir.Issue | lir.Fill, machine: Machine) -> Iterator[tuple[str, bool]]:
    """Yield the buffers that a leaf accesses. If a leaf reads and writes a buffer, the read comes last."""
    if isinstance(node, lir.Fill):
        yield node.buffer, True
        return
    instruction = machine.instructions[node.instruction].instruction
    refs = [
        (ref.buffer, instruction.operand(name).role == "out")
        for name, ref in node.operands
        if isinstance(ref, lir.MemoryRef)
    ]
    yield from sorted(refs, key=lambda ref: not ref[1])


ALIGNMENT_BYTES = LINE_BYTES


def exact_bytes(buffer: lir.Buffer) -> int | None:
    """Return the bytes of a buffer's elements, or None if they are known only at run time."""
    return (buffer.elements * buffer.dtype.size_bytes).value


def padded_bytes(buffer: lir.Buffer) -> int | None:
    """Return the bytes of a buffer in whole cache lines, or None if they are known only at run time."""
    size = exact_bytes(buffer)
    return None if size is None else -(-max(1, size) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def workspace_buffers(program: lir.LoweredProgram, machine: Machine) -> tuple[Placed, ...]:
    """Return the buffers of known size with their lifetimes."""
    lives = lifetimes(program, machine)
    found: list[Placed] = []
    for buffer in program.buffers:
        size = padded_bytes(buffer)
        if size is not None and not buffer.memory:
            start, end = lives.get(buffer.name, (0, 1))
            found.append(Placed(buffer.name, start, end, size, ALIGNMENT_BYTES))
    return tuple(found)


def scratch_buffers(program: lir.LoweredProgram, machine: Machine, memory: str) -> tuple[Placed, ...]:
    """Return the buffers in a scratchpad with their lifetimes. Their sizes are known."""
    lives = lifetimes(program, machine)
    return tuple(
        Placed(b.name, *lives.get(b.name, (0, 1)), max(1, exact_bytes(b) or 1))
        for b in program.buffers
        if b.memory == memory
    )


def place_buffers(
    program: lir.LoweredProgram, buffers: tuple[Placed, ...], offsets: Mapping[str, int]
) -> lir.LoweredProgram:
    """Return the program with offsets and lifetimes for those buffers."""
    lives = {b.name: (b.start, b.end) for b in buffers}
    return replace(
        program,
        buffers=tuple(
            replace(b, offset=offsets[b.name], life=lives[b.name]) if b.name in offsets else b
            for b in program.buffers
        ),
    )


def shared_names(program: lir.LoweredProgram) -> frozenset[str]:
    """Return the buffers that share bytes with another one."""
    found: set[str] = set()
    placed = [
        (b.name, place, place + (exact_bytes(b) or 0))
        for b in program.buffers
        if (place := place_of(program, b)) is not None
    ]
    for n, (name, start, end) in enumerate(placed):
        for other, first, last in placed[:n]:
            if start < last and first < end:
                found |= {name, other}
    return frozenset(found)


def fixed_bytes(program: lir.LoweredProgram) -> int:
    """Return the size of the workspace's buffers that have offsets. Units: bytes."""
    return max(
        (b.offset + (padded_bytes(b) or 0) for b in program.buffers if b.offset is not None and not b.memory),
        default=0,
    )


def most_bytes(program: lir.LoweredProgram) -> int:
    """Return the largest number of bytes that the workspace needs for any allowed sizes."""
    ranges = {name: (low, high) for name, low, high in program.symbols}
    unplaced = (b.elements * b.dtype.size_bytes for b in program.buffers if b.offset is None)
    lines = (-(-max(1, bounds(size, ranges)[1]) // ALIGNMENT_BYTES) for size in unplaced)
    return fixed_bytes(program) + ALIGNMENT_BYTES * sum(lines)


def scratch_regions(program: lir.LoweredProgram) -> dict[str, tuple[int, int]]:
    """Return the place of each scratchpad in a model, after the workspace's buffers, and its bytes in use."""
    at = fixed_bytes(program)
    found: dict[str, tuple[int, int]] = {}
    for memory in sorted({b.memory for b in program.buffers if b.memory}):
        ends = [(b.offset or 0) + (exact_bytes(b) or 0) for b in program.buffers if b.memory == memory]
        size = -(-max(ends) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        found[memory] = (at, size)
        at += size
    return found


def place_of(program: lir.LoweredProgram, buffer: lir.Buffer) -> int | None:
    """Return the start of a buffer in the caller's workspace, or None if it is known only at run time."""
    if buffer.offset is None:
        return None
    return buffer.offset + (scratch_regions(program)[buffer.memory][0] if buffer.memory else 0)


def placed_bytes(program: lir.LoweredProgram) -> int:
    """Return the size of all buffers that have places. Units: bytes."""
    return fixed_bytes(program) + sum(size for _, size in scratch_regions(program).values())
