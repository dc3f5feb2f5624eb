"""Maxima that begin with -inf: an infinity is no size to measure rounding errors against."""

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
