"""Maxima that begin with -inf: an infinity is no size to measure rounding errors against."""

from __future__ import annotations

import numpy as np

from isamap.codegen.fills import make_arrays
from isamap.driver.oracle import expect
from isamap.ir import bind
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
