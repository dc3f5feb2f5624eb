"""How many mappings there are, by the definition of docs/matching.md."""

from __future__ import annotations

from collections import Counter

import pytest
from unit.matching import DOT, MATRIX, PAIRS, VECTOR, counts, instruction, kernel, mappings, shipped

from isamap.ir import bind
from isamap.machine import load_machine
from isamap.match.mappings.enumerate import find_in_statement, find_mappings
from isamap.transform import statements

GEMV = """instruction gemv() {
  inout c: f32[16] @ reg;
  in a: f32[16] @ reg;
  in b: f32[16, 16] @ reg;
  for i in 16, k in 16 { c[i] += a[k] * b[i, k]; }
}"""

CONVOLVER = """instruction convolve() {
  inout c: f32[8, 8, 8] @ reg;
  in a: f32[8, 8, 8] @ reg;
  in b: f32[8, 8] @ reg;
  for k in 8, p in 8, q in 8, r in 8 { c[k, p, q] += a[r, p, q] * b[k, r]; }
}"""

FLAT = """instruction flat() {
  inout c: f32[8, 32] @ reg;
  in a: f32[8, 16] @ reg;
  in b: f32[16, 32] @ reg;
  for i in 8, j in 32, k in 16 { c[i, j] += a[i, k] * b[k, j]; }
}"""

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
        ("conv2d_grouped", 0, 98, 49),
        ("conv2d_dilated", 0, 98, 49),
        ("conv2d_transposed", 0, 98, 49),
        ("pointwise", 0, 14, 7),
        ("conv3d", 0, 450, 225),
        ("depthwise_multiplier", 0, 42, 21),
        ("depthwise_separable", 2, 14, 7),
        ("three_gates", 0, 6, 3),
        ("attention_scores", 1, 2, 1),
        ("attention_scores_mqa", 1, 6, 3),
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


def test_a_product_of_matrix_and_vector_takes_rows_of_either_operand() -> None:
    assert counts(instruction(GEMV), shipped("conv2d_nchw")) == (56, 0, 0)
    assert counts(instruction(GEMV), shipped("conv2d_nchw"), mode="fixed") == (7, 0, 0)


def test_axes_of_one_signature_share_kernel_axes_or_have_their_own() -> None:
    found = mappings(instruction(CONVOLVER), shipped("conv2d_nchw"))
    whole = [m for m in found if m.kind == "whole"]
    assert len(whole) == 12 * 7  # n, p and q on two axes, c, r and s on the third
    assert counts(instruction(CONVOLVER), shipped("conv2d_nchw")) == (84, 49 + 49, 0)
    for m in found:
        placed = [x for g in m.groups for x in g.kernel_axes]
        assert len(placed) == len(set(placed))


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


# --- amos -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gemm_f32", 1),
        ("conv1d", 6),
        ("conv2d_nchw", 35),
        ("conv2d_nhwc", 35),
        ("conv2d_grouped", 35),
        ("conv2d_dilated", 35),
        ("pointwise", 7),
        ("conv3d", 180),
        ("conv2d_transposed", 7),  # taps run backwards: they are on no axis
        ("depthwise_multiplier", 11),
        ("depthwise", 0),
    ],
)
def test_the_rule_of_amos_gives_its_published_counts(name: str, count: int) -> None:
    assert counts(instruction(MATRIX), shipped(name), mode="amos") == (count, 0, 0)


@pytest.mark.parametrize("machine", ["nvidia-sm80", "nvidia-sm90", "amd-rdna3"])
def test_matrix_instructions_of_gpus_have_the_counts_that_amos_published(machine: str) -> None:
    described = load_machine(machine)
    gemm = kernel(
        "in A: f16[M, K]; in B: f16[K, N]; inout C: f32[M, N];",
        "for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }",
        "M, N, K",
    )
    convolution = kernel(
        "in X: f16[N, C, P + R, Q + S]; in F: f16[K, C, R, S]; inout Y: f32[N, K, P, Q];",
        """for n in N, k in K, p in P, q in Q, c in C, r in R, s in S {
          Y[n, k, p, q] += f32(X[n, c, p + r, q + s]) * f32(F[k, c, r, s]);
        }""",
        "N, K, P, Q, C, R, S",
    )
    for routine, count in ((gemm, 1), (convolution, 35)):
        found = [
            described.instructions[m.instruction].instruction
            for m in find_mappings(routine, described, "amos")
        ]
        by_matrices = Counter(one.name for one in found if all(len(o.shape) == 2 for o in one.operands))
        assert by_matrices, "the machine multiplies matrices of f16"
        # Products of tf32 are right for f16, too: its numbers are numbers of tf32.
        assert set(by_matrices.values()) == {count}, by_matrices


def test_amos_counts_a_batched_convolution() -> None:
    routine = kernel(
        "in X: f32[N, C, P + R, Q + S]; in F: f32[N, K, C, R, S]; inout Y: f32[N, K, P, Q];",
        """for n in N, k in K, p in P, q in Q, c in C, r in R, s in S {
          Y[n, k, p, q] += X[n, c, p + r, q + s] * F[n, k, c, r, s];
        }""",
        "N, K, P, Q, C, R, S",
    )
    assert counts(instruction(MATRIX), routine, mode="amos") == (11, 0, 0)
    assert counts(instruction(MATRIX), routine) == (2 * 3 * 7, 0, 0)


def test_with_sizes_amos_keeps_what_fills_the_instruction() -> None:
    sizes = {"N": 1, "C": 128, "K": 128, "H": 28, "W": 28, "R": 3, "S": 3, "stride": 1, "pad": 1}
    layer = bind(shipped("conv2d_nchw"), sizes)
    assert counts(instruction(FLAT), layer, mode="amos") == (20, 0, 0)
    assert {frozenset(m.axes["k"]) for m in mappings(instruction(FLAT), layer, mode="amos")} == {
        frozenset(k) for k in ("c", "cr", "cs", "crs")
    }
    assert counts(instruction(FLAT), layer) == (2 * 3 * 7, 0, 0)  # a batch of one runs nowhere


def test_amos_wants_every_index_to_rise_and_every_dimension_to_be_used() -> None:
    flipped = kernel(
        "in A: f32[16, 16]; in B: f32[16, 16]; inout C: f32[16, 16];",
        "for i in 16, j in 16, k in 16 { C[i, j] += A[15 - i, k] * B[k, j]; }",
    )
    diagonal = kernel(
        "in A: f32[16, 16, 16]; in B: f32[16, 16]; inout C: f32[16, 16];",
        "for i in 16, j in 16, k in 16 { C[i, j] += A[i, i, k] * B[k, j]; }",
    )
    for routine in (flipped, diagonal):
        assert counts(instruction(MATRIX), routine, mode="amos") == (0, 0, 0)
        assert counts(instruction(MATRIX), routine) == (2, 0, 0)


def test_amos_takes_steps_and_shifts() -> None:
    routine = kernel(
        "in A: f32[99, 99]; in B: f32[16, 16]; inout C: f32[16, 16];",
        "for i in 16, j in 16, k in 16 { C[i, j] += A[3*i + 2, 5*k] * B[k, j]; }",
    )
    assert counts(instruction(MATRIX), routine, mode="amos") == (1, 0, 0)


def test_amos_counts_axes_of_one_element() -> None:
    sizes = {"M": 1, "N": 64, "K": 64}
    tall = (
        MATRIX.replace("i in 16", "i in 1")
        .replace("c: f32[16, ", "c: f32[1, ")
        .replace("a: f32[16", "a: f32[1")
    )
    assert counts(instruction(tall), bind(shipped("gemm_f32"), sizes), mode="amos") == (1, 0, 0)


# --- what is left out -------------------------------------------------------------------------------------


def test_an_instruction_axis_of_one_element_stays_empty() -> None:
    for length in ("1", "L"):
        param = "choose L: 1..1" if length == "L" else ""
        text = MATRIX.replace("mma()", f"mma({param})").replace("i in 16", f"i in {length}")
        found = mappings(instruction(text), shipped("gemm_f32"))
        assert [(m.kind, m.axes["i"]) for m in found] == [("whole", ())] * 2


def test_no_mapping_has_preconditions_that_nothing_meets() -> None:
    length = VECTOR.replace("16", "L")
    never = length.replace("fma()", "fma(choose L: 4..8) where L <= 2")
    sometimes = length.replace("fma()", "fma(choose L: 4..8) where L <= 6, L % 2 == 0")
    placed = length.replace("fma()", "fma(choose L: 4..8) where align(a) >= 64")
    assert counts(instruction(never), shipped("gemm_f32")) == (0, 0, 0)
    assert counts(instruction(sometimes), shipped("gemm_f32")) == (3, 0, 0)
    assert counts(instruction(placed), shipped("gemm_f32")) == (3, 0, 0)


def test_a_guarded_statement_is_not_performed_without_its_guard() -> None:
    routine = kernel(
        "in A: f32[N]; in B: f32[N]; inout C: f32[N];", "for i in N { C[i] += A[i] * B[i] if i < 7; }", "N"
    )
    assert counts(instruction(VECTOR), routine) == (0, 0, 0)


def test_whoever_wants_one_mapping_need_not_wait_for_all() -> None:
    axes = [f"x{n}" for n in range(24)]
    shape = ", ".join("2" for _ in axes)
    index = ", ".join(axes)
    routine = kernel(
        f"in A: f32[{shape}]; in B: f32[{shape}]; inout C: f32[{shape}];",
        f"for {', '.join(f'{x} in 2' for x in axes)} {{ C[{index}] += A[{index}] * B[{index}]; }}",
    )
    found = find_in_statement(instruction(VECTOR), statements(routine)[0], 0)
    assert [next(found).axes["i"] for _ in range(2)] == [("x23",), ("x22",)]
