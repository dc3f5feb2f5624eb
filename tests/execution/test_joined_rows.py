"""Filters [K, C, R] packed by transpositions along C and R at once, where their loops stand in that order."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.lower.walk import issued_names
from isamap.machine import load_machine, missing_features
from isamap.source import Source

TEXT = """kernel filtered(K, C, R, P) {
  in X: f32[C, R, P];
  in F: f32[K, C, R]STRIDES;
  inout Y: f32[P, K];
  for p in P, k in K, c in C, r in R { Y[p, k] += X[c, r, p] * F[k, c, r]; }
}"""
DENSE = " strides(any, R, 1)"
SCHEDULE = """isamap schedule 1
kernel filtered
machine x86-avx512
sizes C = {C}, K = {K}, P = {P}, R = {R}
status MANUAL

nest 0 {{
  map fma_zmm_f32 {{ i: k }} (a = X[c, r, p], b = F[k, c, r]);
  {loops}
}}
"""
INSIDE = "for p by 1 { hold; for c by 1 { for r by 1 { issue; } } }"
TURNED = "for p by 1 { hold; for r by 1 { for c by 1 { issue; } } }"
BLOCK, SMALLER = "transpose16_f32", {"transpose8_f32", "transpose4_f32"}


def performed(loops: str, sizes: Mapping[str, int], strides: str = DENSE, threads: int = 1) -> set[str]:
    """Return the instructions of a program that is right."""
    if missing := missing_features(load_machine("x86-avx512")):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    text = Source("filtered.ir", TEXT.replace("STRIDES", strides))
    schedule = Source("s.schedule", SCHEDULE.format(loops=loops, **sizes))
    prepared = prepare(Request(text, "x86-avx512", {**sizes}, schedule=schedule, threads=threads))
    program = prepared.program.compilation.program
    assert program is not None
    cases = list(all_cases(prepared, ("integers", "random"), guard=True))
    assert len(cases) == 2
    assert not [d.render() for case in cases for d in case.problems]
    return set(issued_names(program.body))


SIZES = {"K": 20, "C": 13, "R": 3, "P": 2}  # 39 elements a filter: two blocks of 16, one of 4, three alone


@pytest.mark.hardware
@pytest.mark.parametrize(
    "loops",
    [
        f"for k by 16 {{ stage b; {INSIDE} }}",
        f"stage b; for k by 16 {{ {INSIDE} }}",
        f"for c by 6 {{ for k by 16 {{ stage b; {INSIDE} }} }}",
        f"for k by 16 {{ stage b; for c by 6 {{ {INSIDE} }} }}",
        f"for k by 16 {{ stage b; for c by 6 {{ for r by 3 {{ {INSIDE} }} }} }}",
        f"for k by 32 {{ stage b; {INSIDE.replace('issue;', 'unroll k by 16 { issue; }')} }}",
    ],
)
def test_loops_along_a_long_row_are_packed_in_blocks(loops: str) -> None:
    assert BLOCK in performed(loops, SIZES)


@pytest.mark.hardware
def test_what_blocks_leave_over_takes_smaller_ones() -> None:
    used = performed(f"for k by 16 {{ stage b; {INSIDE} }}", SIZES)
    assert used & SMALLER
    # A row of no whole block.
    used = performed(f"for k by 16 {{ stage b; {INSIDE} }}", {"K": 16, "C": 3, "R": 5, "P": 1})
    assert BLOCK not in used
    assert used >= SMALLER


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("loops", "strides"),
    [
        # Another order, a part of each row, loops between, rows that the caller may put anywhere.
        (f"for k by 16 {{ stage b; {TURNED} }}", DENSE),
        (f"for r by 2 {{ for k by 16 {{ stage b; {INSIDE} }} }}", DENSE),
        ("for c by 1 { stage b; for k by 16 { for p by 1 { hold; for r by 1 { issue; } } } }", DENSE),
        (f"for k by 16 {{ stage b; for r by 2 {{ {INSIDE} }} }}", DENSE),
        (f"for k by 16 {{ stage b; {INSIDE} }}", ""),
    ],
)
def test_others_are_packed_one_by_one(loops: str, strides: str) -> None:
    assert BLOCK not in performed(loops, SIZES, strides)


@pytest.mark.hardware
def test_threads_share_filters() -> None:
    loops = f"par k by 32 {{ for k by 16 {{ stage b; {INSIDE} }} }}"
    used = performed(loops, {"K": 64, "C": 13, "R": 3, "P": 2}, threads=2)
    assert BLOCK in used
