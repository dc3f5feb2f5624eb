"""Convert numbers to a type: one correct rounding for floats, wrapping or saturation for integers.

`convert(np.array([300.7]), F32, DTYPES["u8"], "sat")` is `[255]`. Nothing here rounds twice: numpy and
ml_dtypes go through float32 on the way from float64 to bfloat16, which this module does not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir.dtypes import CastMode, DType

Array = NDArray[Any]

_STICKY_BITS = 11
"""The number of low bits of a 64-bit integer that are folded into one, so that the rest fits into a
float64."""


def convert(values: Array, source: DType, target: DType, mode: CastMode) -> Array:
    """Return `values` of type `source` as `target`, in numpy's type for it.

    Floats are rounded to nearest, ties to even. A float becomes an integer by dropping its fraction. NaN
    becomes 0. `wrap` keeps the low bits, `sat` the nearest value of the type; `exact` was proved to fit.
    `bits` keeps all bits, of types of one width.
    """
    if mode == "bits":
        return np.asarray(values, source.numpy()).view(target.numpy())
    if target.is_float:
        narrow = source.is_integer and target.mantissa_bits < 53
        return round_to(_as_float64(values) if narrow else values, target)
    if target.kind == "bool":
        return values.astype(np.bool_)
    if source.is_float:
        return _float_to_integer(values.astype(np.float64), target, mode)
    if mode == "sat" and source.is_integer:
        low, high = max(source.low, target.low), min(source.high, target.high)
        values = np.clip(values, low, high)
    return wrap(values, target)


def wrap(values: Array, dtype: DType) -> Array:
    """Return integers reduced to the bits of an integer type, in two's complement. Bool stays bool."""
    stored: Array = values.astype(dtype.numpy())
    if not dtype.is_integer or dtype.bits >= 8:
        return stored
    low_bits = stored & np.asarray((1 << dtype.bits) - 1, stored.dtype)
    if dtype.kind == "uint":
        return low_bits
    sign = np.asarray(1 << (dtype.bits - 1), stored.dtype)
    return (low_bits ^ sign) - sign


def round_to(values: Array, dtype: DType) -> Array:
    """Return floats (or bool) rounded once, to nearest even, into numpy's type for `dtype`. Subnormals are kept."""
    stored = dtype.numpy()
    if values.dtype == stored and dtype.name != "tf32":
        return values
    if dtype.name in ("f64", "f32", "f16") or (dtype.name == "bf16" and values.dtype == np.float32):
        return values.astype(stored)
    wide = values.astype(np.float64)
    finite = np.where(np.isfinite(wide), wide, 0.0)
    _, exponent = np.frexp(finite)
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    smallest_unit = 1 - bias - (dtype.mantissa_bits - 1)
    unit = np.maximum(exponent - dtype.mantissa_bits, smallest_unit)
    rounded = np.ldexp(np.rint(np.ldexp(finite, -unit)), unit)
    return np.where(np.isfinite(wide), rounded, wide).astype(stored)


def fused_multiply_add(a: Array, b: Array, c: Array, dtype: DType) -> Array:
    """Return a*b + c rounded once to `dtype`. Source: Boldo and Melquiond, with rounding to odd."""
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    product, product_tail = _two_product(x, y)
    total, total_tail = _two_sum(product, z)
    tail = _add_to_odd(product_tail, total_tail)
    if dtype.mantissa_bits >= 53:
        exact = total + tail
    else:
        exact = _add_to_odd(total, tail)
    plain = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, x * y + z)
    # Infinities come from the plain sum, and so does the sign of a zero.
    result = np.where(np.isfinite(exact) & (exact != 0), exact, plain)
    return _with_extremes(result, x, y, z) if dtype.mantissa_bits >= 53 else round_to(result, dtype)


_LARGE, _SMALL = 2.0**900, 2.0**-900


def _with_extremes(result: Array, x: Array, y: Array, z: Array) -> Array:
    """Return `result`, with x*y + z recomputed exactly where an error term of float64 overflows or underflows."""
    x, y, z, result = np.broadcast_arrays(x, y, z, result)
    size = np.abs(x * y)
    large = (size > _LARGE) | (np.maximum(np.abs(x), np.abs(y)) > _LARGE) | (np.abs(z) > _LARGE)
    extreme = (large | (size < _SMALL)) & np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    extreme &= (x != 0) & (y != 0)
    found = result.copy()
    for at in np.argwhere(extreme):
        place = tuple(at)
        exact = Fraction(float(x[place])) * Fraction(float(y[place])) + Fraction(float(z[place]))
        if exact != 0:
            found[place] = _nearest(exact)
    return found


def _nearest(value: Fraction) -> float:
    """Return the float64 nearest to a fraction."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


# --- float64 arithmetic with its errors -------------------------------------------------------------------


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b rounded, and the error of the rounding. Source: Knuth."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product of a and b, and its error. Source: Dekker, with Veltkamp's splitting."""
    product = a * b
    a_high, a_low = _split_halves(a)
    b_high, b_low = _split_halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split_halves(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _add_to_odd(a: Array, b: Array) -> Array:
    """Return a + b rounded to odd, so that a second rounding is harmless.

    An inexact sum becomes the neighbour whose last bit is one.
    """
    total, lost = _two_sum(a, b)
    even = (np.asarray(total, np.float64).view(np.int64) & 1) == 0
    towards = np.where(lost > 0, np.inf, -np.inf)
    return np.where((lost != 0) & even, np.nextafter(total, towards), total)


# --- integers ---------------------------------------------------------------------------------------------


def _as_float64(values: Array) -> Array:
    """Return integers as float64: exact below 2**53, else rounded to odd.

    Correct for a rounding that follows to any type of at most 51 bits; to f64 itself numpy's own cast is
    taken.
    """
    if values.dtype not in (np.dtype(np.int64), np.dtype(np.uint64)):
        return values.astype(np.float64)
    low = np.asarray((1 << _STICKY_BITS) - 1, values.dtype)
    folded = (values >> np.asarray(_STICKY_BITS, values.dtype)) | ((values & low) != 0)
    sticky = folded.astype(np.float64) * float(1 << _STICKY_BITS)
    limit = 1 << 53
    large = (values > limit) | (values < -limit) if values.dtype == np.int64 else values > limit
    return np.where(large, sticky, values.astype(np.float64))


def _float_to_integer(values: Array, target: DType, mode: CastMode) -> Array:
    whole = np.trunc(np.where(np.isnan(values), 0.0, values))
    if mode == "sat":
        return _saturate(whole, target)
    modulus = float(1 << 64)
    low_bits = np.fmod(np.where(np.isinf(whole), 0.0, whole), modulus)
    low_bits = np.where(low_bits >= modulus / 2, low_bits - modulus, low_bits)
    low_bits = np.where(low_bits < -modulus / 2, low_bits + modulus, low_bits)
    return wrap(low_bits.astype(np.int64), target)


def _saturate(whole: Array, target: DType) -> Array:
    """Return float64 integers clipped to the type. The limits of 64-bit types are no float64 and are added later."""
    above, below = whole >= float(target.high), whole <= float(target.low)
    inside = np.where(above | below, 0.0, whole).astype(np.uint64 if target.name == "u64" else np.int64)
    stored = inside.astype(target.numpy())
    stored = np.where(above, np.asarray(target.high, target.numpy()), stored)
    return np.where(below, np.asarray(target.low, target.numpy()), stored)
