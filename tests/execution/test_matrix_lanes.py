"""Kernels by matrix and vector instructions of lanes, as models: products of all kinds, norms, gates."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.source import Source
from tests.device_kernels import shipped, without_vector_products

MACHINES = ("amd-rdna3", "nvidia-sm80")
CONVOLUTION = """kernel convolution(N, H, W, C, K, R, S) where R <= H, S <= W {
  in x: f16[N, H, W, C];
  in w: f16[R, S, C, K];
  inout y: f32[N, H - R + 1, W - S + 1, K];
  for n in N, p in H - R + 1, q in W - S + 1, k in K, r in R, s in S, c in C {
    y[n, p, q, k] += f32(x[n, p + r, q + s, c]) * f32(w[r, s, c, k]);
  }
}"""
BATCHED = """kernel batched(L, M, N, K) {
  in A: bf16[L, M, K];
  in B: bf16[L, K, N];
  inout C: f32[L, M, N];
  for l in L, m in M, n in N, k in K { C[l, m, n] += f32(A[l, m, k]) * f32(B[l, k, n]); }
}"""
SIZES = {"M": 19, "N": 35, "K": 21}
KERNELS = {
    "gemm_tn_bf16_f32": SIZES,
    "gemm_nt_s8s8": SIZES,
    "gemm_tn_s8s8": SIZES,
    "convolution": {"N": 1, "H": 5, "W": 6, "C": 9, "K": 17, "R": 3, "S": 3},
    "batched": {"L": 2, "M": 17, "N": 18, "K": 19},
}
VECTORS = {
    "layer_norm_f32": {"M": 3, "N": 41},
    "depthwise": {"N": 1, "H": 5, "W": 6, "C": 19, "R": 3, "S": 3, "stride": 1, "pad": 1},
    "gru_bf16": {"T": 2, "N": 3, "C": 5, "H": 7},
    "gemm_w4_f32": {"M": 3, "N": 37, "G": 2, "H": 16},  # weights of four bits, two in a byte
    "gru": {"T": 2, "N": 5, "C": 7, "H": 9},  # warps write tiles of several lengths
}
OWN = {"convolution": CONVOLUTION, "batched": BATCHED}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_matrix_instructions_of_lanes_compute_products_of_all_kinds(
    kernel: str, machine: str, tmp_path: Path
) -> None:
    text = Source(f"{kernel}.ir", OWN[kernel]) if kernel in OWN else shipped(kernel)
    described = without_vector_products(machine, tmp_path)
    prepared = prepare(Request(text, described, KERNELS[kernel], heuristic="greedy"))
    assert prepared.ran_on == "model"
    assert prepared.program.emitted.source.count("  TOGETHER(32);") == 2, "of one matrix instruction"
    found = verify_case(prepared, KERNELS[kernel], "random")
    assert found.ok, found.problems


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", VECTORS)
def test_vector_instructions_of_lanes_compute_what_no_matrix_instruction_does(
    kernel: str, machine: str
) -> None:
    prepared = prepare(Request(shipped(kernel), machine, VECTORS[kernel], heuristic="greedy"))
    assert prepared.ran_on == "model"
    found = verify_case(prepared, VECTORS[kernel], "random")
    assert found.ok, found.problems
