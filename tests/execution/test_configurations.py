"""Registers whose shapes a configuration gives: one for the whole program, or one for each nest."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.ir import DTYPES
from isamap.lower.program import Block, Configure, Declare, Issue, RegisterRef, Value
from isamap.lower.registers import number_registers
from isamap.machine import load_machine
from isamap.source import Infeasible, Source

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


GATES = """
kernel gates(G, M, N, K) {
  in A: bf16[M, K];
  in U: bf16[G, K, N];
  inout C: f32[G, M, N];
  for g in G, m in M, n in N, k in K { C[g, m, n] += f32(A[m, k]) * f32(U[g, k, n]); }
}
"""


def test_tiles_that_a_remainder_shares_are_brought_once() -> None:
    """Six sums, one tile of A for whole and narrow tiles of U, one of U: eight registers."""
    sizes = {"G": 2, "M": 5, "N": 37, "K": 37}
    fixed = {"nest0.unroll.g": 2, "nest0.unroll.m": 1, "nest0.unroll.n": 3}
    text = Source("gates.ir", GATES)
    asked = Request(text, "x86-amx", sizes, heuristic="greedy", fixed=fixed, model=True, cache=False)
    found = prepare(asked)
    assert not [d.render() for case in all_cases(found, ("random",), guard=True) for d in case.problems]


def test_more_values_than_registers_are_refused_where_they_are() -> None:
    values = tuple(Value(f"v{n}", "tmm", DTYPES["f32"], (16, 16)) for n in range(9))
    used = Issue("tdpbf16ps", tuple((v.name, RegisterRef(v.name)) for v in values), ())
    nest = Block("C[m, n] += 1;", (Declare(values), used))
    with pytest.raises(Infeasible) as refused:
        number_registers((nest,), load_machine("x86-amx"))
    (said,) = refused.value.diagnostics
    assert said.message == "more values are alive at once than `tmm` has registers (8)"
    assert said.notes == ("in the nest of `C[m, n] += 1;`",)
    assert said.help == "unroll fewer tiles of that nest: `--fix nest0.unroll.m=1` for axis m of nest 0"
