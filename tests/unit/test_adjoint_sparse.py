"""Derivatives where indices are made of data: what has one, and what is refused; and rewrites of such."""

from __future__ import annotations

import json

import numpy as np
import pytest
from finite_differences import directional

from isamap.adjoint import gradient
from isamap.cli import main
from isamap.driver.inputs import read_kernel
from isamap.ir import Kernel, interpret, print_routine
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

SIZES = {"M": 5, "N": 3, "K": 4, "NNZ": 9}
SCALED = """kernel scaled(M, N, K, NNZ) {
  in row: i32[M + 1] values 0..NNZ ascending;
  in col: i32[NNZ] values 0..K - 1;
  in val: f32[NNZ];
  in s: f32[M];
  in t: f32[N];
  in B: f32[K, N];
  inout C: f32[M, N];
  seq m in M {
    for n in N, p in row[m]..row[m + 1] { C[m, n] += tanh(s[m] * t[n]) * val[p] * B[col[p], n]; }
  }
}
"""
GATHERED = """kernel gathered(M, N, K) {
  in P: i32[M] values 0..K - 1;
  in B: f32[K, N];
  in w: f32[M, N];
  out Y: f32[M, N];
  for m in M, n in N { Y[m, n] = w[m, n] * w[m, n] * B[P[m], n]; }
}
"""
SPARSE = ["csr_f32", "sell_f32", "bsr_f32"]


def of_text(text: str) -> Kernel:
    return parse_kernel(Source("k.ir", text))


@pytest.mark.parametrize("by", [["s"], ["t"], ["t", "s", "C"]])
def test_factors_of_rows_and_columns_agree_with_differences(by: list[str]) -> None:
    for seed in (0, 1):
        mine, measured = directional(of_text(SCALED), SIZES, ["C"], by, seed)
        assert mine == pytest.approx(measured, rel=1e-6, abs=1e-7)


def test_what_stands_beside_a_gathered_row_agrees_with_differences() -> None:
    mine, measured = directional(of_text(GATHERED), {"M": 6, "N": 3, "K": 4}, ["Y"], ["w"])
    assert mine == pytest.approx(measured, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", SPARSE)
def test_the_old_values_of_a_sparse_product_get_the_gradient_as_it_is(name: str) -> None:
    kernel = parse_kernel(read_kernel(name))
    sizes = {"M": 8, "N": 3, "K": 8, "NNZ": 9, "P": 5, "NNZB": 2}
    own = {p.name: sizes[p.name] for p in kernel.params if p.name in sizes}
    upstream = np.random.default_rng(0).random((8, 3), np.float32)
    found = interpret(gradient(kernel, by=["C"]), {"d_C": upstream}, own)
    np.testing.assert_array_equal(found["d_C_"], upstream)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("by", ["val", "B"])
def test_what_would_be_scattered_is_refused_with_what_to_do(name: str, by: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        gradient(parse_kernel(read_kernel(name)), by=[by])
    (found,) = caught.value.diagnostics
    assert found.code == "no-gradient"
    assert f"the derivative by `{by}` would be added up at places made of `" in found.message
    assert "the transposed pattern" in (found.help or "")


def test_rows_backwards_are_as_long_as_forwards() -> None:
    text = print_routine(gradient(of_text(SCALED), by=["s"]))
    assert "p in row[M - m] - row[M - m - 1]" in text


def test_rewrites_leave_loops_alone_that_data_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hw", "generic-c", "-D", "M=8", "N=8", "K=8", "NNZ=20", "--json", "--transform"]
    assert main(["match", "csr_f32", *words, "--all"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["forms"]
    assert only["steps"] == []
    assert main(["compile", "csr_f32", *words, "1"]) == 2
    assert "`isamap match --transform --all` lists them" in capsys.readouterr().out
