"""Kernels from text to arrays on the abstract machines, and scattered sums on every kind of machine."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.kernels import kernel_path
from isamap.lower.walk import issued_names
from isamap.machine import load_machine, missing_features
from isamap.source import Source

CONVOLUTION = {"N": 2, "C": 5, "K": 17, "H": 7, "W": 6, "R": 3, "S": 2, "pad": 1}
ON_MATMUL: dict[str, dict[str, Size]] = {
    "gemm_f32": {"M": 33, "N": 17, "K": 40},
    "conv3d": {
        "N": 1,
        "C": 3,
        "K": 17,
        "D": 3,
        "H": 5,
        "W": 4,
        "T": 2,
        "R": 3,
        "S": 1,
        "stride": 2,
        "pad": 1,
    },
    "conv2d_grouped": {**CONVOLUTION, "G": 3},
    "conv2d_dilated": {**CONVOLUTION, "pad": 2},
    "conv2d_transposed": {**CONVOLUTION},
    "depthwise": {"N": 2, "C": 18, "H": 7, "W": 6, "R": 3, "S": 2},
    "depthwise_multiplier": {"N": 1, "C": 3, "M": 5, "H": 7, "W": 19, "R": 3, "S": 2, "stride": 2},
    "attention_context": {"L": 2, "H": 3, "M": 5, "N": 17, "D": 18},
    "attention_scores_mqa": {"L": 2, "H": 3, "M": 5, "N": 17, "D": 18},
    "three_gates": {"B": "1..40", "H": "1..40", "D": "1..40"},
}
MACHINES = ("matmul-8x32x16", "dot-16", "gemv-16", "vec-fma-16", "conv-unit-8")
SCATTERED: tuple[dict[str, Size], ...] = (
    {"N": 2, "C": 3, "K": 5, "H": 4, "W": 7, "R": 3, "S": 3},  # neighbours overlap
    {"N": 1, "C": 17, "K": 18, "H": 5, "W": 9, "R": 2, "S": 2},  # none does
    {"N": 1, "C": 5, "K": 3, "H": 9, "W": 6, "R": 4, "S": 5, "stride": 3},
    {"N": 1, "C": "1..9", "K": "1..20", "H": "1..9", "W": "1..9", "R": 3, "S": 3},
)

# What is cut off lies outside of Y: only the guard keeps it there.
CUT_OFF = """kernel cut_off(N, C, K, H, R, stride = 2, pad: 0..4096 = 0)
    where 2*pad <= (H - 1) * stride + R - 1 {
  let P = (H - 1) * stride + R - 2*pad;
  in X: f32[N, C, H];
  in F: f32[C, K, R];
  inout Y: f32[N, K, P];
  for n in N, k in K, h in H, r in R, c in C if h*stride + r >= pad & h*stride + r < P + pad {
    Y[n, k, h*stride + r - pad] += X[n, c, h] * F[c, k, r];
  }
}
"""

# What is read of the array that is written, only guards keep from being written.
KEPT_APART = {
    "mirror": "for i in N, j in N { A[i, j] = A[j, i] if i < j; }",
    "fold": "for i in N, j in N { A[i, j] += A[i, N - 1 - j] if 2 * j < N - 1; }",
    "halves": "for i in N, j in N { A[i, j] = A[i, j] + 2 * A[i, j + 16] if j < 16; }",
    "sums": "for i in N, j in N, k in N { A[i, j] += A[j, k] * B[k] if i >= 24 & j < 24; }",
    "maxima": "for i in N, j in N { A[0, j] max= A[i, j] if i > 0; }",
}


def shipped(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


def assert_right(source: Source, machine: str, sizes: dict[str, Size]) -> None:
    """Compiled, run beside guard pages, and compared bit by bit: small integers sum exactly in any order."""
    if missing := missing_features(load_machine(machine)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    prepared = prepare(Request(source, machine, sizes, heuristic="greedy"))
    cases = list(all_cases(prepared, ("integers",), guard=True))
    assert cases
    assert not [d.render() for case in cases for d in case.problems]


@pytest.mark.hardware
@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
@pytest.mark.parametrize(("dtype", "op", "start"), [("u8", "max", 0), ("i8", "min", 127), ("i16", "max", -9)])
def test_extremes_of_narrow_rows_are_vectors(machine: str, dtype: str, op: str, start: int) -> None:
    text = f"""kernel extreme(M, N) {{
  in x: {dtype}[M, N];
  out y: {dtype}[M];
  out z: {dtype}[M, N];
  for m in M {{ y[m] = {start}; }}
  for m in M, n in N {{ y[m] {op}= x[m, n]; }}
  for m in M, n in N {{ z[m, n] = {op}(x[m, n], {start}); }}
}}
"""
    source, sizes = Source("extreme.ir", text), dict[str, Size](M=13, N=1003)
    assert not [name for name in mappings_of(source, machine, sizes)[1:] if "mm_" not in name]
    assert_right(source, machine, sizes)


def mappings_of(source: Source, machine: str, sizes: dict[str, Size]) -> list[str]:
    """Return what performs each statement, by a quick schedule."""
    schedule = compile_kernel(Request(source, machine, sizes, heuristic="greedy"), "schedule").schedule
    assert schedule is not None
    return [nest.mapping for nest in schedule.nests]


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("name", ON_MATMUL)
def test_a_kernel_runs_on_a_matrix_product(name: str) -> None:
    assert_right(shipped(name), "matmul-16x16x16", ON_MATMUL[name])


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx512"])
def test_attention_runs_where_something_selects(machine: str, causal: int) -> None:
    sizes: dict[str, Size] = {"L": 2, "H": 3, "M": 5, "N": 17, "D": 18, "causal": causal}
    assert_right(shipped("attention"), machine, sizes)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_convolution_runs_on_every_abstract_machine(machine: str) -> None:
    assert_right(shipped("conv2d_nchw"), machine, {**CONVOLUTION, "stride": 2})


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx512", "matmul-16x16x16"])
@pytest.mark.parametrize("sizes", SCATTERED, ids=str)
def test_what_is_scattered_to_one_element_is_summed(machine: str, sizes: dict[str, Size]) -> None:
    assert_right(shipped("conv2d_transposed_strided"), machine, sizes)


@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "matmul-16x16x16"])
def test_what_a_guard_cuts_off_touches_nothing_beside_the_array(machine: str) -> None:
    sizes: dict[str, Size] = {"N": 2, "C": 17, "K": 4, "H": 9, "R": 5, "pad": 3, "stride": 3}
    assert_right(Source("cut_off.ir", CUT_OFF), machine, sizes)


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("op", ["max=", "min=", "*=", "&=", "|=", "^="])
@pytest.mark.parametrize("sizes", [{"M": 5, "N": 133}, {"M": "1..9@5", "N": "1..40@37"}], ids=str)
def test_rows_are_reduced_along_lanes(op: str, sizes: dict[str, Size]) -> None:
    """What lanes behind the end of a row hold changes nothing, whatever the rows are reduced by."""
    dtype = "f32" if op in ("max=", "min=") else "i32"
    text = f"""kernel rows(M, N) {{
      in x: {dtype}[M, N];
      inout y: {dtype}[M];
      for m in M, n in N {{ y[m] {op} x[m, n]; }}
    }}"""
    assert "{ i: n }" in mappings_of(Source("rows.ir", text), "x86-avx2", sizes)[0]
    assert_right(Source("rows.ir", text), "x86-avx2", sizes)


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
def test_a_guard_that_no_lane_runs_along_is_one_condition_for_all_lanes(machine: str) -> None:
    text = """kernel forward_substitution(N, R) {
      in L: f32[N, N];
      inout B: f32[N, R];
      seq k in N { for i in N, r in R if i > k { B[i, r] += -L[i, k] * B[k, r]; } }
    }"""
    source, sizes = Source("forward.ir", text), dict[str, Size]({"N": 5, "R": 40})
    program = compile_kernel(Request(source, machine, sizes, heuristic="greedy"), "lower").program
    assert program is not None
    assert not {"mul_f32", "select_f32"} & set(issued_names(program.body))
    assert_right(source, machine, sizes)


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
def test_a_scalar_that_is_computed_fills_a_register(machine: str) -> None:
    text = """kernel mean(M, N) {
      in x: f32[M, N];
      out y: f32[M, N];
      for m in M, n in N { y[m, n] = -x[m, n] / f32(N); }
    }"""
    source, sizes = Source("mean.ir", text), dict[str, Size]({"M": 3, "N": "1..64@32"})
    assert not compile_kernel(Request(source, machine, sizes, heuristic="greedy"), "schedule").warnings
    assert_right(source, machine, sizes)


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512"])
def test_half_precision_widens_in_vectors_the_last_element_included(machine: str) -> None:
    text = """kernel product(M, N, K) {
      in A: f16[M, K];
      in B: f16[K, N];
      inout C: f32[M, N];
      for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }
    }"""
    source, sizes = Source("product.ir", text), dict[str, Size]({"M": 3, "N": 32, "K": 7})
    program = compile_kernel(Request(source, machine, sizes, heuristic="greedy"), "lower").program
    assert program is not None
    assert "cvt_f16_f32" not in issued_names(program.body)
    assert_right(source, machine, sizes)


def test_the_lower_triangle_of_a_product_is_computed_by_vectors() -> None:
    text = """kernel triangle(N, K) {
      in A: f32[N, K];
      inout C: f32[N, N];
      for i in N, j in N, k in K if j <= i { C[i, j] += A[i, k] * A[j, k]; }
    }"""
    source, sizes = Source("triangle.ir", text), dict[str, Size]({"N": 19, "K": 21})
    assert any(name.startswith("fma_ymm_f32") for name in mappings_of(source, "x86-avx2", sizes))
    assert_right(source, "x86-avx2", sizes)


@pytest.mark.parametrize("hw", ["dot-16", "gemv-16", "matmul-16x16x16"])
def test_a_summed_axis_that_holds_one_element_adds_nothing_more(hw: str) -> None:
    text = """kernel products(I) {
      in A: f32[2*I - 1];
      in B: f32[3*I - 2];
      inout Y: f32[I];
      for i in I { Y[i] += A[2*i] * B[3*i]; }
    }"""
    assert_right(Source("products.ir", text), hw, {"I": 19})


@pytest.mark.exhaustive(fast=5)
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("name", KEPT_APART)
def test_what_guards_keep_apart_is_computed_in_place(name: str, machine: str) -> None:
    text = f"""kernel {name}(N: 32..512) {{
      in B: f32[N];
      inout A: f32[N, N];
      {KEPT_APART[name]}
    }}"""
    assert_right(Source(f"{name}.ir", text), machine, {"N": 50})
