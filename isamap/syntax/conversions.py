"""Casts: which ones are free, which need `wrap_` or `sat_`, and proofs that integer casts keep values.

`i8(x)` of an i32 `x` is refused unless `x`'s values are known to fit, as in `i8(min(max(x, -128), 127))`.

Literals are numbers that take the type of the other operand.

In `max(x, 0)` the 0 has the type of x; in `f32(1)` the cast gives the type.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import cast

from isamap.ir.dtypes import BOOL, DTYPES, DType, converts_exactly
from isamap.ir.evaluate import fold_cast
from isamap.ir.nodes import Call, Cast, CastMode, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.ops import OPS, WORDS
from isamap.source import Edit, Span
from isamap.syntax import ast
from isamap.syntax.scope import Scope, problem_at


def cast_target(name: str) -> tuple[DType, CastMode] | None:
    """Return the type and the mode of a cast's name: `f32`, `wrap_i8`, `sat_u8`, or None if it is not a cast."""
    if name in DTYPES:
        return DTYPES[name], "exact"
    mode, _, type_name = name.partition("_")
    if mode in ("wrap", "sat", "bits") and type_name in DTYPES:
        return DTYPES[type_name], cast(CastMode, mode)
    return None


def convert(value: Expr, dtype: DType, mode: CastMode, span: Span) -> Expr:
    """Return `value` converted to `dtype`. A cast to the value's own type is omitted. Raises: TypeProblem."""
    if mode == "bits":
        return fold_cast(Cast(value, dtype, mode, span)) if _may_reinterpret(value, dtype, span) else value
    if mode != "exact" and not dtype.is_integer:
        raise problem_at(
            "bad-cast", f"`{mode}_{dtype}` does not exist: only integers wrap or saturate", span,
            advice=f"write `{dtype}(…)`, which rounds to nearest even",
            edits=(Edit(Span(span.source, span.start, span.start + len(mode) + 1), ""),),
        )  # fmt: skip
    # An operation in its own type has wrapped before `sat_` sees it: kept, so that messages can say so.
    saturates_too_late = mode == "sat" and isinstance(value, Call)
    if value.dtype == dtype:
        return Cast(value, dtype, mode, span) if saturates_too_late else value
    if dtype.is_integer and converts_exactly(value.dtype, dtype):
        mode = "exact"  # a type that holds all values neither wraps nor saturates any
    if dtype == BOOL:
        raise problem_at(
            "bad-cast", f"{value.dtype} does not become bool by a cast", span, advice="write `x != 0`"
        )
    if mode == "exact" and dtype.is_integer and not _keeps_value(value, dtype):
        _refuse(value, dtype, span)
    return fold_cast(Cast(value, dtype, mode, span))


def _may_reinterpret(value: Expr, dtype: DType, span: Span) -> bool:
    """Return whether `bits` may cast a value to a type. False means that it has this type. Raises: TypeProblem."""
    source = value.dtype
    widths_agree = source.bits == dtype.bits and "tf32" not in (source.name, dtype.name)
    if source != dtype and not (widths_agree and {source.is_float, dtype.is_float} == {True, False}):
        advice = (
            f"write `wrap_{dtype}(…)`, which keeps the low bits"
            if source.is_integer and dtype.is_integer
            else "take an integer of the float's width, such as `bits_i32(x)` of an f32"
        )
        raise problem_at(
            "bad-cast",
            f"`bits_{dtype}(…)` takes {'an integer' if dtype.is_float else 'a float'} of {dtype.bits} bits, "
            f"not {source}",
            span,
            advice=advice,
        )
    return source != dtype


def _keeps_value(value: Expr, dtype: DType) -> bool:
    if isinstance(value, IndexValue):
        return True  # the verifier knows the ranges of axes and sizes: `isamap.ir.index_casts`
    if converts_exactly(value.dtype, dtype):
        return True
    bounds = integer_bounds(value)
    return bounds is not None and dtype.low <= bounds[0] and bounds[1] <= dtype.high


def _refuse(value: Expr, dtype: DType, span: Span) -> None:
    bounds = integer_bounds(value)
    why = (
        f"{value.dtype} has fractions, and values that {dtype} does not hold"
        if bounds is None
        else f"the value may be {bounds[0]} to {bounds[1]}; {dtype} holds {dtype.low} to {dtype.high}"
    )
    raise problem_at(
        "cast-may-overflow",
        f"`{dtype}(…)` of this {value.dtype} value cannot be proved not to overflow",
        span,
        why,
        advice=f"write `sat_{dtype}(…)` to saturate or `wrap_{dtype}(…)` to keep the low bits",
        edits=(Edit(Span(span.source, span.start, span.start), "sat_"),),
    )


def integer_bounds(e: Expr) -> tuple[int, int] | None:
    """Return the smallest and largest possible value of an integer expression, or None for floats."""
    dtype = e.dtype
    if not dtype.is_integer and dtype != BOOL:
        return None
    whole = (0, 1) if dtype == BOOL else (dtype.low, dtype.high)
    match e:
        case Const(value, _, _):
            return int(value), int(value)
        case IndexValue() | Scalar() | Read():
            return whole
        case Cast(value, _, mode, _):
            inner = integer_bounds(value)
            if inner is None or (mode == "wrap" and not whole[0] <= inner[0] <= inner[1] <= whole[1]):
                return whole
            return max(whole[0], min(inner[0], whole[1])), min(whole[1], max(inner[1], whole[0]))
        case Call(op, args, _, _, _):
            found = [integer_bounds(a) for a in args]
            known = [b for b in found if b is not None]
            computed, interval = None, OPS[op].interval
            if interval is not None and len(known) == len(args):
                computed = interval(tuple(b[0] for b in known), tuple(b[1] for b in known))
            fits = computed is not None and whole[0] <= computed[0] and computed[1] <= whole[1]
            return computed if fits else whole


FUNCTIONS = (*(op.name for op in OPS.values() if op.spelling is None), *WORDS)


def is_known(e: ast.ExprSyntax, scope: Scope) -> bool:
    """Return whether `inf` in the expression is a declared name instead of the literal for infinity."""
    inner = e.operand if isinstance(e, ast.Unary) else e
    return isinstance(inner, ast.Name) and inner.name in scope.names


def literal_value(e: ast.ExprSyntax) -> int | float | None:
    """Return the number of a literal with an optional sign, or None for other expressions."""
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
    """Return whether an expression has literals as its only values, so that the context decides its type."""
    if literal_value(e) is not None:
        return not is_known(e, scope)
    match e:
        case ast.Unary(_, operand, _):
            return is_bare(operand, scope)
        case ast.Binary(op, left, right, _):
            return OPS[op].result == "same" and is_bare(left, scope) and is_bare(right, scope)
        case ast.Apply(name, args, _) if name.text in FUNCTIONS:
            op = OPS[WORDS.get(name.text, (name.text, ""))[0]]
            values = args[: op.arity][1 if op.name == "select" else 0 :]
            return bool(values) and all(is_bare(a, scope) for a in values)
        case _:
            return False


def make_const(value: int | float, dtype: DType | None, span: Span) -> Const:
    """Return a literal of a type. Raises: TypeProblem if the type is unknown or does not hold the value."""
    if dtype is None:
        raise problem_at(
            "cannot-infer-type",
            f"the type of {number_text(value)} is not determined",
            span,
            advice=f"write a cast, as in `f32({number_text(value)})`",
        )
    if dtype.is_float:
        return Const(_as_float(value, dtype, span), dtype, span)
    if dtype == BOOL:
        raise problem_at("literal-type", "a bool is written `true` or `false`", span)
    if isinstance(value, float):
        raise problem_at(
            "literal-type", f"{number_text(value)} is not {dtype}: it has a fraction or an exponent", span
        )
    if not dtype.low <= value <= dtype.high:
        raise problem_at(
            "literal-out-of-range",
            f"{number_text(value)} is not a value of {dtype}",
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
        raise problem_at("literal-out-of-range", f"{number_text(value)} is too large for {dtype}", span)
    return number


def number_text(value: int | float) -> str:
    """Return a number for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
