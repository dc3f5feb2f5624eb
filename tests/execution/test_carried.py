"""Recurrences along rows, carried in registers, are right: natively, in models, on threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.source import Source

STEPS = {
    "sum": "y[m, n + 2] = y[m, n + 1] + x[m, n];",
    "backwards": "y[m, N - 3 - n] = 0.5 * y[m, N - 2 - n] + x[m, n];",
    "twice": "y[m, n + 2] = max(y[m, n + 1], x[m, n]) - 0.5 * y[m, n + 1];",
    "second order": "y[m, n + 2] = 0.5 * y[m, n + 1] - 0.25 * y[m, n] + x[m, n];",
}
ROUNDED = """kernel rounded(T, B, M, N) {
  in x: bf16[B, M, N];
  in a: f32[M];
  inout y: bf16[T, B, M, N];
  seq t in T - 1 {
    for b in B, m in M { y[t + 1, b, m, 0] = y[t, b, m, 0]; }
    for b in B, m in M {
      seq n in N - 1 { y[t + 1, b, m, n + 1] = bf16(a[m] * tanh(f32(y[t + 1, b, m, n])) + f32(x[b, m, n])); }
    }
  }
}
"""


FILLS = ("integers", "random")


def problems(request: Request) -> list[str]:
    prepared = prepare(request)
    schedule = prepared.program.compilation.schedule
    assert schedule is not None
    assert [nest.carried for nest in schedule.nests][-1] == "n"
    return [d.render() for case in all_cases(prepared, FILLS, guard=True) for d in case.problems]


def recurrence(step: str, hw: str) -> Request:
    text = f"""kernel k(M, N) where N >= 3 {{
      in x: f32[M, N];
      inout y: f32[M, N];
      for m in M {{ seq n in N - 2 {{ {step} }} }}
    }}"""
    return Request(Source("k.ir", text), hw, {"M": 13, "N": 21}, heuristic="greedy", cache=False)


@pytest.mark.exhaustive(fast=5)
@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_recurrences_along_rows_are_right(hw: str, step: str) -> None:
    assert problems(recurrence(step, hw)) == []


def test_models_and_threads_carry_the_same() -> None:
    assert problems(replace(recurrence(STEPS["twice"], "generic-c"), model=True)) == []
    assert problems(replace(recurrence(STEPS["sum"], "x86-avx2"), threads=2)) == []


def test_sizes_that_only_the_run_knows_are_carried_through() -> None:
    request = recurrence(STEPS["sum"], "generic-c")
    assert problems(replace(request, sizes={"M": "1..40@17", "N": "3..30@20"})) == []


def test_what_is_carried_is_rounded_each_time() -> None:
    request = Request(Source("k.ir", ROUNDED), "generic-c", {"T": 3, "B": 2, "M": 5, "N": 9}, cache=False)
    assert problems(request) == []
