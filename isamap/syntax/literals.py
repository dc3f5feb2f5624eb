"""Literals: numbers that take the type of what stands beside them.

In `max(x, 0)` the 0 is of the type of x; in `f32(1)` the cast says it.
"""

from __future__ import annotations

from math import inf, isfinite

from isamap.ir.dtypes import BOOL, DType
from isamap.ir.nodes import Const
from isamap.ir.ops import OPS
from isamap.source import Span
from isamap.syntax import ast
from isamap.syntax.scope import Scope, problem

FUNCTIONS = tuple(op.name for op in OPS.values() if op.spelling is None)


def is_known(e: ast.ExprSyntax, scope: Scope) -> bool:
    """Whether `inf` in the expression is a declared name, not the literal."""
    inner = e.operand if isinstance(e, ast.Unary) else e
    return isinstance(inner, ast.Name) and inner.name in scope.names


def literal_value(e: ast.ExprSyntax) -> int | float | None:
    """The number that a literal, with or without a sign, stands for; None for anything else."""
    match e:
        case ast.Number(value, _):
            return value
        case ast.Name("inf", _):
            return inf
        case ast.Unary("neg", ast.Number() | ast.Name("inf") as operand, _):
            inner = literal_value(operand)
            return -inner if inner is not None else None
        case _:
            return None


def is_bare(e: ast.ExprSyntax, scope: Scope) -> bool:
    """Whether an expression is made of literals only, so that it has no type of its own."""
    if literal_value(e) is not None:
        return not is_known(e, scope)
    match e:
        case ast.Unary(_, operand, _):
            return is_bare(operand, scope)
        case ast.Binary(op, left, right, _):
            return OPS[op].result == "same" and is_bare(left, scope) and is_bare(right, scope)
        case ast.Apply(name, args, _) if name.text in FUNCTIONS:
            op = OPS[name.text]
            values = args[: op.arity][1 if op.name == "select" else 0 :]
            return bool(values) and all(is_bare(a, scope) for a in values)
        case _:
            return False


def make_const(value: int | float, dtype: DType | None, span: Span) -> Const:
    """A literal of a type. Raises: TypeProblem when the type is unknown or does not hold the value."""
    if dtype is None:
        raise problem(
            "cannot-infer-type",
            f"nothing says which type {number_text(value)} has",
            span,
            advice=f"write a cast, as in `f32({number_text(value)})`",
        )
    if dtype.is_float:
        return Const(_as_float(value, dtype, span), dtype, span)
    if dtype == BOOL:
        raise problem("literal-type", "a bool is written `true` or `false`", span)
    if isinstance(value, float):
        raise problem(
            "literal-type", f"{number_text(value)} is no {dtype}: it has a fraction or an exponent", span
        )
    if not dtype.low <= value <= dtype.high:
        raise problem(
            "literal-out-of-range",
            f"{number_text(value)} is no {dtype}",
            span,
            f"{dtype} holds {dtype.low} to {dtype.high}",
        )
    return Const(value, dtype, span)


def _as_float(value: int | float, dtype: DType, span: Span) -> float:
    limit = 2.0 ** (2 ** (dtype.exponent_bits - 1)) if dtype.exponent_bits < 11 else inf
    try:
        number = float(value)
    except OverflowError:
        number = inf
    too_large = not isfinite(number) if not isinstance(value, float) or value not in (inf, -inf) else False
    if too_large or (isfinite(number) and abs(number) >= limit):
        raise problem("literal-out-of-range", f"{number_text(value)} is too large for {dtype}", span)
    return number


def number_text(value: int | float) -> str:
    """A number in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
