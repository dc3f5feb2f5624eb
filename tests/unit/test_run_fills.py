"""What fills hold: awkward numbers where they can be seen, and no chaos in recurrences."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.oracle import expect
from isamap.ir import Kernel, bind
from isamap.kernels import kernel_path
from isamap.run.fills import fills_of, make_arrays, make_scalars, shares
from isamap.source import Source
from isamap.syntax import parse_kernel


def bound(text: str, **sizes: int) -> Kernel:
    return bind(parse_kernel(Source("k.ir", f"kernel k({', '.join(sizes)}) {{ {text} }}")), sizes)


def shipped(name: str, **sizes: int) -> Kernel:
    text = kernel_path(name).read_text(encoding="utf-8")
    return bind(parse_kernel(Source(f"{name}.ir", text)), sizes)


RELU = "in x: f32[N]; out y: f32[N]; for n in N { y[n] = max(x[n], 0); }"
POOL = """in x: f32[R, N]; out y: f32[N];
    for n in N { y[n] = -inf; } for n in N, r in R { y[n] max= x[r, n]; }"""
SOFTMAX = """in x: f32[M, N]; out y: f32[M, N]; temp top: f32[M]; temp total: f32[M];
    for m in M { top[m] = -inf; total[m] = 0; }
    for m in M, n in N { top[m] max= x[m, n]; }
    for m in M, n in N { total[m] += exp(x[m, n] - top[m]); }
    for m in M, n in N { y[m, n] = exp(x[m, n] - top[m]) / total[m]; }"""


@pytest.mark.parametrize(
    ("kernel", "share"),
    [
        (shipped("gemm_f32", M=8, N=4, K=9), {"A": 1 / 8, "B": 1 / 4, "C": 1 / 32}),
        (shipped("gemv_f32", M=8, K=4), {"A": 1 / 8, "x": 1.0, "y": 1 / 8}),
        (bound(RELU, N=16), {"x": 1 / 16}),
        (bound(POOL, R=3, N=4), {"x": 1 / 4}),
        (bound(SOFTMAX, M=5, N=7), {"x": 1 / 5}),
        (
            bound(
                "in x: f32[T, N]; inout h: f32[N]; seq t in T { for n in N { h[n] += x[t, n]; } }", T=6, N=4
            ),
            {"x": 1 / 4, "h": 1 / 4},
        ),
    ],
)
def test_an_element_reaches_a_share_of_the_results(kernel: Kernel, share: dict[str, float]) -> None:
    assert shares(kernel) == pytest.approx(share)


@pytest.mark.parametrize(
    "kernel",
    [
        bound(RELU, N=84),
        bound(POOL, R=4, N=3),
        bound(SOFTMAX, M=5, N=7),
        shipped("gemm_f32", M=9, N=7, K=11),
        shipped("gemm_bf16", M=9, N=7, K=11),
        shipped("gemm_f64", M=9, N=7, K=11),
    ],
)
def test_a_few_inputs_are_not_finite_and_most_results_are(kernel: Kernel) -> None:
    arrays = make_arrays(kernel, "edges")
    given = [a for o in kernel.operands if (a := arrays.get(o.name)) is not None and o.role != "out"]
    assert any(np.isnan(a.astype(np.float64)).any() for a in given)
    for expected in expect(kernel, arrays, {}, "edges").values():
        odd = np.count_nonzero(~np.isfinite(expected.values))
        assert 0 < odd < expected.values.size / 2
        assert np.isfinite(expected.bound).all()  # all of them are compared


def test_what_reaches_all_results_stays_finite() -> None:
    arrays = make_arrays(shipped("gemv_f32", M=64, K=64), "edges")
    assert np.isfinite(arrays["x"]).all()
    assert not np.isfinite(arrays["A"]).all()


def test_zeros_of_both_signs_and_subnormal_numbers_are_there() -> None:
    x = make_arrays(bound(RELU, N=400), "edges")["x"]
    zeros = x[x == 0]
    assert 0 < np.count_nonzero(np.signbit(zeros)) < zeros.size
    subnormal = np.abs(x[(x != 0) & (np.abs(x) < np.finfo(np.float32).tiny)])
    assert np.unique(subnormal).size == 2


def test_floats_of_a_recurrence_shrink_with_the_length_of_its_sums() -> None:
    text = """in u: f32[N, N]; in x: f32[T, N]; inout h: f32[T + 1, N];
        seq t in T { for n in N { h[t + 1, n] = x[t, n]; }
                     for n in N, k in N { h[t + 1, n] += u[n, k] * h[t, k]; } }"""
    arrays = make_arrays(bound(text, T=4, N=64), "random")
    assert 0.9 / 8 < np.abs(arrays["u"]).max() <= 1 / 8
    assert np.abs(arrays["x"]).max() > 0.9
    text = """in u: f32[N, N]; in x: f32[T, N]; inout h: f32[N]; temp g: f32[N];
        seq t in T { for n in N { g[n] = x[t, n]; } for n in N, k in N { g[n] += u[n, k] * h[k]; }
                     for n in N { h[n] = g[n]; } }"""
    arrays = make_arrays(bound(text, T=4, N=64), "random")
    assert all(0.9 / 64 < np.abs(a).max() <= 1 / 64 for a in arrays.values())
    text = "in u: f32[N, N]; in x: f32[N]; inout h: f32[N]; for n in N, k in N { h[n] += u[n, k] * x[k]; }"
    assert np.abs(make_arrays(bound(text, N=64), "random")["u"]).max() > 0.9


def test_a_largest_element_of_a_row_exceeds_the_others_by_what_exp_loses() -> None:
    kernel = shipped("softmax_f32", M=3, N=37)
    assert fills_of(kernel) == ("integers", "random", "edges", "spread", "peaks", "ties")
    for fill in ("spread", "peaks", "ties"):
        rows = np.sort(make_arrays(kernel, fill)["x"], axis=1)
        assert np.all(rows[:, -1] - rows[:, -2] > 104), fill


def test_a_kernel_of_sums_needs_no_fills_of_its_own() -> None:
    assert fills_of(shipped("gemm_f32", M=3, N=4, K=5)) == ("integers", "random", "edges")


@pytest.mark.parametrize("fill", ["integers", "random", "spread", "ties"])
def test_a_scale_leaves_results_within_a_saturation_and_beyond(fill: str) -> None:
    kernel = shipped("gemm_s8s8_requant", M=12, N=16, K=19)
    arrays, scalars = make_arrays(kernel, fill), make_scalars(kernel, fill)
    found = expect(kernel, arrays, scalars, fill)["C"].values
    saturated = np.mean(np.abs(found.astype(np.int64)) >= 127)
    assert 0.02 < saturated < 0.95


def test_constants_that_inputs_are_compared_with_are_met() -> None:
    text = "in x: f32[N]; out y: f32[N]; for n in N { y[n] = select(x[n] > 1000, x[n], 0); }"
    assert np.any(make_arrays(bound(text, N=64), "ties")["x"] == 1000)


def test_constants_behind_a_factor_are_met() -> None:
    text = """in x: f32[N]; out y: f32[N];
        for n in N { y[n] = select(x[n] * 4 < 3, x[n], 0); }"""
    arrays = make_arrays(bound(text, N=200), "ties")
    assert np.count_nonzero(arrays["x"] == 0.75) > 5


def test_largest_elements_of_neighbouring_rows_differ_by_what_exp_loses() -> None:
    rows = make_arrays(bound(SOFTMAX, M=9, N=11), "spread")["x"].max(axis=1).astype(np.float64)
    assert np.abs(np.diff(rows)).min() > 88


def test_sums_that_are_rounded_to_bf16_meet_ties() -> None:
    kernel = shipped("gemm_bf16", M=19, N=19, K=17)
    arrays = make_arrays(kernel, "integers")
    sums = np.abs(arrays["C"].astype(int) + arrays["A"].astype(int) @ arrays["B"].astype(int))
    assert np.count_nonzero((sums > 256) & (sums < 512) & (sums % 2 == 1)) > 20


def test_each_fill_has_indices_of_its_own() -> None:
    kernel = shipped("csr_f32", M=9, N=3, K=13, NNZ=19)
    rows = [make_arrays(kernel, fill)["row"].tobytes() for fill in fills_of(kernel)]
    assert len(set(rows)) == len(rows)


def test_requantised_results_differ_in_every_column() -> None:
    """An addend as large as its type allows would leave nothing to be seen of the sums of products."""
    kernel = shipped("gemm_u8s8_requant", M=19, N=19, K=17)
    arrays, scalars = make_arrays(kernel, "peaks"), make_scalars(kernel, "peaks")
    expected = expect(kernel, arrays, scalars, "peaks")["C"]
    assert len(np.unique(expected.values)) > 50
    assert not expected.bound.any()
