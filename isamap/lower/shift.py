"""Rewrite nodes: move buffers within the workspace, and substitute variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from isamap.ir import Const, Expr, Index, Read, substitute_expr
from isamap.ir.walk import map_reads
from isamap.lower.program import (
    Argument,
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
    OperandRef,
    Parallel,
    Share,
)

Nodes = tuple[Node, ...]


def shifted(nodes: Nodes, moves: Mapping[str, Index]) -> Nodes:
    """Return the nodes with everything in the named buffers moved on by so many elements."""

    def offset(buffer: str, at: Index) -> Index:
        return at + moves[buffer] if buffer in moves else at

    def moved(read: Read) -> Expr:
        # The first subscript of a buffer of tiles counts elements.
        first, *rest = read.index
        return replace(read, index=(offset(read.buffer, first), *rest))

    return _rewritten(nodes, lambda index: index, offset, lambda value: map_reads(value, moved))


def substituted(nodes: Nodes, bindings: Mapping[str, Index]) -> Nodes:
    """Return the nodes with variables replaced."""
    return _rewritten(
        nodes,
        lambda index: index.substitute(bindings),
        lambda _, at: at.substitute(bindings),
        lambda value: substitute_expr(value, bindings),
    )


def _rewritten(
    nodes: Nodes,
    index: Callable[[Index], Index],
    offset: Callable[[str, Index], Index],
    expr: Callable[[Expr], Expr],
) -> Nodes:
    def inner(body: Nodes) -> Nodes:
        return _rewritten(body, index, offset, expr)

    def operand(ref: OperandRef) -> OperandRef:
        if not isinstance(ref, MemoryRef):
            return ref
        return MemoryRef(ref.buffer, offset(ref.buffer, ref.offset), tuple(index(s) for s in ref.strides))

    def argument(value: Argument) -> Argument:
        match value:
            case int() | Const():
                return value
            case Index():
                return index(value)
            case _:
                return expr(value)

    def one(node: Node) -> Node:
        match node:
            case Issue(_, operands, params):
                return replace(
                    node,
                    operands=tuple((name, operand(ref)) for name, ref in operands),
                    params=tuple((name, argument(value)) for name, value in params),
                )
            case Fill(buffer, at, elements):
                return Fill(buffer, offset(buffer, at), index(elements))
            case Hint(_, _, place):
                moved = offset(place.buffer, place.offset)
                return replace(
                    node, place=MemoryRef(place.buffer, moved, tuple(index(s) for s in place.strides))
                )
            case For(_, trips, body):
                return replace(node, trips=index(trips), body=inner(body))
            case Parallel(counters, body):
                return replace(node, counters=tuple((v, index(t)) for v, t in counters), body=inner(body))
            case If(conditions, body):
                return If(tuple((index(a), sign, index(b)) for a, sign, b in conditions), inner(body))
            case Block(_, body):
                return replace(node, body=inner(body))
            case Begin(_, pieces, trips):
                return replace(node, pieces=index(pieces), trips=index(trips))
            case Share(_, now, trips, body=body):
                return replace(node, now=index(now), trips=index(trips), body=inner(body))
            case Configure() | Declare():
                return node
            case _:
                assert_never(node)

    return tuple(one(node) for node in nodes)
