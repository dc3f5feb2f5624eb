"""Elements of an issue stand for the kernel's elements one by one, or there is no mapping."""

from __future__ import annotations

import pytest
from unit.matching import DOT, MATRIX, VECTOR, counts, instruction, kernel, mappings, shipped

from isamap.ir import Index, Kernel, bind
from isamap.match import Mapping, Pattern, Violation, first_violation
from isamap.match.mappings.enumerate import find_candidates, find_in_statement
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import statements

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


# --- sizes decide -----------------------------------------------------------------------------------------


def scatter(step: int, p: int, r: int) -> Kernel:
    operands = f"in X: f32[{p}]; in W: f32[{r}]; inout Y: f32[{step * p + r}];"
    return kernel(operands, f"for p in {p}, r in {r} {{ Y[{step}*p + r] += X[p] * W[r]; }}")


@pytest.mark.parametrize(
    ("step", "p", "r", "count"),
    [
        (1, 9, 2, 0),  # neighbours meet at once
        (2, 9, 2, 2),
        (2, 9, 3, 0),  # p and r + 2 meet p + 1 and r
        (3, 9, 3, 2),
        (4, 9, 9, 2),  # r + 4 is beyond the four lanes that stand side by side
        (3, 9, 9, 0),
        (3, 2, 3, 2),
    ],
)
def test_a_scatter_runs_where_its_iterations_cannot_meet(step: int, p: int, r: int, count: int) -> None:
    assert counts(instruction(OUTER), scatter(step, p, r))[0] == count


def test_a_scatter_of_open_sizes_runs_where_what_is_stated_keeps_iterations_apart() -> None:
    for stated, count in (("", 0), ("where R <= s", 2), ("where R <= s + 1", 0), ("where R < s", 2)):
        text = f"""kernel k(P, R, s) {stated} {{
          in X: f32[P]; in W: f32[R]; inout Y: f32[P*s + R];
          for p in P, r in R {{ Y[p*s + r] += X[p] * W[r]; }}
        }}"""
        routine = parse_kernel(Source("kernel.ir", text))
        found = find_in_statement(instruction(OUTER), statements(routine)[0], 0, "complete", routine)
        assert sum(m.kind == "whole" for m in found) == count, stated


def test_a_step_that_may_be_zero_keeps_nothing_apart() -> None:
    for low, count in ((0, 0), (4, 2)):
        text = f"""kernel k(P, step: {low}..9) {{
          in X: f32[P]; in W: f32[4]; inout Y: f32[P*step + 4];
          for p in P, r in 4 {{ Y[p*step + r] += X[p] * W[r]; }}
        }}"""
        routine = parse_kernel(Source("kernel.ir", text))
        found = find_in_statement(instruction(OUTER), statements(routine)[0], 0, "complete", routine)
        assert sum(m.kind == "whole" for m in found) == count


def test_a_strided_transposed_convolution_keeps_pixels_and_taps_that_meet_apart() -> None:
    sizes = {"N": 4, "C": 8, "K": 8, "H": 9, "W": 9}
    wide = bind(shipped("conv2d_transposed_strided"), {**sizes, "R": 3, "S": 3, "stride": 2})
    narrow = bind(shipped("conv2d_transposed_strided"), {**sizes, "R": 2, "S": 2, "stride": 2})
    # of 49 ways to fill i from n, h, w and j from k, r, s: those without h beside r and without w beside s
    assert counts(instruction(MATRIX), shipped("conv2d_transposed_strided"))[0] == 2 * 21
    assert counts(instruction(MATRIX), wide)[0] == 2 * 21
    assert counts(instruction(MATRIX), narrow)[0] == 2 * 49


# --- all kinds of subscripts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    ["M - 1 - m, k", "m, 7 - k", "2*m + 1, 3*k", "8*m + k, 0", "m + k, k", "m + k, 0", "k, m", "m, k % 8"],
)
def test_an_operand_that_is_gathered_may_lie_in_any_way(read: str) -> None:
    routine = kernel(
        "in A: f32[999, 999]; in B: f32[8, 8]; inout C: f32[16, 8];",
        f"for m in 16, n in 8, k in 8 {{ C[m, n] += A[{read.replace('M', '16')}] * B[k, n]; }}",
    )
    assert counts(instruction(MATRIX), routine)[0] == 2


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("15 - m, n", 2),
        ("m, 2*n", 2),
        ("7*m + n, 0", 0),
        ("8*m + n, 0", 2),
        ("m, m + n", 2),
        ("m / 2, n", 0),
        ("m / 2, 8*(m % 2) + n", 2),
        ("0, 16*n + m", 2),
        ("0, 15*n + m", 0),
    ],
)
def test_a_result_lies_so_that_no_two_lanes_write_one_element(target: str, count: int) -> None:
    routine = kernel(
        "in A: f32[16, 8]; in B: f32[8, 8]; inout C: f32[999, 999];",
        f"for m in 16, n in 8, k in 8 {{ C[{target}] += A[m, k] * B[k, n]; }}",
    )
    assert counts(instruction(MATRIX), routine)[0] == count


def test_a_subscript_that_never_changes_indexes_nothing() -> None:
    # k / 8 is 0 throughout, so that k is not in A, and i alone is in a and the output
    routine = kernel(
        "in A: f32[16, 8]; in B: f32[8, 8]; inout C: f32[16];",
        "for m in 16, k in 8 { C[m] += A[m, k / 8] * B[k % 8, k]; }",
    )
    found = mappings(instruction(MATRIX), routine)
    assert {m.axes["k"] for m in found} == {("k",)}
    assert {m.axes["i"] for m in found if m.bindings[0].subject != m.bindings[1].subject} == {("m",), ()}


@pytest.mark.parametrize(
    ("own", "read", "count"),
    [
        ("a[7 - p + r]", "X[19 - p + r]", 1),  # both windows run backwards
        ("a[7 - p + r]", "X[p + r]", 0),
        ("a[2*p + r]", "X[2*p + r]", 1),
        ("a[2*p + r]", "X[4*p + 2*r]", 1),
        ("a[2*p + r]", "X[p + r]", 0),
        ("a[p / 2 + r]", "X[p / 2 + r]", 0),  # from an odd position on, pairs are other pairs
        ("a[(p + r) % 8]", "X[(p + r) % 8]", 1),
        ("a[2*p + p + r]", "X[p + r]", 1),  # three taps do not reach three pixels: all of a is different
    ],
)
def test_windows_agree_at_every_position(own: str, read: str, count: int) -> None:
    text = WINDOW.replace("a[p + r]", own).replace("f32[10]", "f32[99]")
    routine = kernel(
        "in X: f32[99]; in F: f32[3]; inout Y: f32[20];",
        f"for p in 20, r in 3 {{ Y[p] += {read} * F[r]; }}",
    )
    assert len(whole(instruction(text), routine)) == count


def test_windows_of_open_sizes_agree_or_are_refused() -> None:
    operands = "in X: f32[{reach}]; in F: f32[R]; inout Y: f32[P];"
    loops = "for p in P, r in R {{ Y[p] += X[{read}] * F[r]; }}"
    for read, reach, count in (
        ("p + r", "P + R", 1),
        ("2*p + r", "2*P + R", 0),
        ("s*p + r", "s*P + R", 0),
        ("s*p + s*r", "s*P + s*R", 1),
    ):
        routine = kernel(operands.format(reach=reach), loops.format(read=read), "P, R, s")
        assert len(whole(instruction(WINDOW), routine)) == count


def test_a_class_is_cut_in_any_order_of_its_axes() -> None:
    text = """instruction pool() {
      inout c: f32 @ reg;
      in a: f32[16] @ reg;
      for k in 4, p in 4 { c += a[READ]; }
    }"""
    routine = kernel("in A: f32[N]; inout C: f32;", "for n in N { C += A[n]; }", "N")
    apart = instruction(text.replace("READ", "4*k + p"))
    shared = instruction(text.replace("READ", "k + p"))
    assert counts(apart, routine) == (0, 1, 0)
    assert counts(shared, routine) == (0, 0, 0)


def test_axes_as_long_as_the_kernel_has_need_of_are_decided_too() -> None:
    text = WINDOW.replace("window()", "window(choose P)").replace("in 8", "in P").replace("[8]", "[P]")
    text = text.replace("f32[10]", "f32[P + 2]")
    for read, count in (("p + r", 1), ("2*p + r", 0)):
        routine = kernel(
            "in X: f32[99]; in F: f32[3]; inout Y: f32[20];",
            f"for p in 20, r in 3 {{ Y[p] += X[{read}] * F[r]; }}",
        )
        assert len(whole(instruction(text), routine)) == count


def test_a_parameter_without_an_end_may_be_the_step_of_another_axis() -> None:
    text = """instruction rows(choose Q) {
      inout c: f32[4] @ reg;
      in a: f32[4*Q] @ reg;
      for m in 4, k in Q { c[m] += a[READ]; }
    }"""
    routine = kernel("in A: f32[M, N]; inout C: f32[M];", "for m in M, n in N { C[m] += A[m, n]; }", "M, N")
    for read, count in (("Q*m + k", 1), ("Q*m - m + k", 0)):
        assert counts(instruction(text.replace("READ", read)), routine)[0] == count


def test_names_of_the_instruction_are_not_those_of_the_kernel() -> None:
    text = OUTER.replace("outer()", "outer(choose s: 1..4, choose R: 1..4)").replace("4", "R", 0)
    routine = kernel(
        "in A: f32[9]; in B: f32[s]; inout Y: f32[9*s];",
        "for j in 9, i in s { Y[s*j + i] += A[j] * B[i]; }",
        "s",
    )
    assert counts(instruction(text), routine)[0] == 2


# --- what is said -----------------------------------------------------------------------------------------


def test_the_condition_that_fails_is_named() -> None:
    routine = kernel(POLYNOMIALS, "for i in 20, j in 20 { Y[i + j] += A[i] * B[j]; }")
    pattern, statement = instruction(OUTER), statements(routine)[0]
    broken = next(find_candidates(pattern, statement, 0))
    assert first_violation(pattern, statement, broken) == Violation("output-elements", "c", is_certain=True)
    window, moved = (
        instruction(WINDOW),
        kernel(
            "in X: f32[99]; in F: f32[3]; inout Y: f32[20];",
            "for p in 20, r in 3 { Y[p] += X[2*p + r] * F[r]; }",
        ),
    )
    broken = next(m for m in find_candidates(window, statements(moved)[0], 0) if m.kind == "whole")
    found = first_violation(window, statements(moved)[0], broken)
    assert found == Violation("operand-elements", "a", True, ((Index.of("p") + Index.of("r"),),))


def test_what_is_not_proved_is_told_from_what_is_false() -> None:
    text = """kernel k(P, R, s, t) { in X: f32[P]; in W: f32[R]; inout Y: f32[P*s + R*t];
      for p in P, r in R { Y[p*s + r*t] += X[p] * W[r]; } }"""
    routine = parse_kernel(Source("kernel.ir", text))
    pattern, statement = instruction(OUTER), statements(routine)[0]
    found = first_violation(pattern, statement, next(find_candidates(pattern, statement, 0)), routine)
    assert found == Violation("output-elements", "c", is_certain=False)


def test_a_mapping_breaks_no_condition() -> None:
    pattern, routine = instruction(MATRIX), shipped("conv2d_nchw")
    statement = statements(routine)[0]
    for mapping in mappings(pattern, routine):
        assert first_violation(pattern, statement, mapping, routine) is None
