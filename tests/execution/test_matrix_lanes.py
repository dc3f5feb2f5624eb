"""Products of all layouts, batched, and convolutions by matrix instructions of lanes, as models, at odd sizes."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.source import Source
from tests.device_kernels import shipped

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
OWN = {"convolution": CONVOLUTION, "batched": BATCHED}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_matrix_instructions_of_lanes_compute_products_of_all_kinds(kernel: str, machine: str) -> None:
    text = Source(f"{kernel}.ir", OWN[kernel]) if kernel in OWN else shipped(kernel)
    prepared = prepare(Request(text, machine, KERNELS[kernel], heuristic="greedy"))
    assert prepared.ran_on == "model"
    assert prepared.program.emitted.source.count("  TOGETHER;") == 2, "of one matrix instruction"
    found = verify_case(prepared, KERNELS[kernel], "random")
    assert found.ok, found.problems
