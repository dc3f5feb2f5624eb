"""Elements of an issue stand for the kernel's elements one by one, or there is no mapping."""

from __future__ import annotations

import pytest
from unit.matching import DOT, MATRIX, VECTOR, counts, instruction, kernel, mappings

from isamap.ir import Kernel
from isamap.match import Mapping, Pattern

WINDOW = """instruction window() {
  inout c: f32[8] @ reg;
  in a: f32[10] @ reg;
  in b: f32[3] @ reg;
  for p in 8, r in 3 { c[p] += a[p + r] * b[r]; }
}"""

OUTER = """instruction outer() {
  inout c: f32[4, 4] @ reg;
  in a: f32[4] @ reg;
  in b: f32[4] @ reg;
  for i in 4, j in 4 { c[i, j] += a[i] * b[j]; }
}"""


def whole(pattern: Pattern, routine: Kernel) -> list[Mapping]:
    return [m for m in mappings(pattern, routine) if m.kind == "whole"]


POLYNOMIALS = "in A: f32[20]; in B: f32[20]; inout Y: f32[99];"


@pytest.mark.parametrize("target", ["i + j", "2*i + j", "i + 3*j", "i - j + 20"])
def test_an_issue_writes_no_element_twice(target: str) -> None:
    routine = kernel(POLYNOMIALS, f"for i in 12, j in 12 {{ Y[{target}] += A[i] * B[j]; }}")
    assert counts(instruction(OUTER), routine) == (0, 0, 0)
    assert [m.axes for m in mappings(instruction(VECTOR), routine)] == [{"i": ("j",)}, {"i": ("i",)}]


def test_lanes_too_few_to_reach_the_same_element_again_do_not_meet_in_it() -> None:
    # i + 1 and j - 1 is 19 iterations further, and 16 lanes reach 15; one axis inside the other, either way
    routine = kernel(POLYNOMIALS, "for i in 20, j in 20 { Y[i + j] += A[i] * B[j]; }")
    assert {m.axes["i"] for m in mappings(instruction(VECTOR), routine)} == {("i",), ("j",), ("i", "j")}


@pytest.mark.parametrize("target", ["20*i + j", "20*j + i", "21*i + 1 + j", "i - 20*j + 400"])
def test_axes_that_a_subscript_tells_apart_are_apart(target: str) -> None:
    operands = "in A: f32[20]; in B: f32[20]; inout Y: f32[999];"
    routine = kernel(operands, f"for i in 20, j in 20 {{ Y[{target}] += A[i] * B[j]; }}")
    assert counts(instruction(OUTER), routine)[0] == 2
    assert {m.axes["i"] for m in mappings(instruction(VECTOR), routine)} == {("i",), ("j",), ("i", "j")}


def test_a_second_subscript_may_tell_axes_apart() -> None:
    operands = "in A: f32[8]; in B: f32[9]; inout Y: f32[8, 16];"
    routine = kernel(operands, "for i in 8, j in 9 { Y[i, i + j] += A[i] * B[j]; }")
    assert counts(instruction(OUTER), routine)[0] == 2


def test_axes_summed_into_one_element_are_output_axes_all_the_same() -> None:
    routine = kernel(POLYNOMIALS, "for i in 20, j in 20 { Y[i + j] += A[i] * B[j]; }")
    assert [(m.kind, m.empty) for m in mappings(instruction(DOT), routine)] == [("degenerate", ("k",))]


def test_an_instruction_that_reads_a_window_performs_a_convolution() -> None:
    routine = kernel(
        "in X: f32[22]; in F: f32[3]; inout Y: f32[20];",
        "for p in 20, r in 3 { Y[p] += X[p + r] * F[r]; }",
    )
    assert [m.ident for m in whole(instruction(WINDOW), routine)] == [
        "window { p: p, r: r } (a = X[p + r], b = F[r])"
    ]


@pytest.mark.parametrize("read", ["2*p + r", "p + 2*r", "p + r / 2", "p - r + 2"])
def test_a_window_that_moves_otherwise_is_another_window(read: str) -> None:
    routine = kernel(
        "in X: f32[99]; in F: f32[3]; inout Y: f32[20];",
        f"for p in 20, r in 3 {{ Y[p] += X[{read}] * F[r]; }}",
    )
    assert whole(instruction(WINDOW), routine) == []


def test_a_window_in_steps_of_the_same_length_is_the_same_window() -> None:
    routine = kernel(
        "in X: f32[99]; in F: f32[3]; inout Y: f32[20];",
        "for p in 20, r in 3 { Y[p] += X[2*p + 2*r + 1] * F[r]; }",
    )
    assert len(whole(instruction(WINDOW), routine)) == 1


def test_a_window_does_not_move_over_fused_axes() -> None:
    routine = kernel(
        "in X: f32[4, 22]; in F: f32[3]; inout Y: f32[4, 20];",
        "for n in 4, p in 20, r in 3 { Y[n, p] += X[n, p + r] * F[r]; }",
    )
    assert [m.axes["p"] for m in whole(instruction(WINDOW), routine)] == [("p",)]


def test_a_window_of_a_matrix_product_is_gathered() -> None:
    routine = kernel(
        "in X: f32[22, 8]; in F: f32[3, 8, 9]; inout Y: f32[20, 9];",
        "for p in 20, k in 9, c in 8, r in 3 { Y[p, k] += X[p + r, c] * F[r, c, k]; }",
    )
    assert {m.axes["k"] for m in mappings(instruction(MATRIX), routine)} == {("c",), ("r",), ("c", "r")}
