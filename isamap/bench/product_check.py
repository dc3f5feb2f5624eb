"""Check a contender's matrix product: sampled elements in f64, and a randomised test of the whole.

The test is Freivalds' (1977): C·v = A·(B·v) for random v of -1 and 1 costs far less than the product. The
rounding errors E make both sides differ by E·v. If every element of E is within the bound of single
elements, Hoeffding's inequality (1963) bounds the row sums: |Σ e_j v_j| exceeds SPREAD·‖e‖ with a
probability below 2·exp(-SPREAD²/2), 3·10⁻¹⁴. By Cauchy and Schwarz ‖e‖, over the columns of a block of B,
is at most 4·2⁻²³·(‖a_i‖·‖B‖_F + ‖before_i‖), plus one step of ‖c_i‖ if C is narrower than the sum.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.bench.cases import Types
from isamap.bench.ring import Array
from isamap.ir import DTYPES
from isamap.source.records import dataclass

SAMPLED = 24  # rows and columns whose elements are computed exactly
F32_STEP = 2.0**-23
ELEMENT_STEPS = 4  # of f32, of Σ|a||b|: what the order of a sum may make of an element
SPREAD = 8
BLOCK = (
    64  # columns of C that are added up at once: one wrong element among few stands out from their rounding
)


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest error divided by its bound. At most 1 is correct."""

    worst: float

    @property
    def ok(self) -> bool:
        return self.worst <= 1


def check_product(
    form: Types, a: Array, b: Array, before: Array | None, after: Array, seed: int = 0
) -> Checked:
    """Compare C with A·B, or with before + A·B. A is [M, K] and B is [K, N], as views of the stored arrays.

    Some elements are computed in f64 (integers: exactly) and held to 4·2⁻²³·Σ|a||b| and one step of C's type.
    All of C is added up with random signs, floats by blocks of columns, and compared with A·(B·v): integers
    exactly.
    """
    rng = np.random.default_rng(seed)
    if form.is_float:
        if not np.all(np.isfinite(after)):
            return Checked(inf)
        single = _sampled_error(form, a, b, before, after, rng)
        return Checked(max(single, _summed_error(form, a, b, before, after, rng)))
    exact = _sampled_equal(a, b, before, after, rng) and _summed_equal(a, b, before, after, rng)
    return Checked(0.0 if exact else inf)


# --- some elements --------------------------------------------------------------------------------------


def _sampled_error(
    form: Types, a: Array, b: Array, before: Array | None, after: Array, rng: np.random.Generator
) -> float:
    """Return the largest error of sampled elements, divided by its bound."""
    rows, columns = _sample(after, rng)
    left, right = a[rows].astype(np.float64), b[:, columns].astype(np.float64)
    expected, magnitude = left @ right, np.abs(left) @ np.abs(right)
    if before is not None:
        start = before[np.ix_(rows, columns)].astype(np.float64)
        expected, magnitude = expected + start, magnitude + np.abs(start)
    found = after[np.ix_(rows, columns)].astype(np.float64)
    bound = ELEMENT_STEPS * F32_STEP * magnitude + _step_of_result(form, expected)
    return float(np.max(np.abs(found - expected) / bound))


def _sampled_equal(a: Array, b: Array, before: Array | None, after: Array, rng: np.random.Generator) -> bool:
    rows, columns = _sample(after, rng)
    expected = a[rows].astype(np.int64) @ b[:, columns].astype(np.int64)
    if before is not None:
        expected = expected + before[np.ix_(rows, columns)]
    wrapped = (expected + 2**31) % 2**32 - 2**31
    return bool(np.array_equal(wrapped, after[np.ix_(rows, columns)].astype(np.int64)))


def _sample(c: Array, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sampled rows and columns."""
    return rng.permutation(c.shape[0])[:SAMPLED], rng.permutation(c.shape[1])[:SAMPLED]


def _step_of_result(form: Types, expected: NDArray[Any]) -> NDArray[Any]:
    """Return one step of C's type at these values, if it is narrower than the sum."""
    if form.c == form.sum:
        return np.full_like(expected, 1e-30)
    exponent = np.floor(np.log2(np.maximum(np.abs(expected), 1e-30)))
    return 2.0 ** (exponent + 1 - DTYPES[form.c].mantissa_bits)


# --- all of them ----------------------------------------------------------------------------------------


def _summed_error(
    form: Types, a: Array, b: Array, before: Array | None, after: Array, rng: np.random.Generator
) -> float:
    """Return the largest error of |(C - before)·v - A·(B·v)|, by rows and column blocks, over its bound."""
    signs = rng.choice(np.array([-1.0, 1.0]), size=b.shape[1])
    inner, widths = _sums_and_norms(b, signs)
    b_norms = np.sqrt(np.sum(widths**2, axis=0))
    step = 0.0 if form.c == form.sum else 2.0 ** (1 - DTYPES[form.c].mantissa_bits)
    worst: list[float] = [0.0]
    for rows in _slices(a.shape[0]):
        left = a[rows].astype(np.float64)
        expected = left @ inner
        scale = np.sqrt(np.sum(left**2, axis=1))[:, None] * b_norms
        if before is not None:
            start, norms = _sums_and_norms(before[rows], signs)
            expected, scale = expected + start, scale + norms
        found, norms = _sums_and_norms(after[rows], signs)
        bound = SPREAD * (ELEMENT_STEPS * F32_STEP * scale + step * norms) + 1e-30
        worst.append(float(np.max(np.abs(found - expected) / bound)))
    return float(np.max(worst))


def _sums_and_norms(values: Array, signs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return signed sums and Euclidean norms of each row by column blocks, in f64, few rows at a time."""
    starts = list(range(0, values.shape[1], BLOCK))
    sums = np.empty((values.shape[0], len(starts)))
    norms = np.empty_like(sums)
    for rows in _slices(values.shape[0]):
        exact = values[rows].astype(np.float64)
        sums[rows] = np.add.reduceat(exact * signs, starts, axis=1)
        norms[rows] = np.sqrt(np.add.reduceat(exact**2, starts, axis=1))
    return sums, norms


def _summed_equal(a: Array, b: Array, before: Array | None, after: Array, rng: np.random.Generator) -> bool:
    """Return whether (C - before)·v = A·(B·v) in wrapping 32-bit sums, where one wrong element shows."""
    signs = rng.choice(np.array([-1, 1]), size=b.shape[1])
    inner = np.concatenate([b[rows].astype(np.int64) @ signs for rows in _slices(b.shape[0])])
    for rows in _slices(a.shape[0]):
        difference = after[rows].astype(np.int64) @ signs - a[rows].astype(np.int64) @ inner
        if before is not None:
            difference = difference - before[rows].astype(np.int64) @ signs
        if np.any(difference % 2**32):
            return False
    return True


def _slices(rows: int) -> list[slice]:
    """Return slices of rows, so that no large array is copied."""
    return [slice(start, start + 256) for start in range(0, rows, 256)]
