"""What holds for all sizes holds for each: mappings found with sizes left open are found with numbers too."""

from __future__ import annotations

import random

import pytest
from unit.matching import DOT, MATRIX, VECTOR, instruction, shipped

from isamap.ir import Kernel, bind
from isamap.match import Pattern
from isamap.match.mappings.enumerate import find_in_statement
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import statements

UNIT = """instruction unit() {
  inout c: f32[4, 3, 3] @ reg;
  in a: f32[2, 3, 3] @ reg;
  in b: f32[4, 2] @ reg;
  for o in 4, x in 3, y in 3, i in 2 { c[o, x, y] += a[i, x, y] * b[o, i]; }
}"""

WINDOW = """instruction window() {
  inout c: f32[3, 4] @ reg;
  in a: f32[4, 4] @ reg;
  in b: f32[2] @ reg;
  for p in 3, n in 4, r in 2 { c[p, n] += a[p + r, n] * b[r]; }
}"""

KERNELS = (
    "gemm_nt_f32",
    "conv1d",
    "conv2d_grouped",
    "conv2d_transposed_strided",
    "depthwise",
    "three_gates",
)


def found(pattern: Pattern, routine: Kernel) -> set[tuple[int, str, tuple[tuple[str, tuple[str, ...]], ...]]]:
    """Mappings by statement, kind and axes; what stands for what may be printed otherwise with numbers."""
    return {
        (n, m.kind, tuple(m.axes.items()))
        for n, statement in enumerate(statements(routine))
        for m in find_in_statement(pattern, statement, n, "complete", routine)
    }


def draws(routine: Kernel, count: int) -> list[Kernel]:
    """Return the kernel with small sizes, none of which leaves an axis of one element."""
    chance, bound = random.Random(routine.name), list[Kernel]()
    while len(bound) < count:
        sizes = {p.name: chance.randint(1, 6) for p in routine.params if p.dtype is None}
        try:
            candidate = bind(routine, sizes)
        except UsageProblem:
            continue
        if all(a.extent.value != 1 for s in statements(candidate) for a in s.axes):
            bound.append(candidate)
    return bound


@pytest.mark.parametrize("name", KERNELS)
def test_what_holds_for_all_sizes_holds_for_each(name: str) -> None:
    routine = shipped(name)
    for text in (MATRIX, VECTOR, DOT, UNIT, WINDOW):
        pattern = instruction(text)
        always = found(pattern, routine)
        for bound in draws(routine, 2):
            assert always <= found(pattern, bound)


def test_sizes_may_allow_more_than_all_sizes_do() -> None:
    pattern, routine = instruction(MATRIX), shipped("conv2d_transposed_strided")
    sizes = {"N": 2, "C": 2, "K": 2, "H": 3, "W": 3, "R": 2, "S": 2, "stride": 2}
    assert found(pattern, routine) < found(pattern, bind(routine, sizes))


def test_a_blocked_layout_changes_no_count() -> None:
    text = """kernel blocked(N, K, C, P, Q, R, S) where K % 16 == 0, C % 16 == 0 {
      in X: f32[N, C/16, P + R, Q + S, 16];
      in F: f32[K/16, C/16, R, S, 16, 16];
      inout Y: f32[N, K/16, P, Q, 16];
      for n in N, k in K, p in P, q in Q, c in C, r in R, s in S {
        Y[n, k/16, p, q, k%16] += X[n, c/16, p + r, q + s, c%16] * F[k/16, c/16, r, s, c%16, k%16];
      }
    }"""
    blocked = parse_kernel(Source("blocked.ir", text))
    assert len(found(instruction(MATRIX), blocked)) == len(found(instruction(MATRIX), shipped("conv2d_nchw")))
    halved = parse_kernel(Source("blocked.ir", text.replace("k%16] +=", "k%8] +=")))
    assert {kind for _, kind, _ in found(instruction(MATRIX), halved)} == {"degenerate"}  # k and k + 8 meet
