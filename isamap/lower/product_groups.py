"""Close groups of asynchronous products, and wait for them where their results or their operands are used otherwise.

    for k {                                        for k {
      barrier; stage a;                              wait; barrier; stage a;
      for k1 { v0 += wgmma(a, b) }          ->       for k1 { v0 += wgmma(a, b) } close
    }                                              }
    store v0                                       wait; store v0

A product continues after its issue, reads memory meanwhile, and adds to registers. Products of one instruction may
follow each other on the same registers. Everything else that touches these waits, and so does a barrier, because
lanes may write behind it what the products read.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.lower.program import Barrier, For, If, Issue, Node, ProductGroup, RegisterRef
from isamap.lower.walk import Nodes, children, walk, with_children
from isamap.machine import Machine, is_late_product

Late = Mapping[str, str]
"""The registers to which products in flight add, each with the instruction."""


def with_product_groups(nodes: Nodes, machine: Machine) -> Nodes:
    """Return the nodes with all products closed in groups and waited for."""
    late = {name for name, item in machine.instructions.items() if is_late_product(item, machine)}
    if not any(isinstance(node, Issue) and node.instruction in late for node in walk(nodes)):
        return nodes
    waiting, _ = _with_waits(nodes, {}, late)
    return _with_closed_groups(waiting, late)[0]


def _with_waits(nodes: Nodes, flying: Late, late: set[str]) -> tuple[Nodes, Late]:
    """Return nodes with waits, and the registers to which products are still in flight at their end."""
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
                found += [ProductGroup(0)] * bool(flying) + [node]
                flying = {}
            case For(_, _, body):
                again = _with_waits(body, flying, late)[1]
                inside, after = _with_waits(body, {**flying, **again}, late)
                found.append(with_children(node, inside))
                flying = {**flying, **after} if node.trips.value is None else after
            case If(_, body):
                inside, after = _with_waits(body, flying, late)
                found.append(with_children(node, inside))
                flying = {**flying, **after}
            case _:
                inside, flying = _with_waits(children(node), flying, late)
                found.append(with_children(node, inside))
    return tuple(found), flying


def _with_closed_groups(nodes: Nodes, late: set[str]) -> tuple[Nodes, bool]:
    """Return nodes with each group closed behind its last product, and whether one is left open at their end.

    A group ends where nodes wait. Loops around products alone are parts of one group.
    """
    is_open, last, found = False, 0, list[Node]()
    waits = any(isinstance(node, ProductGroup) for node in walk(nodes))
    for node in nodes:
        if isinstance(node, ProductGroup) and is_open:
            found.insert(last, ProductGroup())
            is_open = False
        inside, leaves = _with_closed_groups(children(node), late)
        found.append(with_children(node, inside))
        if leaves or (isinstance(node, Issue) and node.instruction in late):
            is_open, last = True, len(found)
    if is_open and waits:
        found.insert(last, ProductGroup())
    return tuple(found), is_open and not waits
