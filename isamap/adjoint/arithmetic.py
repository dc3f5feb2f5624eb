"""Build simplified expressions of derivatives, without products with 1 and sums with 0."""

from __future__ import annotations

from isamap.ir import Call, Cast, Const, DType, Expr, Read, Scalar
from isamap.ir.dtypes import F32
from isamap.ir.walk import walk


def adjoint_type(dtype: DType) -> DType:
    """Return the type in which derivatives by values of a type are computed: a float type of at least 32 bits."""
    return F32 if dtype.is_float and dtype.bits < F32.bits else dtype


def number(value: float, like: Expr) -> Const:
    """Return a number of the type of another expression."""
    return Const(value, like.dtype)


def is_fixed(e: Expr) -> bool:
    """Return whether an expression depends on nothing but constants and sizes."""
    return not any(isinstance(part, (Read, Scalar)) for part in walk(e))


def _is(e: Expr, value: float) -> bool:
    return isinstance(e, Const) and not isinstance(e.value, bool) and e.value == value


def add(a: Expr, b: Expr) -> Expr:
    """Return the sum."""
    if _is(a, 0) or _is(b, 0):
        return b if _is(a, 0) else a
    if isinstance(b, Call) and b.op == "neg":
        return sub(a, b.args[0])
    return Call("add", (a, b), a.dtype)


def sub(a: Expr, b: Expr) -> Expr:
    """Return the difference."""
    return a if _is(b, 0) else Call("sub", (a, b), a.dtype)


def mul(a: Expr, b: Expr) -> Expr:
    """Return the product, with any sign moved to the front."""
    for x, y in ((a, b), (b, a)):
        if _is(x, 1):
            return y
        if _is(x, 0):
            return x
        if isinstance(x, Call) and x.op == "neg":
            return neg(mul(x.args[0], y) if x is a else mul(y, x.args[0]))
    return Call("mul", (a, b), a.dtype)


def div(a: Expr, b: Expr) -> Expr:
    """Return the quotient."""
    return a if _is(b, 1) or _is(a, 0) else Call("div", (a, b), a.dtype)


def neg(a: Expr) -> Expr:
    """Return the negated value."""
    if isinstance(a, Call) and a.op == "neg":
        return a.args[0]
    return a if _is(a, 0) else Call("neg", (a,), a.dtype)


def choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return `a` where the condition holds, else `b`."""
    return a if a == b else Call("select", (condition, a, b), a.dtype)


def cast(e: Expr, dtype: DType) -> Expr:
    """Return the value converted to another float type."""
    if e.dtype == dtype:
        return e
    return Const(e.value, dtype) if isinstance(e, Const) else Cast(e, dtype)


def wide(e: Expr) -> Expr:
    """Return a float converted to the type in which derivatives are computed. Other values are unchanged."""
    return cast(e, adjoint_type(e.dtype)) if e.dtype.is_float else e
