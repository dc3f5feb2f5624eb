"""Compare a result with the expected values, and decide whether its error bound is meaningful.

The element nearest to its bound, or furthest beyond it, represents the result. With 65504 as f16's largest
number, 65530 ± 20 may be 65504 or inf; 70000 ± 20 only inf. A bound of 4.3 for values between -1 and 1 is
meaningless.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.oracle import Expected
from isamap.ir import round_to
from isamap.source.records import dataclass

Array = NDArray[Any]
TELLING = 0.1
"""The largest ratio of a bound to its value at which the bound can tell right from wrong."""
TELLING_PLACES = 16
"""As many units in the last place it may be in any case: a tenth is less than one in numbers of 8 bits."""
SMALL_TERMS = 2.0**-10
"""As large a share of the largest float given as values count at least: differences that cancel may be 0."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """The element with the largest error relative to its bound, and its position in the compared data."""

    position: int
    error: float
    bound: float
    ratio: float
    wrong: int


def find_deviation(found: Array, expected: Expected) -> Deviation:
    """Return the element whose error is largest relative to its bound."""
    values = found[expected.at] if expected.at is not None else found
    errors, bounds = _errors(values, expected).ravel(), expected.bound.ravel()
    with np.errstate(all="ignore"):
        ratios = np.where((errors == 0) | np.isinf(bounds), 0.0, errors / bounds)
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    position = int(np.argmax(ratios))
    return Deviation(
        position,
        float(errors[position]),
        float(bounds[position]),
        float(ratios[position]),
        int(np.count_nonzero(ratios > 1)),
    )


def must_overflow(expected: Expected) -> Array:
    """Return where a correct result is too large for its type, within any allowed error."""
    if not expected.dtype.is_float:
        return np.zeros(expected.values.shape, np.bool_)
    return _overflows(expected, -expected.computed)


def _overflows(expected: Expected, error: Array) -> Array:
    """Return where a finite value, changed by `error`, overflows when it is rounded to its type."""
    values = np.asarray(expected.values.astype(np.float64))
    with np.errstate(all="ignore"):
        rounded = round_to(np.maximum(np.abs(values) + error, 0.0), expected.dtype).astype(np.float64)
    return np.isfinite(values) & np.isfinite(error) & ~np.isfinite(rounded)


def _errors(values: Array, expected: Expected) -> Array:
    """Return absolute errors as float64. A NaN, or an infinity of the wrong sign, is infinitely wrong.

    An overflow is not an error where the value with its bound reaches so far, and anything else is where all of
    it lies beyond. The overflow of a type without infinities is NaN.
    """
    if values.dtype.kind in "iub":
        gap = np.abs(values.astype(np.float64) - expected.values.astype(np.float64))
        return np.where(values == expected.values, 0.0, np.maximum(gap, 1.0))
    with np.errstate(all="ignore"):
        wide, exact = values.astype(np.float64), expected.values.astype(np.float64)
        beyond = round_to(np.copysign(np.inf, exact), expected.dtype).astype(np.float64)
        exact = np.where(np.isinf(exact), beyond, exact)  # 1 / 0 is NaN in a type without infinities
        errors = np.where(_same(wide, exact), 0.0, np.abs(wide - exact))
    errors = np.where(np.isnan(errors), np.inf, errors)
    errors = np.where(must_overflow(expected), np.inf, errors)
    return np.where(_overflows(expected, expected.computed) & _same(wide, beyond), 0.0, errors)


def _same(a: Array, b: Array) -> Array:
    return (a == b) | (np.isnan(a) & np.isnan(b))


@dataclass(frozen=True, slots=True)
class Vague:
    """An error bound of an output that is too large to find errors, and the size of the output's values."""

    bound: float
    size: float


def find_vague(found: Array, expected: Expected, given: Mapping[str, Array]) -> Vague | None:
    """Return an output's largest error bound if it is too large to detect errors, else None.

    Outputs that are equal in every element need no bound. If no element is finite, equal overflows suffice.
    """
    if not expected.dtype.is_float or not expected.bound.size:
        return None
    if not np.isfinite(expected.values.astype(np.float64)).any():
        return Vague(np.inf, np.inf)
    if expected.is_exact:
        return None
    if not np.any(_errors(found[expected.at] if expected.at is not None else found, expected)):
        return None
    compared = np.isfinite(expected.bound)
    values = np.abs(expected.values[compared].astype(np.float64))
    floats = [a for a in given.values() if a.dtype.kind not in "iub" and a.size]
    least = max((_largest(a.astype(np.float64)) for a in floats), default=0.0) * SMALL_TERMS
    size = max(_largest(values), least)
    bound = float(np.max(expected.bound[compared], initial=0.0)) if compared.any() else np.inf
    share = max(TELLING, TELLING_PLACES * 2.0 ** (1 - expected.dtype.mantissa_bits))
    return Vague(bound, size) if bound > share * size else None


def _largest(values: Array) -> float:
    """Return the largest absolute value among the finite ones."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
