"""Statements: loops bring axes into scope, assignments are typed against their target."""

from __future__ import annotations

from isamap.ir.dtypes import BOOL, DTYPES, TYPE_SETS, DType
from isamap.ir.index import Index
from isamap.ir.layout import KEYWORDS
from isamap.ir.nodes import Assign, Axis, Expr, Loop, Operand, Stmt
from isamap.ir.ops import OPS, REDUCTIONS
from isamap.syntax import ast
from isamap.syntax.indices import MAX_EXTENT, resolve_index
from isamap.syntax.scope import Findings, Scope, problem
from isamap.syntax.values import resolve_access, resolve_value

RESERVED = KEYWORDS | {"inf", "true", "false", "any", "strides", *DTYPES}


def resolve_statement(s: ast.StmtSyntax, scope: Scope, findings: Findings) -> Stmt | None:
    """The statement; None, with the findings kept, when it was refused."""
    match s:
        case ast.AssignSyntax():
            with findings.collect():
                return _assign(s, scope)
            return None
        case ast.LoopSyntax():
            return _loop(s, scope, findings)


def _loop(s: ast.LoopSyntax, scope: Scope, findings: Findings) -> Loop | None:
    axes: list[Axis] = []
    inner = scope
    for axis in s.axes:
        name = axis.name.text
        with findings.collect():
            check_free(axis.name, inner, "axis")
            extent = resolve_extent(axis.extent, scope, f"the extent of axis `{name}`")
            axes.append(Axis(name, extent, axis.span))
        if axes and axes[-1].name == name:
            inner = inner.with_axis(name, axes[-1].extent)
        else:
            inner = inner.with_index(name, "axis") if name not in inner.names else inner.with_broken(name)
    guard: Expr | None = None
    if s.guard is not None:
        with findings.collect():
            guard = resolve_value(s.guard, inner, BOOL, "a guard")
    before = findings.refused
    body = [resolve_statement(b, inner, findings) for b in s.body]
    if not s.body:
        with findings.collect():
            raise problem("empty-loop", "this loop does nothing", s.span, advice="put a statement into it")
    if findings.refused > before or len(axes) != len(s.axes):
        return None
    return Loop(tuple(axes), tuple(b for b in body if b is not None), s.ordered, guard, s.span)


def resolve_extent(e: ast.ExprSyntax, scope: Scope, place: str) -> Index:
    """An extent: an index expression without axes, 1 to 2**31 where it is a number. Raises: TypeProblem."""
    extent = resolve_index(e, scope, place)
    moving = sorted(s for s in extent.symbols if scope.indices.get(s) == "axis")
    if moving:
        raise problem(
            "extent-varies",
            f"{place} changes with axis `{moving[0]}`",
            e.span,
            "loops are rectangular: extents are made of numbers and sizes",
            advice="loop over the whole range and add a guard: `if …`",
        )
    if extent.value is not None and extent.value < 1:
        raise problem("extent-not-positive", f"{place} is {extent.value}; the smallest is 1", e.span)
    if extent.value is not None and extent.value > MAX_EXTENT:
        raise problem("extent-too-large", f"{place} is {extent.value}; the limit is 2**31", e.span)
    return extent


def check_free(name: ast.Ident, scope: Scope, what: str) -> None:
    """Refuse a second meaning for a name in sight."""
    if name.text in RESERVED:
        raise problem(
            "reserved-name",
            f"`{name.text}` is a word of the language: this {what} needs another name",
            name.span,
        )
    meaning = scope.meaning(name.text)
    if meaning is not None:
        raise problem(
            "name-taken",
            f"`{name.text}` is {meaning} already: this {what} needs another name",
            name.span,
        )


def _assign(s: ast.AssignSyntax, scope: Scope) -> Assign:
    operand = scope.operand(s.target.name)
    if operand.role == "in":
        raise problem(
            "write-to-input",
            f"`{operand.name}` is an input: it cannot be assigned",
            s.target.span,
            advice="declare it `out` or `inout`",
        )
    target = resolve_access(s.target.name, s.target.subscripts, s.target.span, scope)
    op = REDUCTIONS[s.op] if s.op else None
    if op is not None:
        _check_reduction(op, operand, s)
    wanted = (operand.accumulate or operand.dtype) if op is not None else operand.dtype
    value = resolve_value(s.value, scope, wanted, _target_place(s, operand, wanted))
    guard = resolve_value(s.guard, scope, BOOL, "a guard") if s.guard is not None else None
    return Assign(target, op, value, guard, s.span)


def _check_reduction(op: str, operand: Operand, s: ast.AssignSyntax) -> None:
    dtype = operand.accumulate or operand.dtype
    if dtype not in TYPE_SETS[OPS[op].domain]:
        raise problem("wrong-operand-type", f"`{s.op}=` does not work on {dtype}", s.span)


def _target_place(s: ast.AssignSyntax, operand: Operand, wanted: DType) -> str:
    if s.op and operand.accumulate is not None:
        return f"what is accumulated into `{operand.name}` (accumulate {wanted})"
    return f"what is assigned to `{operand.name}`"
