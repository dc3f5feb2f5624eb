"""A vector processor whose local memory a DMA engine fills: through that memory into registers, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isamap.cli import main

PRODUCT = """kernel product(M, N, K) {
  in A: i8[M, K]; in B: i8[K, N]; inout C: i32[M, N];
  for m in M, n in N, k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); }
}
"""
DEPTHWISE = """kernel depthwise(H, W, C) {
  in X: i8[H, W, C]; in F: i8[3, 3, C]; inout Y: i32[H - 2, W - 2, C];
  for p in H - 2, q in W - 2, c in C, r in 3, s in 3 {
    Y[p, q, c] += i32(X[p + r, q + s, c]) * i32(F[r, s, c]);
  }
}
"""
CONVOLUTION = """kernel convolution(H, W, C, K) {
  in X: i8[H, W, C]; in F: i8[3, 3, C, K]; inout Y: i32[H - 2, W - 2, K];
  for p in H - 2, q in W - 2, k in K, r in 3, s in 3, c in C {
    Y[p, q, k] += i32(X[p + r, q + s, c]) * i32(F[r, s, c, k]);
  }
}
"""


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (PRODUCT, "M=64 N=128 K=96"),
        (PRODUCT, "M=5 N=70 K=33"),  # the second vector is filled up with zeros
        (DEPTHWISE, "H=6 W=9 C=128"),  # lanes are channels, so that filters and pixels are vectors alike
        (CONVOLUTION, "H=5 W=6 C=16 K=64"),
        (CONVOLUTION, "H=5 W=6 C=70 K=3"),  # rows of channels in two pieces
        (PRODUCT, "M=7 N=65 K=200"),
    ],
)
def test_what_it_computes_is_right(
    text: str, sizes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "kernel.ir"
    kernel.write_text(text)
    words = ["verify", str(kernel), "-D", *sizes.split(), "--hw", "vector-dsp", "--heuristic", "greedy"]
    assert main(words) == 0
    assert capsys.readouterr().out.rstrip().endswith("all 3 comparisons fine")


def test_large_products_keep_the_multipliers_busy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "kernel.ir"
    kernel.write_text(PRODUCT)
    words = ["schedule", str(kernel), "-D", "M=256", "N=256", "K=256", "--hw", "vector-dsp", "--json"]
    assert main([*words, "--heuristic", "greedy"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["attempts"]
    assert 256**3 / 64 <= found["cost_ns"] < 1.2 * 256**3 / 64, "64 products a cycle, of 1 ns"


def test_match_says_what_moves_sums_that_registers_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "kernel.ir"
    kernel.write_text(PRODUCT)
    assert main(["match", str(kernel), "-D", "M=64", "N=128", "K=96", "--hw", "vector-dsp"]) == 0
    said = capsys.readouterr().out
    assert "a, b, c packed" in said
    assert "cannot move" not in said
