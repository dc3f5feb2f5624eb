"""Maxima that begin with -inf: an infinity is not a size to measure rounding errors against."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.oracle import expect
from isamap.ir import bind
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

SOFTMAX = """
kernel softmax(M, N) {
  in x: f32[M, N];
  out y: f32[M, N];
  temp top: f32[M];
  temp sum: f32[M];
  for m in M { top[m] = -inf; }
  for m in M, n in N { top[m] max= x[m, n]; }
  for m in M, n in N { y[m, n] = exp(x[m, n] - top[m]); }
  for m in M { sum[m] = 0; }
  for m in M, n in N { sum[m] += y[m, n]; }
  for m in M, n in N { y[m, n] = y[m, n] / sum[m]; }
}
"""


def test_what_begins_with_an_infinity_is_held_to_a_bound() -> None:
    kernel = bind(parse_kernel(Source("softmax.ir", SOFTMAX)), {"M": 13, "N": 97})
    for fill in ("random", "edges"):
        bound = expect(kernel, make_arrays(kernel, fill), {}, fill)["y"].bound
        assert np.all(np.isfinite(bound))
        assert np.all(bound < 0.1)


MASKED = """
kernel masked(M, N) {
  in x: f32[M, N];
  in mask: f32[M, N];
  out y: f32[M, N];
  temp v: f32[M, N];
  temp top: f32[M];
  temp sum: f32[M];
  for m in M, n in N { v[m, n] = x[m, n] + mask[m, n]; }
  for m in M { top[m] = -inf; }
  for m in M, n in N { top[m] max= v[m, n]; }
  for m in M, n in N { y[m, n] = exp(v[m, n] - top[m]); }
  for m in M { sum[m] = 0; }
  for m in M, n in N { sum[m] += y[m, n]; }
  for m in M, n in N { y[m, n] = y[m, n] / sum[m]; }
}
"""


@pytest.mark.parametrize("adds", [False, True])
def test_scores_masked_by_the_lowest_number_leave_a_softmax_its_bound(adds: bool) -> None:
    """Masked scores may be -inf; `exp` of either is 0. Their error of 1e32 is none of the others' maximum."""
    kernel = bind(parse_kernel(Source("masked.ir", MASKED if adds else SOFTMAX)), {"M": 5, "N": 24})
    x = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)
    mask = np.zeros((5, 24), np.float32)
    mask[:4, ::2] = np.finfo(np.float32).min
    mask[3, 3:] = np.finfo(np.float32).min
    given = {"x": x, "mask": mask} if adds else {"x": x + mask}
    expected = expect(kernel, given, {}, "random")["y"]
    assert np.all(expected.bound < 1e-5)
    for masked in (x + mask, np.where(mask < 0, np.float32(-np.inf), x)):
        powers = np.exp(masked - masked.max(1, keepdims=True))
        assert np.all(np.abs(powers / powers.sum(1, keepdims=True) - expected.values) <= expected.bound)


def test_a_row_of_which_all_is_masked_by_a_sum_is_open() -> None:
    """All its scores may be -inf, and -inf less -inf is NaN."""
    kernel = bind(parse_kernel(Source("masked.ir", MASKED)), {"M": 1, "N": 8})
    given = {"x": np.ones((1, 8), np.float32), "mask": np.full((1, 8), np.finfo(np.float32).min)}
    assert np.all(np.isinf(expect(kernel, given, {}, "random")["y"].bound))


TOTAL = """
kernel total(K) {
  in x: f16[K];
  out y: f16;
  y = 0;
  for k in K { y += x[k]; }
}
"""


@pytest.mark.parametrize(
    ("terms", "is_open"),
    [
        ((60000, 60000, -60000, -60000, -60000, -60000), True),  # +inf in this order, -inf in the other
        ((60000, 60000, -60000), True),  # an infinity, or 60000
        ((60000, 60000, -2000), False),  # never another infinity
        ((30000, 30000, -5000), False),
    ],
)
def test_partial_sums_that_overflow_to_either_side_leave_a_sum_open(
    terms: tuple[int, ...], is_open: bool
) -> None:
    kernel = bind(parse_kernel(Source("total.ir", TOTAL)), {"K": len(terms)})
    x = np.array(terms, np.float16)
    expected = expect(kernel, {"x": x, "y": np.zeros((), np.float16)}, {}, "edges")["y"]
    assert np.isinf(expected.bound).all() == is_open
