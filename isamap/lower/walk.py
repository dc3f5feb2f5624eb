"""Walk the nodes of a lowered program, so that a pass handles only the kinds of nodes that concern it.

    for m { load v0; if m < 3 { store v0 } }    walk ->   For, Issue, If, Issue

A node that holds others is listed in `children` and `with_children`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from isamap.ir import Index
from isamap.ir.walk import reads
from isamap.lower.program import (
    Begin,
    Block,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    MemoryRef,
    Node,
    Parallel,
    Share,
)

Nodes = tuple[Node, ...]


def children(node: Node) -> Nodes:
    """Return the nodes that a node holds."""
    match node:
        case For() | Parallel() | If() | Block() | Share():
            return node.body
        case Issue() | Configure() | Fill() | Hint() | Declare() | Begin():
            return ()
        case _:
            assert_never(node)


def with_children(node: Node, nodes: Nodes) -> Node:
    """Return the node with other nodes inside; a node that holds none stays as it is."""
    return replace(node, body=nodes) if isinstance(node, For | Parallel | If | Block | Share) else node


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes and all inside of them, each before what it holds, in the order of the text."""
    for node in nodes:
        yield node
        yield from walk(children(node))


def rewrite(nodes: Iterable[Node], change: Callable[[Node], Iterable[Node] | None]) -> Nodes:
    """Return the nodes with others in place of those that `change` answers for.

    Where it answers None, the node stays, and what it holds is rewritten.
    """
    found: list[Node] = []
    for node in nodes:
        instead = change(node)
        found += [with_children(node, rewrite(children(node), change))] if instead is None else instead
    return tuple(found)


def has_parallel(nodes: Nodes) -> bool:
    """Return whether threads perform some of the nodes."""
    return any(isinstance(node, Parallel) for node in walk(nodes))


def has_loop(nodes: Nodes) -> bool:
    """Return whether some of the nodes are performed several times."""
    return any(isinstance(node, For | Share) for node in walk(nodes))


def issues_in(nodes: Nodes) -> Iterator[Issue | Configure]:
    """Yield what nodes issue, each once, in the order of the text."""
    return (node for node in walk(nodes) if isinstance(node, Issue | Configure))


def issued(nodes: Nodes) -> tuple[str, ...]:
    """Return the names of all instructions that nodes issue, sorted."""
    return tuple(sorted({issue.instruction for issue in issues_in(nodes)}))


def arrays_in(nodes: Nodes) -> frozenset[str]:
    """Return the names of all arrays and buffers that issues and fills touch."""
    found: set[str] = set()
    for node in walk(nodes):
        if isinstance(node, Fill):
            found.add(node.buffer)
        elif isinstance(node, Issue):
            found |= {ref.buffer for _, ref in node.operands if isinstance(ref, MemoryRef)}
            read = (v for _, v in node.params if not isinstance(v, int | Index))
            found |= {one.buffer for value in read for one in reads(value)}
    return frozenset(found)
