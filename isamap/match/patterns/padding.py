"""Padding lanes: operand values that leave a reduction unchanged.

In `c[i] += a[i, k] * b[k]` a lane k beyond the end does not change the sum if a and b are 0 there. In `c[i]
max= a[i, k]` it has no effect if a is the lowest number. `c[i] max= a[i, k] * b` has no fill: for every value
of a, some b changes the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import assert_never

import numpy as np

from isamap.ir import Call, Cast, Const, DType, Env, Expr, IndexValue, Read, Scalar, evaluate_expr
from isamap.match.patterns.pattern import Pattern
from isamap.transform import identity_of, reads

Shown = frozenset[str]
"""Operands whose element in a padded lane is in use elsewhere, so that it cannot be chosen."""

Fills = Mapping[str, Const]


@lru_cache(maxsize=8192)
def neutral_fills(pattern: Pattern, shown: frozenset[Shown], *, finite: bool = False) -> Fills | None:
    """Return operand values for padding lanes with which the result does not change, or None.

    The usual constants are tried. With `finite`, floats in use are assumed to be neither infinities nor NaN.
    Without it, 0 times a value in use is not assumed to be 0.
    """
    op = pattern.statement.assign.op
    if op is None:
        return None
    neutral = identity_of(op, pattern.target.dtype)
    own = sorted({(r.buffer, r.dtype) for r in reads(pattern.value)}, key=lambda o: o[0])
    for chosen in product(*(_candidates(dtype, neutral) for _, dtype in own)):
        fills = {name: value for (name, _), value in zip(own, chosen, strict=True)}
        if all(is_equal(neutral, fold(pattern.value, _without(fills, s), finite=finite)) for s in shown):
            return fills
    return None


def fold(expr: Expr, known: Fills, *, finite: bool) -> Const | None:
    """Return the value of an expression whose operands in `known` are constants, or None if it depends on others."""
    match expr:
        case Const():
            return expr
        case Read(buffer):
            return known.get(buffer)
        case Scalar() | IndexValue():
            return None
        case Cast(value):
            inner = fold(value, known, finite=finite)
            return None if inner is None else _value(Cast(inner, expr.dtype, expr.mode))
        case Call(op, args):
            parts = [fold(a, known, finite=finite) for a in args]
            constants = [p for p in parts if p is not None]
            if (
                op in ("div", "rem")
                and not expr.dtype.is_float
                and parts[1] is not None
                and not parts[1].value
            ):
                return None  # what an instruction gives there is not defined
            if len(constants) == len(parts):
                return _value(Call(op, tuple(constants), expr.dtype, expr.mode))
            return _fold_absorbing(expr, parts, finite=finite)
        case _:
            assert_never(expr)


def _fold_absorbing(call: Call, parts: list[Const | None], *, finite: bool) -> Const | None:
    """Return the result of a call if one argument determines it for all values of the others, or None."""
    dtype = call.dtype
    exact = not dtype.is_float or finite
    match call.op, parts:
        case "mul", [a, b]:
            zero = next((p for p in (a, b) if p is not None and p.value == 0), None)
            return zero if exact else None
        case "fma", [a, b, Const() as c] if exact and any(p is not None and p.value == 0 for p in (a, b)):
            return c
        case "and", [a, b] if not dtype.is_float:
            return next((p for p in (a, b) if p is not None and p.value in (0, False)), None)
        case "min" | "max" as op, [a, b] if exact:  # NaN makes the result NaN
            absorbing = identity_of("max" if op == "min" else "min", dtype)
            return next((p for p in (a, b) if p is not None and p == absorbing), None)
        case "select", [Const(condition), a, b]:
            return a if condition else b
        case _:
            return None


def _candidates(dtype: DType, neutral: Const) -> Iterable[Const]:
    """Yield candidate fills of a type: zero, one, the neutral element, and the ends of its range."""
    if dtype.kind == "bool":
        return (Const(False, dtype), Const(True, dtype))
    numbers: list[float] = [0, 1]
    numbers += [float("-inf"), float("inf")] if dtype.is_float else [dtype.low, dtype.high, -1]
    if neutral.value not in numbers and (dtype.is_float or dtype.low <= neutral.value <= dtype.high):
        numbers.append(neutral.value)
    if not dtype.is_float:
        numbers = [n for n in numbers if dtype.low <= n <= dtype.high]
    return tuple(Const(float(n) if dtype.is_float else int(n), dtype) for n in numbers)


def _without(fills: Fills, shown: Shown) -> Fills:
    return {name: value for name, value in fills.items() if name not in shown}


def is_equal(neutral: Const, found: Const | None) -> bool:
    """Return whether a value was found and equals the neutral element. Zeros of both signs are equal."""
    return found is not None and found.dtype == neutral.dtype and found.value == neutral.value


def _value(expr: Expr) -> Const | None:
    """Return the constant value of an expression of constants, or None if it is not a number."""
    with np.errstate(all="ignore"):
        found = evaluate_expr(expr, Env()).item()
    if expr.dtype.is_float and found != found:
        return None
    return Const(float(found) if expr.dtype.is_float else found, expr.dtype)
