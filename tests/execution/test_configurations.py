"""Registers whose shapes a configuration gives: one for the whole program, or one for each nest."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.lower.program import Block, Configure
from isamap.source import Source

PRODUCTS = """
kernel products(M, R, N, K) {
  in A: bf16[M, K];
  in D: bf16[R, K];
  in B: bf16[K, N];
  inout C: f32[M, N];
  inout E: f32[R, N];
  for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }
  for m in R, n in N, k in K { E[m, n] += f32(D[m, k]) * f32(B[k, n]); }
}
"""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (32, [False, True]),
        (13, [False, True, False, True]),  # tiles of 16 rows take all registers
    ],
)
def test_nests_whose_tiles_do_not_go_together_have_a_configuration_each(
    rows: int, expected: list[bool]
) -> None:
    sizes = {"M": 32, "R": rows, "N": 32, "K": 256}
    fixed = {"nest0.unroll.m": 2, "nest0.unroll.n": 2, "nest1.unroll.n": 2, "nest1.unroll.k": 2}
    text = Source("products.ir", PRODUCTS)
    asked = Request(text, "x86-amx", sizes, heuristic="greedy", fixed=fixed, model=True, cache=False)
    found = prepare(asked)
    lowered = found.program.compilation.program
    assert lowered is not None
    inside = [n for node in lowered.body for n in (node.body if isinstance(node, Block) else (node,))]
    assert [node.release for node in inside if isinstance(node, Configure)] == expected
    assert not [d.render() for case in all_cases(found, ("random",), guard=True) for d in case.problems]
