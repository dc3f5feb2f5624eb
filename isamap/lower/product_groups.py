"""Close groups of asynchronous products, and wait for them where their results or their operands are used otherwise.

    for k {                                        for k {
      barrier; stage a;                              wait; barrier; stage a;
      for k1 { v0 += wgmma(a, b) }          ->       for k1 { v0 += wgmma(a, b) } close
    }                                              }
    store v0                                       wait; store v0

A product continues after its issue, reads memory meanwhile, and adds to registers. Products of one instruction may
follow each other on the same registers. Everything else that touches these waits, and so does a barrier, because
lanes may write behind it what the products read. Where a buffer has more copies than are filled ahead (`behind`), the
groups of so many iterations stay in flight across the barrier at the start of an iteration.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Index, Mod
from isamap.lower.program import Barrier, For, If, Issue, MemoryRef, Node, ProductGroup, RegisterRef
from isamap.lower.walk import Nodes, children, walk, with_children, without_blocks
from isamap.machine import Machine, is_late_product

Late = Mapping[str, str]
"""The registers to which products in flight add, each with the instruction."""


def with_product_groups(nodes: Nodes, machine: Machine) -> Nodes:
    """Return the nodes with all products closed in groups and waited for."""
    late = {name for name, item in machine.instructions.items() if is_late_product(item, machine)}
    if not any(isinstance(node, Issue) and node.instruction in late for node in walk(nodes)):
        return nodes
    waiting, _ = _with_waits(nodes, {}, late, (None, 0))
    return with_closed_groups(waiting, late)[0]


def _with_waits(
    nodes: Nodes, flying: Late, late: set[str], spared: tuple[Node | None, int]
) -> tuple[Nodes, Late]:
    """Return nodes with waits, and the registers to which products are still in flight at their end.

    `spared` is a barrier that some groups of products may pass in flight.
    """
    found: list[Node] = []
    for node in nodes:
        match node:
            case Issue(name):
                touched = {ref.value for _, ref in node.operands if isinstance(ref, RegisterRef)}
                if any(flying[value] != name for value in touched & flying.keys()):
                    found.append(ProductGroup(0))
                    flying = {}
                flying = {**flying, **dict.fromkeys(touched, name)} if name in late else flying
                found.append(node)
            case Barrier():
                groups = spared[1] if node is spared[0] else 0
                found += [ProductGroup(groups)] * bool(flying) + [node]
                flying = flying if groups else {}
            case For(_, _, body):
                first = next(without_blocks(body), None), _groups_behind(node, late)
                again = _with_waits(body, flying, late, first)[1]
                inside, after = _with_waits(body, {**flying, **again}, late, first)
                found.append(with_children(node, inside))
                flying = {**flying, **after} if node.trips.value is None else after
            case If(_, body):
                inside, after = _with_waits(body, flying, late, spared)
                found.append(with_children(node, inside))
                flying = {**flying, **after}
            case _:
                inside, flying = _with_waits(children(node), flying, late, spared)
                found.append(with_children(node, inside))
    return tuple(found), flying


def _groups_behind(loop: For, late: set[str]) -> int:
    """Return the iterations whose products may be in flight at the start of one, each with a group of its own.

    A copy that an iteration fills is read again by the iteration that comes so many later as there are copies.
    """
    inside = [node for node in walk(loop.body) if isinstance(node, Issue)]
    others = [issue for issue in inside if issue.instruction not in late]
    barriers = sum(isinstance(node, Barrier) for node in walk(loop.body))
    if barriers != 1 or any(isinstance(ref, RegisterRef) for issue in others for _, ref in issue.operands):
        return 0
    gaps: list[int] = []
    for read in (ref for issue in inside if issue.instruction in late for _, ref in issue.operands):
        for fill in (ref for issue in others for _, ref in issue.operands if isinstance(ref, MemoryRef)):
            if isinstance(read, MemoryRef) and read.buffer == fill.buffer:
                use, made = slot_of(read, loop.variable), slot_of(fill, loop.variable)
                known = use and made and use[1] == made[1]
                gaps.append(((use[0] - made[0]).mod(use[1]).value or 1) - 1 if use and made and known else 0)
    return min(gaps, default=0)


def slot_of(ref: MemoryRef, variable: str) -> tuple[Index, int] | None:
    """Return the dividend and the divisor of the remainder that selects a slot, or None if not one slot is used."""
    atoms = [atom for monomial, _ in ref.offset.terms for atom in monomial if isinstance(atom, Mod)]
    slots = [(atom.value, atom.divisor.value or 0) for atom in atoms if variable in atom.value.symbols]
    return slots[0] if len(slots) == 1 and slots[0][1] else None


def with_closed_groups(nodes: Nodes, late: set[str]) -> tuple[Nodes, bool]:
    """Return nodes with each group closed behind its last product, and whether one is left open at their end.

    A group ends where nodes wait. Loops around products alone are parts of one group.
    """
    is_open, last, found = False, 0, list[Node]()
    waits = any(isinstance(node, ProductGroup) for node in walk(nodes))
    for node in nodes:
        if is_open and any(isinstance(inner, ProductGroup) for inner in walk((node,))):
            found.insert(last, ProductGroup())
            is_open = False
        inside, leaves = with_closed_groups(children(node), late)
        found.append(with_children(node, inside))
        if leaves or (isinstance(node, Issue) and node.instruction in late):
            is_open, last = True, len(found)
    if is_open and waits:
        found.insert(last, ProductGroup())
    return tuple(found), is_open and not waits
