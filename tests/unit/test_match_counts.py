"""How many mappings there are, by the definition of §5 of the design."""

from __future__ import annotations

import pytest
from unit.matching import DOT, MATRIX, PAIRS, VECTOR, counts, instruction, kernel, mappings, shipped

from isamap.ir import bind

GROUPED = """
  for n in N, g in G, k in K, p in P, q in Q, c in C, r in R, s in S {
    Y[n, g, k, p, q] += X[n, g, c, p + 2*r, q + 2*s] * F[g, k, c, r, s];
  }
"""


@pytest.mark.parametrize(
    ("name", "statement", "complete", "fixed"),
    [
        ("gemm_f32", 0, 2, 1),
        ("gemm_nt_f32", 0, 2, 1),
        ("gemm_tn_f32", 0, 2, 1),
        ("conv1d", 0, 18, 9),
        ("conv2d_nchw", 0, 98, 49),
        ("conv2d_nhwc", 0, 98, 49),
        ("pointwise", 0, 14, 7),
        ("attention_scores", 1, 2, 1),
    ],
)
def test_a_matrix_product_takes_whole_axes(name: str, statement: int, complete: int, fixed: int) -> None:
    product, routine = instruction(MATRIX), shipped(name)
    assert counts(product, routine, statement) == (complete, 0, 0)
    assert counts(product, routine, statement, mode="fixed") == (fixed, 0, 0)


def test_dilation_and_groups_change_nothing() -> None:
    params = ", ".join("NGKPQCRS")
    operands = """
      in X: f32[N, G, C, P + 2*R - 2, Q + 2*S - 2];
      in F: f32[G, K, C, R, S];
      inout Y: f32[N, G, K, P, Q];
    """
    routine = kernel(operands, GROUPED, params)
    assert counts(instruction(MATRIX), routine) == (98, 0, 0)
    assert counts(instruction(MATRIX), routine, mode="fixed") == (49, 0, 0)


def test_an_axis_without_a_place_makes_a_mapping_degenerate() -> None:
    assert counts(instruction(MATRIX), shipped("depthwise")) == (0, 0, 42)
    assert counts(instruction(MATRIX), shipped("depthwise"), mode="fixed") == (0, 0, 21)


@pytest.mark.parametrize(("name", "count"), [("gemm_f32", 3), ("conv2d_nchw", 15)])
def test_a_vector_takes_any_axes_of_the_output(name: str, count: int) -> None:
    assert counts(instruction(VECTOR), shipped(name)) == (count, 0, 0)


def test_a_dot_product_takes_any_axes_that_are_summed() -> None:
    assert counts(instruction(DOT), shipped("conv2d_nchw")) == (7, 0, 0)


def test_a_class_of_axes_is_cut_together() -> None:
    assert counts(instruction(PAIRS), shipped("gemm_bf16_f32")) == (0, 2, 0)
    assert counts(instruction(PAIRS), shipped("gemm_bf16_f32"), mode="fixed") == (0, 1, 0)


def test_axes_of_one_element_do_not_count() -> None:
    sizes = {"N": 1, "C": 8, "K": 8, "H": 7, "W": 7, "R": 3, "S": 3}
    # p, q or both on i, and c, r, s in seven ways on k; n stays out.
    assert counts(instruction(MATRIX), bind(shipped("conv2d_nchw"), sizes)) == (2 * 3 * 7, 0, 0)


def test_a_mapping_says_what_stands_for_what() -> None:
    names = [m.ident for m in mappings(instruction(MATRIX), shipped("gemm_f32"))]
    assert names == [
        "mma { i: m, j: n, k: k } (a = A[m, k], b = B[k, n])",
        "mma { i: n, j: m, k: k } (a = B[k, n], b = A[m, k])",
    ]


def test_operands_that_commute_give_one_mapping() -> None:
    routine = kernel(
        "in A: f32[N]; in B: f32[N]; inout C: f32[N];", "for i in N { C[i] += A[i] * B[i]; }", "N"
    )
    assert counts(instruction(VECTOR), routine) == (1, 0, 0)
