"""Strips that go through ordered loops: taken for elementwise state, left where they are dearer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.run.fills import FILLS
from isamap.source import Source

STEPS = """kernel steps(T, N) {
  in push: f32[T, N];
  inout x: f32[N];
  inout v: f32[N];
  temp a: f32[N];
  temp b: f32[N];
  seq t in T {
    for n in N { a[n] = sin(x[n]); }
    for n in N { b[n] = cos(x[n]); }
    for n in N { v[n] = v[n] + a[n] * push[t, n] - a[n] * b[n]; }
    for n in N { x[n] = x[n] + b[n] * v[n] + a[n]; }
  }
}"""
SIZES = {"T": 16, "N": 2048}
MACHINE = "x86-avx512"


def chosen(text: str, sizes: dict[str, int], **changes: object) -> tuple[tuple[str, int], ...]:
    request = Request(Source("steps.ir", text), MACHINE, sizes, heuristic="greedy", transform=BEST_FORM)
    problem = compile_kernel(replace(request, **changes), "formulate").problem
    assert problem
    return problem.blocks


def test_what_statements_and_turns_pass_on_takes_half_of_the_registers() -> None:
    assert chosen(STEPS, SIZES) == (("n", 16 * (32 // 2 // 4)),)


def test_all_axes_but_the_innermost_are_cut_one_by_one() -> None:
    text = STEPS.replace("[N]", "[M, N]").replace("[T, N]", "[T, M, N]").replace("(T, N)", "(T, M, N)")
    text = text.replace("for n", "for m in M, n").replace("[n]", "[m, n]").replace("[t, n]", "[t, m, n]")
    assert chosen(text, SIZES | {"M": 3}) == (("m", 1), ("n", 64))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (STEPS, {"T": 16, "N": 64}),
        (STEPS.replace("a[n] = sin(x[n])", "a[n] = (x[n + 1] else 0)"), SIZES),
        (STEPS.replace("  }\n}", "    for n in N { v[0] += x[n]; }\n  }\n}"), SIZES),
        ("kernel k(T, N) { inout x: f32[N]; seq t in T { for n in N { x[n] = x[n] * x[n]; } } }", SIZES),
    ],
    ids=["no longer than a strip", "a neighbour is read", "a sum", "one statement"],
)
def test_other_kernels_stay_whole(text: str, sizes: dict[str, int]) -> None:
    assert chosen(text, sizes) == ()


def test_strips_that_threads_cannot_share_are_dearer() -> None:
    sizes = {"T": 16, "N": 1 << 16}
    assert chosen(STEPS, sizes) == (("n", 64),)
    assert chosen(STEPS, sizes, threads=2) == ()


@pytest.mark.parametrize("count", [130, 192])
@pytest.mark.parametrize("hw", ["generic-c", "x86-avx512"])
def test_strips_compute_what_the_kernel_says(hw: str, count: int) -> None:
    request = Request(
        Source("steps.ir", STEPS), hw, {"T": 3, "N": count}, heuristic="greedy", transform=BEST_FORM
    )
    assert all(case.ok for case in all_cases(prepare(request), FILLS, guard=True))
