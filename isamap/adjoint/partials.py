"""Derivatives of one expression: what each element that it reads adds to a result, in reverse mode.

Of `tanh(a[i]) * b[i]` with the adjoint `d`, a has `d * b[i] * (1 - tanh(a[i])²)`
and b `d * tanh(a[i])`. Where the value is stored as it stands (`h[i] = tanh(u[i])`), what is stored is read
instead of computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi, sqrt

from isamap.adjoint.arithmetic import (
    add,
    adjoint_type,
    cast,
    choose,
    div,
    function,
    is_fixed,
    mul,
    neg,
    number,
    sub,
    wide,
)
from isamap.ir import Call, Cast, Expr, Read, Scalar
from isamap.ir.dtypes import BOOL
from isamap.ir.walk import walk
from isamap.source import Diagnostic, Span, UsageProblem

Source = Read | Scalar
"""The variable of a derivative: an element, or a number that is known when the kernel runs."""


def partials(
    value: Expr, adjoint: Expr, is_active: Callable[[str], bool], stored: Read | None = None
) -> dict[Source, Expr]:
    """Return the adjoint of each active element that `value` reads, from that of `value`.

    `adjoint` has the adjoint type of the value. `stored` is where the value itself can be read.
    Raises: UsageProblem where an operation has no derivative.
    """
    found: dict[Source, Expr] = {}
    _visit(_Taking(is_active, found), value, adjoint, stored)
    return found


@dataclass(frozen=True, slots=True)
class _Taking:
    is_active: Callable[[str], bool]
    found: dict[Source, Expr]


def _visit(taking: _Taking, e: Expr, adjoint: Expr, stored: Read | None = None) -> None:
    match e:
        case Read(name) | Scalar(name):
            if e.dtype.is_float and taking.is_active(name):
                key = replace(e, span=None)
                known = taking.found.get(key)
                taking.found[key] = adjoint if known is None else add(known, adjoint)
        case Cast(value, dtype):
            if value.dtype.is_float and dtype.is_float and depends(value, taking.is_active):
                _visit(taking, value, cast(adjoint, adjoint_type(value.dtype)))
        case Call(op, args):
            if not e.dtype.is_float or not depends(e, taking.is_active):
                return
            here = [wide(a) for a in args]
            result = wide(stored if stored is not None and stored.dtype == e.dtype else e)
            for arg, part in zip(args, _rule(op, e.span)(here, result, adjoint), strict=True):
                if part is not None and depends(arg, taking.is_active):
                    _visit(taking, arg, part)
        case _:
            pass


def depends(e: Expr, is_active: Callable[[str], bool]) -> bool:
    """Return whether an expression reads anything active as a float."""
    for part in walk(e):
        match part:
            case Read(name) | Scalar(name) if part.dtype.is_float and is_active(name):
                return True
            case _:
                pass
    return False


# --- rules ------------------------------------------------------------------------------------------------

Rule = Callable[[list[Expr], Expr, Expr], tuple[Expr | None, ...]]
"""From the arguments, the result and its adjoint: the adjoint of each argument."""


def _rule(op: str, span: Span | None) -> Rule:
    if op in RULES:
        return RULES[op]
    raise UsageProblem(
        Diagnostic(
            "no-gradient",
            f"`{op}` has no derivative",
            span,
            help="leave what it is computed from out of --by, or write the value in other operations",
        )
    )


def _select(a: list[Expr], _: Expr, w: Expr) -> tuple[Expr | None, ...]:
    return None, choose(a[0], w, number(0, w)), choose(a[0], number(0, w), w)


def _larger(op: str) -> Rule:
    """Of two equal values each gets half, and nothing where the other is a number of the text."""

    def rule(a: list[Expr], _: Expr, w: Expr) -> tuple[Expr | None, ...]:
        return tuple(_chosen(op, x, y, w) for x, y in ((a[0], a[1]), (a[1], a[0])))

    return rule


def _chosen(op: str, x: Expr, other: Expr, w: Expr) -> Expr:
    beyond = Call(op, (x, other), BOOL)
    if is_fixed(other):
        return choose(beyond, w, number(0, w))
    half = choose(Call("eq", (x, other), BOOL), mul(number(0.5, w), w), number(0, w))
    return choose(beyond, w, half)


def _abs(a: list[Expr], _: Expr, w: Expr) -> tuple[Expr | None, ...]:
    zero = number(0, w)
    negative = choose(Call("lt", (a[0], zero), BOOL), neg(w), zero)
    return (choose(Call("gt", (a[0], zero), BOOL), w, negative),)


def _one_minus(x: Expr) -> Expr:
    return sub(number(1, x), x)


RULES: dict[str, Rule] = {
    "add": lambda a, y, w: (w, w),
    "sub": lambda a, y, w: (w, neg(w)),
    "mul": lambda a, y, w: (mul(w, a[1]), mul(w, a[0])),
    "div": lambda a, y, w: (div(w, a[1]), neg(mul(div(w, a[1]), y))),
    "neg": lambda a, y, w: (neg(w),),
    "abs": _abs,
    "min": _larger("lt"),
    "max": _larger("gt"),
    "sqrt": lambda a, y, w: (div(mul(number(0.5, w), w), y),),
    "exp": lambda a, y, w: (mul(w, y),),
    "expm1": lambda a, y, w: (mul(w, add(y, number(1, y))),),
    "log": lambda a, y, w: (div(w, a[0]),),
    "log1p": lambda a, y, w: (div(w, add(number(1, w), a[0])),),
    "tanh": lambda a, y, w: (mul(w, _one_minus(mul(y, y))),),
    "sigmoid": lambda a, y, w: (mul(w, mul(y, _one_minus(y))),),
    "erf": lambda a, y, w: (mul(mul(number(2 / sqrt(pi), w), w), function("exp", neg(mul(a[0], a[0])))),),
    "sin": lambda a, y, w: (mul(w, function("cos", a[0])),),
    "cos": lambda a, y, w: (neg(mul(w, function("sin", a[0]))),),
    "fma": lambda a, y, w: (mul(w, a[1]), mul(w, a[0]), w),
    "select": _select,
    "round": lambda a, y, w: (None,),
}
"""Each operation of floats. Where a derivative jumps it is that of the field's frameworks: at 0 that of `abs`
and of `max(x, 0)` is 0; `round` has none."""
