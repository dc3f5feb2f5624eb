"""Register blocks that a guard leaves nothing to do are not performed."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.lower.program import Block, For, If, Node, Parallel
from isamap.machine import load_machine, missing_features
from isamap.source import Source

GUARDED = {
    "beyond": "seq k in N { for i in N, r in R if i > k { B[i, r] += -L[i, k] * B[k, r]; } }",
    "before": "seq k in N { for i in N, r in R if k > i { B[i, r] += L[i, k] * B[k, r]; } }",
    "two ends": "seq k in N { for i in N, r in R if i > k & i <= k + 3 { B[i, r] += L[i, k] * B[k, r]; } }",
    "equal": "seq k in N { for i in N, r in R if 2 * i == k { B[i, r] += L[i, k] * X[k, r]; } }",
    "a lane": "for i in N, r in R, k in N if k <= r { B[i, r] += L[i, k] * X[k, r]; }",
    "all axes": "for i in N, r in R, k in N if i + k < r { B[i, r] += L[i, k] * X[k, r]; }",
    "a maximum": "for i in N, r in R, k in N if k <= i { B[i, r] max= L[i, k] * X[k, r]; }",
    "begun anew": """for i in N, r in R { B[i, r] = 0; }
        for i in N, r in R, k in N if k < i { B[i, r] += L[i, k] * X[k, r]; }""",
    "a triangle": "for i in N, r in R, k in N if r <= i { B[i, r] += L[i, k] * X[k, r]; }",
    "triangles in order": """seq t in N { for i in N, r in R, k in N if r + t <= i & t < 3 {
        B[i, r] += L[i, k] * X[k, r]; } }""",
    "seen twice": """for i in N, r in R { t[i, r] = 1; }
        for i in N, r in R, k in N { t[i, r] += L[i, k] * X[k, r]; }
        for i in N, r in R { B[i, r] = select(r <= i, t[i, r], 0); }
        for i in N, r in R { B[i, r] += select(r == i + 1, t[i, r], 0); }""",
    "seen once": """for i in N, r in R { t[i, r] = 1; }
        for i in N, r in R, k in N { t[i, r] += L[i, k] * X[k, r]; }
        for r in R, i in N { B[i, r] = select(r == i + 1, t[i, r], 0); }""",
    "one row": "for i in N, r in R, k in N if k + 7 < i { B[i, r] += L[i, k] * X[k, r]; }",
}


def source(name: str) -> Source:
    body = GUARDED[name]
    temp = "temp t: f32[N, R];" if "t[i" in body else ""
    operands = f"in L: f32[N, N]; in X: f32[N, R]; inout B: f32[N, R]; {temp}"
    return Source("k.ir", f"kernel k(N, R) {{ {operands} {body} }}")


def choices(nodes: tuple[Node, ...]) -> list[If]:
    """Return all conditions of a program, the outermost first."""
    found: list[If] = []
    for node in nodes:
        if isinstance(node, If):
            found.append(node)
        if isinstance(node, For | If | Block | Parallel):
            found += choices(node.body)
    return found


def conditions_of(name: str, machine: str) -> list[str]:
    sizes: dict[str, Size] = {"N": 48, "R": 64}
    program = compile_kernel(Request(source(name), machine, sizes, heuristic="greedy"), "lower").program
    assert program is not None
    return [f"{left} {sign} {right}" for c in choices(program.body) for left, sign, right in c.conditions]


def test_a_block_beyond_the_guard_is_skipped() -> None:
    assert conditions_of("equal", "x86-avx2") == [
        "14*i0 - k <= 0", "0 <= 14*i0 - k + 12", "-k + 84 <= 0", "0 <= -k + 94",
    ]  # fmt: skip
    assert conditions_of("one row", "x86-avx2") == ["-7*i0 + 1 < 0"]


def test_loops_begin_and_end_where_a_guard_by_an_ordered_axis_says() -> None:
    assert all("i0" not in c for name in ("beyond", "before") for c in conditions_of(name, "x86-avx2"))


def test_what_a_block_takes_along_is_not_skipped_and_nothing_that_always_runs() -> None:
    assert conditions_of("begun anew", "x86-avx2") == []
    assert conditions_of("a lane", "x86-avx2") == []
    assert conditions_of("seen twice", "x86-avx2") == []


def test_a_block_that_is_never_looked_at_is_skipped() -> None:
    assert any("i" in c and "r" in c for c in conditions_of("a triangle", "x86-avx2"))
    # Where vectors compare indices, the select is fused with the sum and writes all elements.
    assert any("i" in c and "r" in c for c in conditions_of("seen once", "loongarch-lasx"))
    assert conditions_of("seen once", "x86-avx2") == []


@pytest.mark.exhaustive(fast=6)
@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("sizes", [{"N": 23, "R": 40}, {"N": "1..40@23", "R": "1..40@16"}], ids=str)
@pytest.mark.parametrize("name", GUARDED)
def test_what_is_left_is_right(name: str, sizes: dict[str, Size], machine: str) -> None:
    if missing := missing_features(load_machine(machine)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    prepared = prepare(Request(source(name), machine, sizes, heuristic="greedy"))
    for case in all_cases(prepared, ("integers", "edges"), guard=True):
        assert not [d.render() for d in case.problems]
