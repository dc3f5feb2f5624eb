"""Replace symbols by numbers or expressions in a statement, an operand or a whole routine.

`substitute_stmt(C[m, n] += …, {"m": Index.of("i") * 16})` is `C[16*i, n] += …`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, assert_never

from isamap.ir import nodes as ir
from isamap.ir.dtypes import I64
from isamap.ir.evaluate import fold_cast
from isamap.ir.index import Index
from isamap.source.records import replace

Bindings = Mapping[str, Index | int]
R = TypeVar("R", bound=ir.Routine)


def substitute_expr(e: ir.Expr, bindings: Bindings) -> ir.Expr:
    """Return the expression with symbols of its subscripts and index values replaced."""
    match e:
        case ir.Const() | ir.Scalar():
            return e
        case ir.IndexValue(index, dtype, span):
            bound = index.substitute(bindings)
            return (
                ir.IndexValue(bound, dtype, span) if bound.value is None else ir.Const(bound.value, I64, span)
            )
        case ir.Read():
            return substitute_read(e, bindings)
        case ir.Call(_, args, _, _, _):
            return replace(e, args=tuple(substitute_expr(a, bindings) for a in args))
        case ir.Cast(value, _, _, _):
            return fold_cast(replace(e, value=substitute_expr(value, bindings)))
        case _:
            assert_never(e)


def substitute_read(e: ir.Read, bindings: Bindings) -> ir.Read:
    """Return the access with symbols of its subscripts replaced."""
    return replace(e, index=tuple(i.substitute(bindings) for i in e.index))


def substitute_stmt(s: ir.Stmt, bindings: Bindings) -> ir.Stmt:
    """Return the statement with symbols replaced. Loops keep their axes' names."""
    guard = substitute_expr(s.guard, bindings) if s.guard is not None else None
    match s:
        case ir.Assign(target, _, value, _, _):
            return replace(
                s,
                target=substitute_read(target, bindings),
                value=substitute_expr(value, bindings),
                guard=guard,
            )
        case ir.Loop(axes, body, _, _, _):
            bound = tuple(ir.Axis(a.name, a.extent.substitute(bindings), a.span) for a in axes)
            return replace(s, axes=bound, body=tuple(substitute_stmt(b, bindings) for b in body), guard=guard)
        case _:
            assert_never(s)


def substitute_operand(o: ir.Operand, bindings: Bindings) -> ir.Operand:
    """Return the operand with symbols of shape, strides and placement replaced."""
    strides = o.strides
    if strides is not None:
        strides = tuple(None if s is None else s.substitute(bindings) for s in strides)
    return replace(
        o,
        shape=tuple(e.substitute(bindings) for e in o.shape),
        strides=strides,
        placement=_placement(o.placement, bindings) if o.placement is not None else None,
        domain=_domain(o.domain, bindings) if o.domain is not None else None,
    )


def _domain(d: ir.Domain, bindings: Bindings) -> ir.Domain:
    return replace(d, low=d.low.substitute(bindings), high=d.high.substitute(bindings))


def _placement(p: ir.Placement, bindings: Bindings) -> ir.Placement:
    return replace(p, coordinates=tuple((n, e.substitute(bindings)) for n, e in p.coordinates))


def substitute_constraint(c: ir.Constraint, bindings: Bindings) -> ir.Constraint:
    """Return the constraint with symbols replaced."""
    return replace(c, left=c.left.substitute(bindings), right=c.right.substitute(bindings))


def substitute_routine(r: R, bindings: Bindings) -> R:
    """Return the routine with symbols replaced everywhere. Its lists of parameters and lets are unchanged."""
    bound = replace(
        r,
        operands=tuple(substitute_operand(o, bindings) for o in r.operands),
        body=tuple(substitute_stmt(s, bindings) for s in r.body),
        lets=tuple(replace(let, value=let.value.substitute(bindings)) for let in r.lets),
        where=tuple(substitute_constraint(c, bindings) for c in r.where),
        params=tuple(
            replace(
                p,
                low=p.low.substitute(bindings) if p.low is not None else None,
                high=p.high.substitute(bindings) if p.high is not None else None,
            )
            for p in r.params
        ),
    )
    if isinstance(bound, ir.Instruction):
        requires = tuple(replace(q, value=q.value.substitute(bindings)) for q in bound.requires)
        settings = tuple(replace(q, value=q.value.substitute(bindings)) for q in bound.settings)
        return replace(bound, requires=requires, settings=settings)
    return bound
