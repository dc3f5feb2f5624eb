"""Tiles of which the end of an axis leaves a part are priced as the copy that lowering makes of them."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.text import print_schedule
from isamap.source import Source

DEPTHWISE = """
kernel depthwise_bytes(P, C, R) {
  in X: u8[P + R - 1, C];
  in F: i8[R, C];
  out Y: i32[P, C];
  for p in P, c in C { Y[p, c] = 0; }
  for p in P, c in C, r in R { Y[p, c] += i32(X[p + r, c]) * i32(F[r, c]); }
}
"""


@pytest.mark.parametrize(("taps", "is_summed_in_fours"), [(3, False), (64, True)])
def test_taps_are_summed_in_fours_only_where_they_fill_them(taps: int, is_summed_in_fours: bool) -> None:
    sizes = {"P": 56, "C": 64, "R": taps}
    request = Request(Source("k", DEPTHWISE), "x86-avx512-vnni", dict(sizes), limit_s=60, cache=False)
    found = compile_kernel(request, "schedule").schedule
    assert found is not None
    text = print_schedule(found)
    assert ("map dpbusd_" in text) == is_summed_in_fours, text
