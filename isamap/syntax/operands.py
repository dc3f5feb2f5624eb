"""Operands: shape, memory, strides, placement and what an output holds outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal, cast

from isamap.ir.dtypes import DType
from isamap.ir.nodes import MemoryDecl, Operand, Outside, Placement, Role
from isamap.syntax import ast
from isamap.syntax.indices import resolve_index
from isamap.syntax.scope import Scope, problem, resolve_dtype, unknown
from isamap.syntax.statements import check_free, resolve_extent

RoutineKind = Literal["kernel", "instruction"]
Clause = ast.ClauseSyntax | ast.StridesSyntax | ast.PlacementSyntax

_OUTSIDE: dict[str, Outside] = {"zero": "zero", "keep": "keep", "undefined": "undefined"}


def resolve_operand(o: ast.OperandSyntax, scope: Scope, kind: RoutineKind) -> Operand:
    """The operand of a declaration. Raises: TypeProblem."""
    check_free(o.name, scope, "operand")
    place = f"an extent of `{o.name.text}`"
    operand = Operand(
        o.name.text,
        cast(Role, o.role),
        resolve_dtype(o.dtype),
        tuple(resolve_extent(e, scope, place) for e in o.shape),
        span=o.span,
    )
    seen: set[str] = set()
    for clause in o.clauses:
        name = _clause_name(clause)
        if name in seen:
            raise problem("clause-repeated", f"`{name}` is said twice of `{o.name.text}`", clause.span)
        seen.add(name)
        operand = _with_clause(operand, clause, scope, kind)
    if kind == "instruction" and operand.memory is None and operand.role != "temp":
        raise problem(
            "memory-missing",
            f"`{o.name.text}` does not say in which memory it lives",
            o.name.span,
            "every operand of an instruction names its memory",
            advice=f"add `@ MEMORY`{_known_memories(scope)}",
        )
    return operand


def _known_memories(scope: Scope) -> str:
    names = [d.name for d in scope.known.declarations if isinstance(d, MemoryDecl)]
    return f": {', '.join(names[:8])}" if names else ""


def _clause_name(clause: Clause) -> str:
    match clause:
        case ast.ClauseSyntax("in_memory", _, _):
            return "@"
        case ast.ClauseSyntax(kind, _, _):
            return kind
        case ast.StridesSyntax():
            return "strides"
        case ast.PlacementSyntax():
            return "placed"


def _with_clause(operand: Operand, clause: Clause, scope: Scope, kind: RoutineKind) -> Operand:
    match clause:
        case ast.ClauseSyntax("in_memory", name, span):
            if kind == "kernel":
                raise problem(
                    "memory-in-kernel", "a kernel does not say where its operands live", span,
                    "the schedule places them; only instructions name memories",
                )  # fmt: skip
            return replace(operand, memory=_memory(name, scope).name)
        case ast.ClauseSyntax("accumulate", name, span):
            return replace(operand, accumulate=_accumulate(operand, name, resolve_dtype(name)))
        case ast.ClauseSyntax("outside", name, span):
            if operand.role not in ("out", "inout"):
                raise problem(
                    "clause-misplaced", f"`outside` is about outputs; `{operand.name}` is none", span
                )
            if name.text not in _OUTSIDE:
                raise unknown("unknown-outside", "rule for `outside`", name, _OUTSIDE)
            return replace(operand, outside=_OUTSIDE[name.text])
        case ast.StridesSyntax(values, span):
            if len(values) != len(operand.shape):
                raise problem(
                    "wrong-rank",
                    f"`{operand.name}` has {len(operand.shape)} axes, but {len(values)} strides",
                    span,
                )
            strides = tuple(None if v is None else resolve_index(v, scope, "a stride") for v in values)
            return replace(operand, strides=strides)
        case ast.PlacementSyntax():
            placement = resolve_placement(clause, scope)
            if len(placement.indices) != len(operand.shape):
                raise problem(
                    "wrong-rank",
                    f"`{operand.name}` has {len(operand.shape)} axes; {len(placement.indices)} are placed",
                    clause.span,
                )
            return replace(operand, placement=placement)
        case _:
            raise AssertionError(clause)


def _accumulate(operand: Operand, name: ast.Ident, dtype: DType) -> DType:
    if operand.role not in ("out", "inout"):
        raise problem(
            "clause-misplaced", f"`accumulate` is about outputs; `{operand.name}` is none", name.span
        )
    if dtype.kind != operand.dtype.kind or dtype.bits < operand.dtype.bits:
        raise problem(
            "bad-accumulate",
            f"`{operand.name}` of {operand.dtype} cannot be accumulated in {dtype}",
            name.span,
            "the sum runs in a type of the same kind that is at least as wide",
        )  # fmt: skip
    return dtype


def _memory(name: ast.Ident, scope: Scope) -> MemoryDecl:
    memories = {d.name: d for d in scope.known.declarations if isinstance(d, MemoryDecl)}
    if name.text not in memories:
        raise unknown("unknown-memory", "memory", name, memories)
    return memories[name.text]


def resolve_placement(p: ast.PlacementSyntax, scope: Scope) -> Placement:
    """Names of indices and the memory coordinates that they make. Raises: TypeProblem."""
    inner = scope
    for index in p.indices:
        check_free(index, inner, "index of the placement")
        inner = inner.with_index(index.text, "element")
    _check_distinct(
        [name for name, _ in p.coordinates],
        lambda name: problem("clause-repeated", f"coordinate `{name.text}` is given twice", name.span),
    )
    coordinates = tuple((n.text, resolve_index(e, inner, f"coordinate `{n.text}`")) for n, e in p.coordinates)
    return Placement(tuple(i.text for i in p.indices), coordinates, p.span)


def _check_distinct(names: Iterable[ast.Ident], refusal: Callable[[ast.Ident], Exception]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise refusal(name)
        seen.add(name.text)
