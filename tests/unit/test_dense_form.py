"""Axes that lie one behind the other are one in the best form; callers' arrays stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import CompiledKernel, prepare
from isamap.ir import bind, print_routine
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import dense_form, make_guards_explicit

POINTWISE = """kernel pointwise(N, C, K, H, W) {
  in X: f32[N, C, H, W];
  in F: f32[K, C];
  inout Y: f32[N, K, H, W];
  for n in N, k in K, h in H, w in W, c in C { Y[n, k, h, w] += X[n, c, h, w] * F[k, c]; }
}
"""
WINDOWS = """kernel windows(C, H, W, R) {
  in X: f32[C, H + R - 1, W];
  in F: f32[C, R];
  inout Y: f32[H, W];
  for h in H, w in W, c in C, r in R { Y[h, w] += X[c, h + r, w] * F[c, r]; }
}
"""


def dense(text: str, **sizes: int) -> str:
    kernel = bind(parse_kernel(Source("k.ir", text)), sizes)
    found = dense_form(make_guards_explicit(kernel))
    return "\n".join((*found.steps, print_routine(found.kernel)))


def test_pixels_are_one_axis_where_filters_have_one() -> None:
    said = dense(POINTWISE, N=2, C=3, K=4, H=5, W=7)
    assert "flattening: `h` and `w` become `hw`, one axis of `Y`, `X`" in said
    assert "for n in 2, k in 4, hw in 35, c in 3 { Y[n, k, hw] += X[n, c, hw] * F[k, c]; }" in said


def test_a_window_of_one_element_is_no_loop() -> None:
    said = dense(WINDOWS, C=3, H=4, W=5, R=1)
    assert "windows of one element: no loop over `r`" in said
    assert "for hw in 20, c in 3 { Y[hw] += X[c, hw] * F[c, 0]; }" in said


def test_windows_of_several_elements_stay() -> None:
    assert "for h in 4, w in 5, c in 3, r in 2" in dense(WINDOWS, C=3, H=4, W=5, R=2)


def test_sizes_that_are_open_leave_a_kernel_as_it_is() -> None:
    kernel = make_guards_explicit(parse_kernel(Source("k.ir", POINTWISE)))
    assert dense_form(kernel).kernel == kernel


def test_arrays_are_given_as_the_kernel_is_written_and_dense() -> None:
    sizes = {"N": 2, "C": 3, "K": 4, "H": 5, "W": 7}
    request = Request(Source("k.ir", POINTWISE), "generic-c", sizes, transform=BEST_FORM)
    made = CompiledKernel(prepare(request))
    rng = np.random.default_rng(0)
    x, f = rng.random((2, 3, 5, 7), dtype=np.float32), rng.random((4, 3), dtype=np.float32)
    expected = np.einsum("nchw,kc->nkhw", x, f)
    assert np.allclose(made(X=x, F=f, Y=np.zeros_like(expected))["Y"], expected, atol=1e-5)
    apart = np.zeros((2, 3, 5, 9), np.float32)[..., :7]
    apart[...] = x
    with pytest.raises(
        UsageProblem, match=r"`X` has gaps between rows that the program takes as one[^$]*X\.copy"
    ):
        made(X=apart, F=f, Y=np.zeros_like(expected))
    with pytest.raises(UsageProblem, match=r"the array given is float32\[2, 3, 35\]"):
        made(X=x.reshape(2, 3, 35), F=f, Y=np.zeros_like(expected))
