"""Walk the nodes of a lowered program, so that a pass handles only the kinds of nodes that concern it.

    for m { load v0; if m < 3 { store v0 } }    walk ->   For, Issue, If, Issue

A node that holds others is listed in `children` and `with_children`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import assert_never

from isamap.ir import Const, Expr, Index, Instruction, Read, substitute_expr
from isamap.ir.domains import largest_value
from isamap.ir.walk import map_reads, reads
from isamap.lower import program as lir
from isamap.source.records import replace

Nodes = tuple[lir.Node, ...]


def children(node: lir.Node) -> Nodes:
    """Return the nodes directly inside a node."""
    match node:
        case lir.For() | lir.Parallel() | lir.If() | lir.Block() | lir.WorkSlice():
            return node.body
        case (
            lir.Issue()
            | lir.Configure()
            | lir.Fill()
            | lir.Hint()
            | lir.Barrier()
            | lir.ProductGroup()
            | lir.Declare()
            | lir.Begin()
        ):
            return ()
        case _:
            assert_never(node)


def with_children(node: lir.Node, nodes: Nodes) -> lir.Node:
    """Return the node with other nodes inside. A leaf node is unchanged."""
    return (
        replace(node, body=nodes)
        if isinstance(node, lir.For | lir.Parallel | lir.If | lir.Block | lir.WorkSlice)
        else node
    )


def walk(nodes: Iterable[lir.Node]) -> Iterator[lir.Node]:
    """Yield the nodes and all nodes inside them in textual order, parents first."""
    for node in nodes:
        yield node
        yield from walk(children(node))


def without_blocks(nodes: Iterable[lir.Node]) -> Iterator[lir.Node]:
    """Yield the nodes with each block replaced by the nodes in it."""
    for node in nodes:
        yield from without_blocks(node.body) if isinstance(node, lir.Block) else (node,)


def rewrite(nodes: Iterable[lir.Node], change: Callable[[lir.Node], Iterable[lir.Node] | None]) -> Nodes:
    """Return the nodes with those replaced for which `change` returns new ones.

    If it returns None, the node stays, and the nodes inside it are rewritten.
    """
    found: list[lir.Node] = []
    for node in nodes:
        instead = change(node)
        found += [with_children(node, rewrite(children(node), change))] if instead is None else instead
    return tuple(found)


def names_in(node: lir.Issue) -> frozenset[str]:
    """Return the variables and sizes on which the operands and parameters of an issue depend."""
    refs = (ref for _, ref in node.operands if isinstance(ref, lir.MemoryRef))
    found = [index for ref in refs for index in (ref.offset, *ref.strides)]
    found += [value for _, value in node.params if isinstance(value, Index)]
    return frozenset(name for index in found for name in index.symbols)


def longest_lengths(
    issue: lir.Issue, instruction: Instruction, loops: Mapping[str, Index], instances: Iterable[str]
) -> dict[str, Index]:
    """Return the largest values of an issue's parameters over all iterations of `loops`.

    A value may depend on the numbers of `instances`. One that is not known is the largest that is allowed.
    """
    own, longest = set(instances), {p.name: p.high for p in instruction.params if p.high is not None}
    for name, value in issue.params:
        if isinstance(value, int | Index):
            most = largest_value(Index.of(value) if isinstance(value, int) else value, loops)
            longest |= {name: most} if most.symbols <= own else {}
    return longest


def has_parallel(nodes: Nodes) -> bool:
    """Return whether threads execute some of the nodes."""
    return any(isinstance(node, lir.Parallel) for node in walk(nodes))


def has_loop(nodes: Nodes) -> bool:
    """Return whether some of the nodes are executed repeatedly."""
    return any(isinstance(node, lir.For | lir.WorkSlice) for node in walk(nodes))


def issues_in(nodes: Nodes) -> Iterator[lir.Issue | lir.Configure]:
    """Yield the issues in nodes, each once, in textual order."""
    return (node for node in walk(nodes) if isinstance(node, lir.Issue | lir.Configure))


def issued_names(nodes: Nodes) -> tuple[str, ...]:
    """Return the names of all instructions that nodes issue, sorted."""
    return tuple(sorted({issue.instruction for issue in issues_in(nodes)}))


def arrays_in(nodes: Nodes) -> frozenset[str]:
    """Return the names of all arrays and buffers that issues and fills access."""
    found: set[str] = set()
    for node in walk(nodes):
        if isinstance(node, lir.Fill):
            found.add(node.buffer)
        elif isinstance(node, lir.Issue):
            found |= {ref.buffer for _, ref in node.operands if isinstance(ref, lir.MemoryRef)}
            read = (v for _, v in node.params if not isinstance(v, int | Index))
            found |= {one.buffer for value in read for one in reads(value)}
    return frozenset(found)


# --- the index expressions of nodes


def shift_accesses(
    nodes: Nodes, moves: Mapping[str, Index], renamed: Mapping[str, str] | None = None
) -> Nodes:
    """Return the nodes, with accesses to some buffers moved by a number of elements, or to another buffer."""
    names = renamed or {}

    def place(buffer: str, at: Index) -> tuple[str, Index]:
        return names.get(buffer, buffer), at + moves[buffer] if buffer in moves else at

    def move(read: Read) -> Expr:
        # The first subscript of a buffer of tiles counts elements.
        first, *rest = read.index
        buffer, first = place(read.buffer, first)
        return replace(read, buffer=buffer, index=(first, *rest))

    return _rewritten(nodes, lambda index: index, place, lambda value: map_reads(value, move))


def rename_in(nodes: Nodes, bindings: Mapping[str, Index]) -> Nodes:
    """Return the nodes with variables replaced."""
    return _rewritten(
        nodes,
        lambda index: index.substitute(bindings),
        lambda buffer, at: (buffer, at.substitute(bindings)),
        lambda value: substitute_expr(value, bindings),
    )


def _rewritten(
    nodes: Nodes,
    index: Callable[[Index], Index],
    place: Callable[[str, Index], tuple[str, Index]],
    expr: Callable[[Expr], Expr],
) -> Nodes:
    def memory(ref: lir.MemoryRef) -> lir.MemoryRef:
        return lir.MemoryRef(*place(ref.buffer, ref.offset), tuple(index(s) for s in ref.strides))

    def operand(ref: lir.OperandRef) -> lir.OperandRef:
        return memory(ref) if isinstance(ref, lir.MemoryRef) else ref

    def argument(value: lir.Argument) -> lir.Argument:
        match value:
            case int() | Const():
                return value
            case Index():
                return index(value)
            case _:
                return expr(value)

    def one(node: lir.Node) -> lir.Node:
        match node:
            case lir.Issue(_, operands, params):
                return replace(
                    node,
                    operands=tuple((name, operand(ref)) for name, ref in operands),
                    params=tuple((name, argument(value)) for name, value in params),
                )
            case lir.Fill(buffer, at, elements):
                return lir.Fill(*place(buffer, at), index(elements))
            case lir.Hint(_, _, at):
                return replace(node, place=memory(at))
            case lir.For(trips=trips):
                return replace(node, trips=index(trips))
            case lir.Parallel(counters):
                return replace(node, counters=tuple((v, index(t)) for v, t in counters))
            case lir.If(conditions):
                return replace(
                    node, conditions=tuple((index(a), sign, index(b)) for a, sign, b in conditions)
                )
            case lir.Begin(_, pieces, trips):
                return replace(node, pieces=index(pieces), trips=index(trips))
            case lir.WorkSlice(_, now, trips):
                return replace(node, now=index(now), trips=index(trips))
            case lir.Block() | lir.Configure() | lir.Barrier() | lir.ProductGroup() | lir.Declare():
                return node
            case _:
                assert_never(node)

    def inner(body: Nodes) -> Nodes:
        return tuple(with_children(one(node), inner(children(node))) for node in body)

    return inner(nodes)
