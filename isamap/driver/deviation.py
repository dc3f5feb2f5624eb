"""How far a result is from what it should be: its element nearest to the bound, or furthest beyond.

With 65504 as f16's largest number, 65530 ± 20 may come out as 65504 or as inf; 70000 ± 20 only as inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.oracle import Expected
from isamap.ir import round_to

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The element nearest to its bound, or furthest beyond, by its position in what was compared."""

    position: int
    error: float
    bound: float
    ratio: float
    wrong: int


def find_deviation(found: Array, wanted: Expected) -> Deviation:
    """The element of an output that is nearest to its bound; of a sampled one, among the samples."""
    values = found[wanted.at] if wanted.at is not None else found
    errors, bounds = _errors(values, wanted).ravel(), wanted.bound.ravel()
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


def must_overflow(wanted: Expected) -> Array:
    """Where a right result is too large for its type, whatever its error."""
    if not wanted.dtype.is_float:
        return np.zeros(wanted.values.shape, np.bool_)
    return _overflows(wanted, -wanted.computed)


def _overflows(wanted: Expected, error: Array) -> Array:
    """Where a finite value becomes none when it is rounded to its type, with its size off by an error."""
    values = np.asarray(wanted.values.astype(np.float64))
    with np.errstate(all="ignore"):
        rounded = round_to(np.maximum(np.abs(values) + error, 0.0), wanted.dtype).astype(np.float64)
    return np.isfinite(values) & np.isfinite(error) & ~np.isfinite(rounded)


def _errors(values: Array, wanted: Expected) -> Array:
    """Absolute errors, float64; infinite where one is not a number, or both are different infinities.

    An overflow is no error where the value with its bound reaches so far, and anything else is where all of
    it lies beyond. The overflow of a type without infinities is NaN.
    """
    if values.dtype.kind in "iub":
        gap = np.abs(values.astype(np.float64) - wanted.values.astype(np.float64))
        return np.where(values == wanted.values, 0.0, np.maximum(gap, 1.0))
    with np.errstate(all="ignore"):
        wide, exact = values.astype(np.float64), wanted.values.astype(np.float64)
        beyond = round_to(np.copysign(np.inf, exact), wanted.dtype).astype(np.float64)
        errors = np.where(_same(wide, exact), 0.0, np.abs(wide - exact))
    errors = np.where(np.isnan(errors), np.inf, errors)
    errors = np.where(must_overflow(wanted), np.inf, errors)
    return np.where(_overflows(wanted, wanted.computed) & _same(wide, beyond), 0.0, errors)


def _same(a: Array, b: Array) -> Array:
    return (a == b) | (np.isnan(a) & np.isnan(b))
