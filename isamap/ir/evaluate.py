"""Evaluate an expression over numpy arrays: each operation in its own type, for many points at once.

`evaluate_expr(f32(A[m, k]) * f32(B[k, n]), env)` with m, n, k bound to index arrays of shapes (M, 1, 1),
(1, N, 1), (1, 1, K) is an array of shape (M, N, K).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import numpy as np

from isamap.ir.dtypes import F64, CastMode, DType, converts_exactly
from isamap.ir.index import Atom, Element, FloorDiv, Index, MinMax, Mod
from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.ops import OPS, Op
from isamap.ir.rounding import Array, convert, fused_multiply_add, round_to, wrap
from isamap.source.records import dataclass, field, replace

Loader = Callable[[Read], Array]


@dataclass(frozen=True, slots=True)
class Env:
    """The values of the names of an expression.

    `symbols` are axes and sizes, `scalars` run-time values by name. `load` returns the elements that an
    access reads at all points. `exact` computes floats in f64 without rounding.
    """

    symbols: Mapping[str, int | Array] = field(default_factory=dict[str, "int | Array"])
    scalars: Mapping[str, Array] = field(default_factory=dict[str, Array])
    load: Loader | None = None
    exact: bool = False


_NEEDS_INT64 = frozenset(("div", "rem", "rounding_shift"))
"""Operations whose intermediate values leave narrow integer types."""

_OF_PATTERNS = frozenset(("popcount",))
"""Operations on the bits of an integer, for any sign."""


def evaluate_expr(e: Expr, env: Env) -> Array:
    """Return the values of an expression at all points, in numpy's type for its dtype (float64 for exact floats).

    Shapes: broadcast; an axis that the expression does not mention has length 1.
    """
    match e:
        case Const(value, dtype, _):
            return _float_or(np.asarray(make_value(value, dtype)), dtype, env)
        case IndexValue(index, _, _):
            return evaluate_index(index, env.symbols)
        case Scalar(name, dtype, _):
            return _float_or(env.scalars[name], dtype, env)
        case Read(_, _, dtype, _, _):
            assert env.load is not None, "an expression with accesses needs something to load them from"
            return _float_or(env.load(e), dtype, env)
        case Call():
            return _call(e, env)
        case Cast(value, dtype, mode, _):
            return _cast(value, dtype, mode, env)
        case _:
            assert_never(e)


def evaluate_index(index: Index, symbols: Mapping[str, int | Array]) -> Array:
    """Return the values of an index expression, int64. Shapes: those of its symbols, broadcast."""
    total: int | Array = 0
    for monomial, coefficient in index.terms:
        product: int | Array = coefficient
        for atom in monomial:
            product = product * _atom(atom, symbols)
        total = total + product
    return np.asarray(total, np.int64)


def box_points(extents: Sequence[int]) -> Array:
    """Return all points of a box, the last coordinate fastest. Shapes: axis x point."""
    return np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), np.int64)


def make_value(value: float | bool, dtype: DType) -> Array:
    """Return a number in a type: floats rounded, integers as they are (they fit)."""
    if dtype.is_float:
        return round_to(np.asarray(value, np.float64), dtype)
    return np.asarray(value, dtype.numpy())


def fold_cast(cast: Cast) -> Expr:
    """Return a cast of a constant as a constant. Other casts are unchanged.

    A cast to a wider type also stays, because widening instructions read the constant in its own type. So
    does a cast of a number outside the type, which is an error found elsewhere.
    """
    match cast.value:
        case Const(value, dtype, _) if not converts_exactly(dtype, cast.dtype):
            is_refused = cast.mode == "exact" and cast.dtype.is_integer
            if is_refused and not cast.dtype.low <= value <= cast.dtype.high:
                return cast
        case _:
            return cast
    return number_of(cast)


def number_of(expr: Expr) -> Expr:
    """Return a cast of a constant as a constant of the cast's type. Other expressions are unchanged."""
    if not isinstance(expr, Cast) or not isinstance(expr.value, Const):
        return expr
    with np.errstate(all="ignore"):
        number = evaluate_expr(expr, Env()).item()
    return Const(float(number) if expr.dtype.is_float else int(number), expr.dtype, expr.span)


# --- one node ---------------------------------------------------------------------------------------------


def _atom(atom: Atom, symbols: Mapping[str, int | Array]) -> int | Array:
    match atom:
        case str():
            return symbols[atom]
        case FloorDiv(value, divisor):
            return evaluate_index(value, symbols) // evaluate_index(divisor, symbols)
        case Mod(value, divisor):
            return evaluate_index(value, symbols) % evaluate_index(divisor, symbols)
        case MinMax(op, left, right):
            choose = np.minimum if op == "min" else np.maximum
            return choose(evaluate_index(left, symbols), evaluate_index(right, symbols))
        case Element():
            return np.asarray(atom.evaluate(symbols), np.int64)


def _float_or(values: Array, dtype: DType, env: Env) -> Array:
    """Return floats in the mode's precision: unrounded float64, or the given type. Other values are unchanged."""
    if not dtype.is_float:
        return values
    return values.astype(np.float64, copy=False) if env.exact else round_to(values, dtype)


def _cast(value: Expr, dtype: DType, mode: CastMode, env: Env) -> Array:
    if dtype.is_integer and value.dtype.is_float:
        # A float that becomes an integer is computed as its type says also by the oracle: integers are
        # compared bit by bit, and an unrounded tie would fall to the other side.
        env = replace(env, exact=False)
    found = evaluate_expr(value, env)
    if mode == "bits":
        found = convert(found, value.dtype, dtype, mode)
        return found.astype(np.float64) if env.exact and dtype.is_float else found
    if env.exact and dtype.is_float:
        return convert(found, value.dtype, F64, mode)
    return convert(found, value.dtype, dtype, mode)


def _call(e: Call, env: Env) -> Array:
    op, operand = OPS[e.op], e.args[-1].dtype
    args = [evaluate_expr(a, env) for a in e.args]
    more = () if e.mode is None else (e.mode,)
    if operand.is_float:
        return _float_call(op, operand, args, more, env)
    if op.name in _NEEDS_INT64 and operand.bits < 64:
        args = [a.astype(np.int64) for a in args]
    if op.name in _OF_PATTERNS:
        mask = np.uint64((1 << operand.bits) - 1)
        args = [a.astype(np.uint64) & mask for a in args]
    found = np.asarray(op.compute(*args, *more))
    return found if op.result == "bool" or not operand.is_integer else wrap(found, operand)


def _float_call(op: Op, operand: DType, args: list[Array], more: tuple[str, ...], env: Env) -> Array:
    if op.name == "fma":
        a, b, c = args
        return fused_multiply_add(a, b, c, F64 if env.exact else operand)
    if operand.name != "f32" or op.ulp or env.exact:  # numpy rounds all others correctly in float32
        args = [a if a.dtype == np.bool_ else a.astype(np.float64, copy=False) for a in args]
    found = np.asarray(op.compute(*args, *more))
    return found if found.dtype == np.bool_ or env.exact else round_to(found, operand)
