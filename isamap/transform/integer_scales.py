"""Replace scales that are powers of two by shifts, for machines without float arithmetic.

    y = sat_i8(round(f32(s) * 0.0625, even))  →  y = sat_i8(s + 8 - ((s >> 4) + 1 & 1) >> 4)

Both round to the nearest integer, and ties to the even one. They are equal as long as `s + 8` does not overflow,
which the largest values of the inputs decide, and the float of `s` rounds only where the result saturates.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp, prod

from isamap.ir import Call, Cast, Const, Expr, Kernel, Read
from isamap.ir.walk import with_parts
from isamap.source.records import replace
from isamap.transform.rewrite import is_accepted, with_statements
from isamap.transform.statements import Statement, statements


def with_integer_scales(kernel: Kernel, most: Mapping[str, int]) -> Kernel | None:
    """Return a kernel with power-of-two scales as shifts, or None if there are none.

    `most` has the largest absolute value of each constant input. Axes have numbers of iterations.
    """
    bounds, made, is_changed = dict(most), list[Statement](), False
    for s in statements(kernel):
        a = s.assign
        value = _with_shifts(a.value, bounds)
        is_changed |= value != a.value
        made.append(replace(s, assign=replace(a, value=value)))
        name, own = a.target.buffer, _most_of(a.value, bounds)
        if a.op is None:
            bounds[name] = max(bounds.get(name, 0), own)
        else:
            trips = prod(int(axis.extent.evaluate({})) for axis in (*s.reduction_axes, *s.sequence))
            bounds[name] = (
                bounds.get(name, _largest(a.target)) + trips * own if a.op == "add" else _largest(a.target)
            )
    after = with_statements(kernel, made)
    return after if is_changed and is_accepted(kernel, after) else None


def _with_shifts(e: Expr, bounds: Mapping[str, int]) -> Expr:
    match e:
        case Cast(
            Call("round", (Call("mul", (Cast(value, floats, "exact"), Const(scale))),), _, "even"),
            dtype,
            "sat",
        ) if value.dtype.kind == "int" and dtype.is_integer and isinstance(scale, float):
            fraction, exponent = frexp(scale)
            places, wide = 1 - exponent, value.dtype
            exact = floats.mantissa_bits - dtype.bits
            half = 1 << max(0, places - 1)
            if fraction != 0.5 or not 1 <= places <= exact or _most_of(value, bounds) + half > wide.high:
                return e

            def of(op: str, *args: Expr) -> Expr:
                return Call(op, args, wide)

            by, one = Const(places, wide), Const(1, wide)
            odd = of("and", of("add", of("shr", value, by), one), one)
            return Cast(of("shr", of("sub", of("add", value, Const(half, wide)), odd), by), dtype, "sat")
        case _:
            return with_parts(e, lambda part: _with_shifts(part, bounds))


def _most_of(e: Expr, bounds: Mapping[str, int]) -> int:
    """Return an upper bound of an integer's absolute value. Other expressions get the bound of their type."""
    match e:
        case Const(value) if e.dtype.is_integer:
            return abs(int(value))
        case Read(buffer) if e.dtype.is_integer:
            return min(bounds.get(buffer, _largest(e)), _largest(e))
        case Cast(value) if value.dtype.is_integer and e.dtype.is_integer:
            return min(_most_of(value, bounds), _largest(e))
        case Call("add" | "sub", args) if e.dtype.is_integer:
            return sum(_most_of(one, bounds) for one in args)
        case Call("mul", args) if e.dtype.is_integer:
            return prod(_most_of(one, bounds) for one in args)
        case _:
            return _largest(e)


def _largest(e: Expr) -> int:
    return max(abs(e.dtype.low), abs(e.dtype.high)) if e.dtype.is_integer else 0
