"""Counts that documentation promises, recomputed by trying everything at sizes of two."""

from __future__ import annotations

from collections import Counter

import pytest
from brute_force import Answer, all_mappings
from unit.matching import instruction, shipped

from isamap.ir import Kernel, bind

MATRIX = """instruction mma() {
  inout c: f32[2, 2] @ reg;  in a: f32[2, 2] @ reg;  in b: f32[2, 2] @ reg;
  for i in 2, j in 2, k in 2 { c[i, j] += a[i, k] * b[k, j]; }
}"""

DOT = """instruction dot() {
  inout c: f32 @ reg;  in a: f32[2] @ reg;  in b: f32[2] @ reg;
  for k in 2 { c += a[k] * b[k]; }
}"""

ROWS = """instruction rows() {
  inout c: f32[2] @ reg;  in a: f32[2] @ reg;  in b: f32[2, 2] @ reg;
  for i in 2, k in 2 { c[i] += a[k] * b[i, k]; }
}"""

VECTOR = """instruction fma() {
  inout c: f32[2] @ reg;  in a: f32[2] @ reg;  in b: f32[2] @ reg;
  for i in 2 { c[i] += a[i] * b[i]; }
}"""

UNIT = """instruction unit() {
  inout c: f32[2, 2, 2] @ reg;  in a: f32[2, 2, 2] @ reg;  in b: f32[2, 2] @ reg;
  for k in 2, p in 2, q in 2, c0 in 2 { c[k, p, q] += a[c0, p, q] * b[k, c0]; }
}"""

PAIRS = """instruction pairs() {
  inout c: f32[2, 2] @ reg;  in a: bf16[2, 4] @ reg;  in b: bf16[2, 4] @ reg;
  for m in 2, n in 2, k in 2, p in 2 { c[m, n] += f32(a[m, 2*k + p]) * f32(b[k, 2*n + p]); }
}"""


def smallest(name: str) -> Kernel:
    """Return a shipped kernel in which every size is 2, and images are 3 by 3."""
    kernel = shipped(name)
    open_sizes = [p.name for p in kernel.params if p.default is None and p.dtype is None]
    return bind(kernel, {n: 3 if n in ("H", "W") else 2 for n in open_sizes})


def kinds(found: Answer) -> tuple[int, int, int]:
    counted = Counter(min(m, key=repr).kind for m in found)
    return counted["whole"], counted["split"], counted["degenerate"]


@pytest.mark.parametrize(
    ("text", "name", "complete", "fixed"),
    [
        (MATRIX, "gemm_f32", (2, 0, 0), (1, 0, 0)),
        (MATRIX, "conv1d", (18, 0, 0), (9, 0, 0)),
        (MATRIX, "conv2d_nchw", (98, 0, 0), (49, 0, 0)),
        (MATRIX, "pointwise", (14, 0, 0), (7, 0, 0)),
        (MATRIX, "depthwise", (0, 0, 42), (0, 0, 21)),
        (MATRIX, "three_gates", (6, 0, 0), (3, 0, 0)),
        (DOT, "conv2d_nchw", (7, 0, 0), (7, 0, 0)),
        (ROWS, "conv2d_nchw", (56, 0, 0), (7, 0, 0)),
        (VECTOR, "conv2d_nchw", (15, 0, 0), (15, 0, 0)),
        (VECTOR, "gemm_f32", (3, 0, 0), (3, 0, 0)),
        (UNIT, "conv2d_nchw", (84, 98, 0), (84, 49, 0)),
        (PAIRS, "gemm_bf16_f32", (0, 2, 0), (0, 1, 0)),
    ],
)
def test_counts_follow_from_the_definition(
    text: str, name: str, complete: tuple[int, int, int], fixed: tuple[int, int, int]
) -> None:
    found = all_mappings(instruction(text).instruction, smallest(name))
    assert tuple(map(kinds, found)) == (complete, fixed)
