"""Copies in front of ordered loops whose iterations would make them alike."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.formulate.frame import Frame
from isamap.formulate.matches import tiles_of
from isamap.formulate.option import option_of
from isamap.ir import bind
from isamap.lower.program import Block, For, Node
from isamap.machine import load_machine
from isamap.source import Source
from isamap.syntax import parse_kernel

HEAD = (
    "kernel steps(T, N, H) {{ in X: f32[T, N, H]; {} U: f32[T, H, H];inout h: f32[N, H]; temp x: f32[N, H];"
)
FILL = "for n in N, j in H { x[n, j] = X[t, n, j]; }"
SUM = "for n in N, j in H, k in H { x[n, j] += h[n, k] * U[%s, j, k]; }"
STATE = "for n in N, j in H { h[n, j] = max(x[n, j], 0) / 16; }"
CHANGE = "for j in H { U[0, j, 0] = 1; }"
SIZES = {"T": 3, "N": 5, "H": 7}


def request(body: str, hw: str = "generic-c") -> Request:
    fixed = {"nest1.stage.b": 2, "nest1.fuse.0": 0}
    head = HEAD.format("inout" if CHANGE in body else "in")
    return Request(Source("steps.ir", f"{head} {body} }}"), hw, SIZES, heuristic="greedy", fixed=fixed)


def places(body: tuple[Node, ...], depth: int = 0) -> list[int]:
    """In how many ordered loops each copy of an input stands."""
    found: list[int] = []
    for node in body:
        if isinstance(node, Block) and node.is_copy:
            found.append(depth)
        elif isinstance(node, For | Block):
            found += places(node.body, depth + isinstance(node, For))
    return found


@pytest.mark.parametrize(
    ("body", "depths"),
    [
        (f"seq t in T {{ {FILL} {SUM % '0'} {STATE} }}", [0]),
        (f"seq s in 2, t in T {{ {FILL} {SUM % '0'} {STATE} }}", [0]),
        (f"seq t in T {{ {FILL} {SUM % 't'} {STATE} }}", [1]),
        (f"seq s in T, t in T {{ {FILL} {SUM % 's'} {STATE} }}", [1]),
        (f"seq t in T {{ {FILL} {SUM % '0'} {STATE} {CHANGE} }}", [1]),
    ],
    ids=["one loop", "two loops", "moved by the loop", "moved by the outer loop", "changed in the loop"],
)
def test_a_copy_stands_in_front_of_loops_that_make_it_alike(body: str, depths: list[int]) -> None:
    program = compile_kernel(request(body)).program
    assert program
    assert places(program.body) == depths
    assert all(case.ok for case in all_cases(prepare(request(body)), ("integers",), guard=True))


@pytest.mark.parametrize(("index", "turns"), [("0", 3), ("t", 1)])
def test_a_copy_that_serves_all_iterations_is_paid_once(index: str, turns: int) -> None:
    problem = compile_kernel(request(f"seq t in T {{ {FILL} {SUM % index} {STATE} }}"), "formulate").problem
    assert problem
    operands = [o for n in problem.nests for option in n.options for o in option.operands]
    served = {
        name: max(o.staging.iterations_of_copy for o in operands if o.tensor == name) for name in ("U", "h")
    }
    assert (served["U"], served["h"]) == (turns, 1)


@pytest.mark.parametrize("prices_copies", [True, False], ids=["whole", "outline"])
def test_what_a_copy_serves_is_known_of_outlines_too(prices_copies: bool) -> None:
    kernel = bind(parse_kernel(request(f"seq t in T {{ {FILL} {SUM % '0'} {STATE} }}").kernel), SIZES)
    frame = Frame.of(kernel, load_machine("x86-avx512"), SIZES, 1)
    tile = next(t for t in tiles_of(frame.matches[1], frame.search.machine) if t.mapping.instruction)
    option = option_of(tile, frame.search, kernel, SIZES, prices_copies=prices_copies)
    assert option is not None
    assert max(operand.staging.iterations_of_copy for operand in option.operands) == 3


SCRATCHPADS = """
kernel layers(T, M, N, K) {
  in A: i8[M, K];
  in B: i8[K, N];
  in D: i8[K, N];
  inout C: i32[M, N];
  inout E: i32[M, N];
  seq t in T {
    for m in M, n in N, k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); }
    for m in M, n in N, k in K { E[m, n] += i32(A[m, k]) * i32(D[k, n]); }
  }
}
"""


def test_copies_into_scratchpads_stay_where_other_nests_use_the_same_addresses() -> None:
    asked = Request(
        Source("layers.ir", SCRATCHPADS),
        "systolic-16",
        {"T": 2, "M": 32, "N": 32, "K": 32},
        heuristic="greedy",
        fixed={"nest0.stage.b": 2, "nest1.stage.b": 2},
    )
    program = compile_kernel(asked).program
    assert program
    assert not any(isinstance(node, Block) for node in program.body)
    assert all(case.ok for case in all_cases(prepare(asked), ("integers",), guard=True))
