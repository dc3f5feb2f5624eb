"""Hoist copies that are equal in every iteration of an ordered loop out of the loop.

    for (t …) { stage b { b_tiles0 = … U … }      stage b { b_tiles0 = … U … }
      …                                       →   for (t …) { …
    }                                             }

A copy moves if the loop does not write its source, and no other code writes its buffer. Examples are packed
weights of a recurrent network, or of statements that share blocks. Copies into a scratchpad stay, because
buffers of other nests may have the same addresses there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from isamap.ir import Index
from isamap.lower.program import Block, Fill, For, Issue, LoweredProgram, MemoryRef, Node
from isamap.lower.walk import arrays_in, walk
from isamap.machine import Machine
from isamap.source.records import fields, is_dataclass, replace

Nodes = tuple[Node, ...]


def with_copies_in_front(program: LoweredProgram, machine: Machine) -> LoweredProgram:
    """Return the program with each copy hoisted out of all ordered loops in which it is invariant."""
    addressed = frozenset(b.name for b in program.buffers if b.memory)
    return replace(program, body=_hoist_nodes(program.body, machine, addressed))


def _hoist_nodes(nodes: Nodes, machine: Machine, addressed: frozenset[str]) -> Nodes:
    """Return the nodes with copies moved out of ordered loops, and out of blocks of statements in them."""
    found: list[Node] = []
    for node in nodes:
        if not isinstance(node, For):
            found.append(node)
            continue
        loop = replace(node, body=_hoist_nodes(node.body, machine, addressed))
        moved = [
            b
            for b in _candidates(loop.body)
            if _is_alike(b, loop, machine) and not addressed & arrays_in(b.body)
        ]
        found += [*moved, replace(loop, body=_without(loop.body, moved))]
    return tuple(found)


def _candidates(body: Nodes) -> Iterator[Block]:
    """Yield the copies in a loop's body, and those at the start of the nests in it."""
    for node in body:
        if isinstance(node, Block):
            if node.is_copy:
                yield node
                continue
            for inner in node.body:
                if not isinstance(inner, Block) or not inner.is_copy:
                    break
                yield inner


def _without(body: Nodes, moved: list[Block]) -> Nodes:
    gone = {id(b) for b in moved}
    kept = (n for n in body if id(n) not in gone)
    return tuple(
        replace(n, body=tuple(i for i in n.body if id(i) not in gone)) if isinstance(n, Block) else n
        for n in kept
    )


def _is_alike(copy: Block, loop: For, machine: Machine) -> bool:
    """Return whether a copy reads and writes the same elements in each iteration of a loop."""
    if loop.variable in {s for index in _indices(copy) for s in index.symbols}:
        return False
    written, changed = list(_written_names(copy.body, machine)), list(_written_names(loop.body, machine))
    reads = arrays_in(copy.body) - set(written)
    return not reads & set(changed) and all(changed.count(name) == written.count(name) for name in written)


def _indices(item: object) -> Iterator[Index]:
    """Yield all index expressions in a node."""
    if isinstance(item, Index):
        yield item
    elif isinstance(item, tuple):
        for part in cast("tuple[object, ...]", item):
            yield from _indices(part)
    elif is_dataclass(item):
        for f in fields(item):
            yield from _indices(getattr(item, f.name))


def _written_names(nodes: Nodes, machine: Machine) -> Iterator[str]:
    """Yield the arrays and buffers that leaf nodes write, for each leaf."""
    for node in walk(nodes):
        if isinstance(node, Fill):
            yield node.buffer
        elif isinstance(node, Issue):
            instruction = machine.instructions[node.instruction].instruction
            for operand, ref in node.operands:
                if isinstance(ref, MemoryRef) and instruction.operand(operand).role != "in":
                    yield ref.buffer
