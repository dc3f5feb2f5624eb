"""Whether a contender's C is the product, judged by elements in f64 and by a randomised test of all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.bench.forms import Form
from isamap.bench.memory import Array
from isamap.ir import DTYPES

SAMPLED = 24  # rows and columns whose elements are computed exactly
F32_STEP = 2.0**-23


@dataclass(frozen=True, slots=True)
class Checked:
    """The largest error relative to its bound; at most 1 is fine."""

    worst: float

    @property
    def ok(self) -> bool:
        return self.worst <= 1


def check_product(
    form: Form, a: Array, b: Array, before: Array | None, after: Array, seed: int = 0
) -> Checked:
    """Compares C with A·B, or with before + A·B; A is [M, K] and B [K, N], views of what is stored.

    Some elements are computed in f64 (integers: exactly) and held to 4·2⁻²³·Σ|a||b| and one step of C's type.
    All of C times a random vector of -1 and 1 is compared with A·(B·v), under the sum of the bounds.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(a.shape[0])[:SAMPLED]
    columns = rng.permutation(b.shape[1])[:SAMPLED]
    left, right = _exact(a[rows]), _exact(b[:, columns])
    expected = left @ right
    magnitude = np.abs(left) @ np.abs(right)
    if before is not None:
        start = _exact(before[np.ix_(rows, columns)])
        expected, magnitude = expected + start, magnitude + np.abs(start)
    found = _exact(after[np.ix_(rows, columns)])
    if not form.is_float:
        exact = bool(np.array_equal(_wrapped(expected), found)) and _all_of_it(a, b, before, after, rng) == 0
        return Checked(0.0 if exact else float("inf"))
    bound = 4 * F32_STEP * magnitude + _rounding(form, expected)
    worst = float(np.max(np.abs(found - expected) / bound))
    total = _all_of_it(a, b, before, after, rng)
    scale = 4 * F32_STEP * a.shape[1] + 2.0 ** -(DTYPES[form.c].mantissa_bits - 1)
    # |v·C| sums N elements of at most K each: errors of random signs stay far below their sum.
    return Checked(max(worst, total / (scale * a.shape[1] * b.shape[1])))


def _exact(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.int64 if values.dtype.kind in "iu" else np.float64)


def _wrapped(values: NDArray[Any]) -> NDArray[Any]:
    return (values + 2**31) % 2**32 - 2**31


def _rounding(form: Form, expected: NDArray[Any]) -> NDArray[Any]:
    """One step of C's type at these values, where it is narrower than the sum."""
    if form.c == form.sum:
        return np.full_like(expected, 1e-30)
    exponent = np.floor(np.log2(np.maximum(np.abs(expected), 1e-30)))
    return 2.0 ** (exponent + 1 - DTYPES[form.c].mantissa_bits)


def _all_of_it(a: Array, b: Array, before: Array | None, after: Array, rng: np.random.Generator) -> float:
    """The largest element of |(C - before)·v - A·(B·v)|, row by row so that nothing large is copied."""
    signs = rng.choice(np.array([-1, 1]), size=b.shape[1])
    kind = np.int64 if a.dtype.kind in "iu" else np.float64
    inner = np.zeros(b.shape[0], kind)
    for start in range(0, b.shape[0], 1024):
        inner[start : start + 1024] = b[start : start + 1024].astype(kind) @ signs
    worst = 0.0
    for start in range(0, a.shape[0], 256):
        rows = slice(start, start + 256)
        got = after[rows].astype(kind) @ signs
        if before is not None:
            got = got - before[rows].astype(kind) @ signs
        difference = got - a[rows].astype(kind) @ inner
        if kind is np.int64:
            difference = difference % 2**32  # sums of 32 bits wrap around
        worst = max(worst, float(np.max(np.abs(difference), initial=0)))
    return worst
