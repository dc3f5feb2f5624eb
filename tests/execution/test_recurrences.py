"""Recurrences whose values grow, and sums beside a NaN: `verify` finds them right on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.oracle import expect
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.ir import bind
from isamap.run.fills import FILLS, make_arrays
from isamap.run.runner import packed_arrays, run_program
from isamap.source import Source
from isamap.syntax import parse_kernel

MACHINES = ("generic-c", "x86-avx2", "x86-amx")

SCAN = """
# A selective scan: the state decays by a factor that the input chooses, and where A > 0 it grows.
kernel selective_scan(T, D, N) {
  in x: f32[T, D];
  in dt: f32[T, D];
  in A: f32[D, N];
  in B: f32[T, N];
  in C: f32[T, N];
  out y: f32[T, D];
  temp h: f32[D, N];
  for d in D, n in N { h[d, n] = 0; }
  for t in T, d in D { y[t, d] = 0; }
  seq t in T {
    for d in D, n in N { h[d, n] = exp(dt[t, d] * A[d, n]) * h[d, n] + dt[t, d] * B[t, n] * x[t, d]; }
    for d in D, n in N { y[t, d] += h[d, n] * C[t, n]; }
  }
}
"""
NEWTON_SCHULZ = """
# The orthogonal matrix nearest to X, where its singular values are below the root of 3; else it grows.
kernel newton_schulz(S, M, N) {
  inout X: f32[M, N];
  temp G: f32[N, N];
  temp Y: f32[M, N];
  seq s in S {
    for i in N, j in N { G[i, j] = 0; }
    for i in N, j in N, m in M { G[i, j] += X[m, i] * X[m, j]; }
    for m in M, n in N { Y[m, n] = 1.5 * X[m, n]; }
    for m in M, n in N, k in N { Y[m, n] += -0.5 * X[m, k] * G[k, n]; }
    for m in M, n in N { X[m, n] = Y[m, n]; }
  }
}
"""
POOL = """
kernel pool(R, C) {
  in x: f32[R, C];
  out y: f32[C];
  out z: f32[C];
  for c in C { y[c] = -inf; z[c] = inf; }
  for c in C, r in R { y[c] max= x[r, c]; }
  for c in C, r in R { z[c] min= x[r, c]; }
}
"""
ROWS = """
kernel rows(M, N) {
  in x: f32[M, N];
  in z: f32[M, N];
  out top: f32[M];
  out y: f32[M, N];
  for m in M { top[m] = -inf; }
  for m in M, n in N { top[m] max= x[m, n]; }
  for m in M, n in N { y[m, n] = max(min(x[m, n], z[m, n]), 0); }
}
"""


def problems(text: str, hw: str, sizes: dict[str, int], fills: tuple[str, ...] = FILLS) -> list[str]:
    prepared = prepare(Request(Source("k.ir", text), hw, sizes, heuristic="greedy"))
    return [d.render() for case in all_cases(prepared, fills, guard=True) for d in case.problems]


@pytest.mark.parametrize("hw", MACHINES[:2])
def test_a_selective_scan_is_right(hw: str) -> None:
    assert problems(SCAN, hw, {"T": 12, "D": 9, "N": 4}) == []


@pytest.mark.parametrize("hw", MACHINES[:2])
def test_a_newton_schulz_iteration_is_right(hw: str) -> None:
    assert problems(NEWTON_SCHULZ, hw, {"S": 5, "M": 9, "N": 7}) == []


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(SCAN, {"T": 12, "D": 9, "N": 4}), (NEWTON_SCHULZ, {"S": 5, "M": 24, "N": 24})],
    ids=["selective scan", "Newton-Schulz"],
)
def test_nothing_overflows_on_random_data_so_that_all_of_it_is_compared(
    text: str, sizes: dict[str, int]
) -> None:
    kernel = bind(parse_kernel(Source("k.ir", text)), sizes)
    for expected in expect(kernel, make_arrays(kernel, "random"), {}, "random").values():
        assert np.isfinite(expected.bound).all()
        assert expected.bound.max() < 0.01 * np.abs(expected.values).max()


@pytest.mark.parametrize("hw", MACHINES)
@pytest.mark.parametrize("columns", [3, 37])
def test_an_extremum_beside_a_nan_is_nan_wherever_it_stands(hw: str, columns: int) -> None:
    sizes = {"R": 5, "C": columns}
    prepared = prepare(Request(Source("k.ir", POOL), hw, sizes, heuristic="greedy"))
    x = np.linspace(-3, 3, 5 * columns, dtype=np.float32).reshape(5, columns)
    for at in range(5):
        given = {"x": x.copy(), "y": np.zeros(columns, np.float32), "z": np.zeros(columns, np.float32)}
        given["x"][at, :] = np.nan
        packed = packed_arrays(prepared.packers, given, {}, guard=True)
        result = run_program(prepared.compiled, packed, {}, guard=True)
        assert result.status == 0
        assert np.isnan(result.arrays["y"]).all()
        assert np.isnan(result.arrays["z"]).all()


@pytest.mark.exhaustive
def test_the_maximum_along_a_row_is_nan_whichever_lane_holds_one() -> None:
    text = """kernel rows(M, N) {
      in x: f32[M, N];
      inout y: f32[M];
      for m in M, n in N { y[m] max= x[m, n]; }
    }"""
    request = Request(Source("rows.ir", text), "x86-avx2", {"M": 40, "N": "1..40@37"}, heuristic="greedy")
    prepared = prepare(request)
    for columns in range(1, 41):
        x = np.linspace(-3, 3, 40 * columns, dtype=np.float32).reshape(40, columns)
        x[np.arange(40), np.arange(40) % columns] = np.nan
        given, sizes = {"x": x, "y": np.zeros(40, np.float32)}, {"N": columns}
        packed = packed_arrays(prepared.packers, given, sizes, guard=True)
        result = run_program(prepared.compiled, packed, sizes, guard=True)
        assert result.status == 0
        assert np.isnan(result.arrays["y"]).all(), columns


@pytest.mark.parametrize("hw", MACHINES)
@pytest.mark.parametrize("columns", [16, 84])
def test_extrema_of_rows_and_relus_are_right_beside_nan(hw: str, columns: int) -> None:
    assert problems(ROWS, hw, {"M": 5, "N": columns}, ("edges",)) == []
