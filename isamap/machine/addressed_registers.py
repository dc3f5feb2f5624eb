"""Give addresses to an accelerator's registers where instructions name registers by computed numbers.

    memory weights: registers(count = 128, rows = 32, row_bytes = 32, named = immediate);
    becomes  memory weights: scratchpad(bytes = 128 KiB);  register n begins at byte 1024*n

An instruction word has a field for the number of a register, so that a loop may count through registers. A file of
such registers keeps the tiles of an operand across outer loops, as a scratchpad does: the search for schedules
decides how many tiles stay there, and which loop loads them. Nothing is unrolled for it.

Files that a C compiler allocates stay as they are, and so do files of sums, which register blocks keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod

from isamap.ir import Assign, Cast, Index, Loop, Operand, Read, Stmt
from isamap.machine.emit_nodes import EmitSemantics
from isamap.machine.encodings import BitField, Quantity
from isamap.machine.model import Machine, MachineInstruction, Memory
from isamap.source.records import replace


@lru_cache(maxsize=32)
def with_addressed_registers(machine: Machine) -> Machine:
    """Return the machine with a scratchpad for each register file that can keep operands across loops."""
    files = {m.name: m for m in machine.memories.values() if _keeps_operands(m, machine)}
    if not files:
        return machine
    memories = {n: _as_scratchpad(m) if n in files else m for n, m in machine.memories.items()}
    instructions = {n: _with_addresses(i, files) for n, i in machine.instructions.items()}
    return replace(machine, memories=memories, instructions=instructions)


def _keeps_operands(memory: Memory, machine: Machine) -> bool:
    """Return whether a register file holds only inputs of reductions, and a loop may count through its registers."""
    has_scratchpad = any(m.kind == "scratchpad" for m in machine.memories.values())
    has_views = any(memory.name in (m.base, m.decl.base) for m in machine.memories.values())
    if memory.kind != "registers" or memory.base is not None or has_views or not has_scratchpad:
        return False
    if memory.named != "immediate" or memory.register_bytes is None or not memory.count:
        return False
    used = [
        (item, o)
        for item in machine.instructions.values()
        for o in item.instruction.operands
        if o.memory == memory.name
    ]
    return {o.role for _, o in used} == {"in", "out"} and all(
        _is_countable(*u, memory, machine) for u in used
    )


def _is_countable(item: MachineInstruction, operand: Operand, memory: Memory, machine: Machine) -> bool:
    """Return whether an instruction loads a register from main memory, or reads it as a factor of a reduction."""
    own = item.instruction
    indexed = any(r.field.index == operand.name for r in own.requires)
    if indexed or not isinstance(item.emit, EmitSemantics) or not _is_whole(operand, memory):
        return False
    assigned = list(_assignments(own.body))
    if operand.role == "in":
        return any(a.op is not None for a in assigned)
    others = [o for o in own.operands if o is not operand]
    from_memory = all(machine.memories[o.memory or ""].kind == "addressable" for o in others)
    return from_memory and len(others) == 1 and len(assigned) == 1 and _is_move(assigned[0])


def _is_whole(operand: Operand, memory: Memory) -> bool:
    """Return whether an operand fills every byte of a register, in row-major order."""
    shape = [extent.value for extent in operand.shape]
    sizes = [n for n in shape if n is not None]
    is_dense = operand.placement is None and operand.strides is None and len(sizes) == len(shape)
    return is_dense and prod(sizes) * operand.dtype.size_bytes == memory.register_bytes


def _assignments(body: tuple[Stmt, ...]) -> Iterator[Assign]:
    for statement in body:
        match statement:
            case Assign():
                yield statement
            case Loop(_, inside):
                yield from _assignments(inside)


def _is_move(assign: Assign) -> bool:
    value = assign.value.value if isinstance(assign.value, Cast) else assign.value
    return assign.op is None and assign.guard is None and isinstance(value, Read)


def _as_scratchpad(memory: Memory) -> Memory:
    size = Index.of(memory.capacity_bytes or 0)
    return replace(memory, decl=replace(memory.decl, kind="scratchpad", attributes=(("bytes", size),)))


def _with_addresses(item: MachineInstruction, files: Mapping[str, Memory]) -> MachineInstruction:
    """Return an instruction whose register numbers are addresses in units of whole registers."""
    memories = {o.name: o.memory or "" for o in item.instruction.operands}
    sizes = {name: files[m].register_bytes or 1 for name, m in memories.items() if m in files}
    if not sizes:
        return item
    encoding = item.encoding
    if encoding is not None:
        words = tuple(tuple(_address_field(f, sizes) for f in word) for word in encoding.words)
        entries = tuple((t, tuple(_address_field(f, sizes) for f in word)) for t, word in encoding.entries)
        encoding = replace(encoding, words=words, entries=entries)
    return replace(item, encoding=encoding)


def _address_field(field: BitField, sizes: Mapping[str, int]) -> BitField:
    held = field.holds
    if not isinstance(held, Quantity) or held.kind != "index" or held.name not in sizes:
        return field
    return replace(field, holds=Quantity("address", held.name, sizes[held.name]))
