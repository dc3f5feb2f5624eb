"""Proofs of mappings: what is proved for all sizes, and what stays open with which reason."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from unit.matching import DOT, MATRIX, PAIRS, VECTOR, instruction, kernel, mappings, shipped

from isamap.driver.matching import match_kernel
from isamap.ir import Index, Kernel, bind
from isamap.machine import load_machine
from isamap.match import AxisGroup, Mapping, Pattern, Proof, prove
from isamap.match.patterns.unify import unify
from isamap.match.proofs.affine import IslNames, covers_once, determines_axes, divides, is_empty
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import statements

SUMS = """instruction windows() {
  inout c: f32[4] @ reg;
  in a: f32[6] @ reg;
  in b: f32[3] @ reg;
  for p in 4, r in 3 { c[p] += a[p + r] * b[r]; }
}"""

SLIDING = "in X: f32[P + R]; in F: f32[R]; inout Y: f32[P];"


def laid(pattern: Pattern, routine: Kernel, **axes: str) -> Mapping:
    """Return a mapping written down, valid or not: kernel axes on each axis of the instruction."""
    value = statements(routine)[0].assign.value
    bindings = next(iter(unify(pattern.value, value)))
    groups = tuple(AxisGroup((lane,), tuple(names.split("."))) for lane, names in axes.items())
    empty = tuple(a.name for a in pattern.axes if a.name not in axes)
    return Mapping(pattern.name, 0, bindings, groups, empty, "degenerate" if empty else "whole")


def proof(pattern: Pattern, routine: Kernel, **axes: str) -> Proof:
    return prove(pattern, statements(routine)[0], laid(pattern, routine, **axes), routine)


@pytest.mark.parametrize("name", ["gemm_f32", "conv1d", "conv2d_nchw", "depthwise", "contraction_abcde"])
def test_mappings_onto_a_matrix_product_are_proved_for_all_sizes(name: str) -> None:
    pattern, routine = instruction(MATRIX), shipped(name)
    proofs = {prove(pattern, statements(routine)[0], m, routine) for m in mappings(pattern, routine)}
    assert proofs == {Proof("proved")}


def test_a_class_of_axes_cut_together_is_proved() -> None:
    pattern, routine = instruction(PAIRS), shipped("gemm_bf16_f32")
    (first, second) = mappings(pattern, routine)
    assert prove(pattern, statements(routine)[0], first, routine).status == "proved"
    assert prove(pattern, statements(routine)[0], second, routine).status == "proved"


def test_an_axis_where_its_operand_is_not_indexed_is_not_proved() -> None:
    found = proof(instruction(MATRIX), shipped("gemm_f32"), i="n", j="m", k="k")
    assert found == Proof("unproved", "elements of a were not shown to stand for one element each")


def test_a_summed_axis_on_an_axis_of_the_output_is_not_proved() -> None:
    assert "elements of" in proof(instruction(MATRIX), shipped("gemm_f32"), i="m", j="n.k").reason


def test_two_axes_that_meet_in_the_target_are_not_proved() -> None:
    routine = kernel(
        "in A: f32[M, N]; in B: f32[M, N]; inout C: f32[M + N];",
        "for i in M, j in N { C[i + j] += A[i, j] * B[i, j]; }",
        "M, N",
    )
    found = proof(instruction(VECTOR), routine, i="i.j")
    assert found.reason == "two elements of the output were not shown to be two of the array"
    assert proof(instruction(VECTOR), routine, i="i").status == "proved"


@pytest.mark.parametrize(
    ("index", "status"), [("p + r", "proved"), ("r + p + 1", "proved"), ("2*p + r", "unproved")]
)
def test_windows_are_proved_by_differences_of_two_lanes(index: str, status: str) -> None:
    routine = kernel(
        "in X: i32[2*P + R + 1]; in F: i32[R]; inout Y: i32[P];",
        f"for p in P, r in R {{ Y[p] += X[{index}] * F[r]; }}",
        "P, R",
    )
    windows = instruction(SUMS.replace("f32", "i32"))
    assert proof(windows, routine, p="p", r="r").status == status


def test_a_float_in_use_times_zero_is_not_nothing() -> None:
    routine = kernel(SLIDING, "for p in P, r in R { Y[p] += X[p + r] * F[r]; }", "P, R")
    found = proof(instruction(SUMS), routine, p="p", r="r")
    assert found.reason == "lanes beyond the end of r count, unless sizes are whole tiles"
    whole = replace(routine, where=())
    assert proof(instruction(SUMS), bind(whole, {"P": 5, "R": 9}), p="p", r="r").status == "proved"


def test_a_maximum_of_products_needs_whole_tiles_where_one_factor_is_in_use() -> None:
    operands = "in A: i32[K]; in B: i32; inout C: i32;"
    product = instruction(
        """instruction most() {
          inout c: i32 @ reg;
          in a: i32[8] @ reg;
          in b: i32 @ reg;
          for k in 8 { c max= a[k] * b; }
        }"""
    )
    loop = "for k in K { C max= A[k] * B; }"
    assert proof(product, kernel(operands, loop, "K"), k="k").status == "unproved"
    assert proof(product, bind(kernel(operands, loop, "K"), {"K": 24}), k="k").status == "proved"


def test_where_makes_tiles_whole() -> None:
    text = """kernel k(P, R) where R % 3 == 0 {
      in X: f32[P + R];
      in F: f32[R];
      inout Y: f32[P];
      for p in P, r in R { Y[p] += X[p + r] * F[r]; }
    }"""
    assert proof(instruction(SUMS), parse_kernel(Source("k.ir", text)), p="p", r="r").status == "proved"


def test_a_strict_sum_is_not_proved_where_its_order_may_change() -> None:
    routine = replace(
        kernel("in A: f32[K]; in B: f32[K]; inout C: f32;", "for k in K { C += A[k] * B[k]; }", "K"),
        strict=True,
    )
    assert "strict" in proof(instruction(DOT), routine, k="k").reason


def test_an_operand_that_stands_for_something_else_is_not_proved() -> None:
    pattern, routine = (
        instruction(VECTOR),
        kernel("in A: f32[N]; in B: f32[N]; inout C: f32[N];", "for i in N { C[i] += A[i] * B[i]; }", "N"),
    )
    mapping = laid(pattern, routine, i="i")
    twice = replace(
        mapping, bindings=tuple(replace(b, subject=mapping.bindings[0].subject) for b in mapping.bindings)
    )
    assert prove(pattern, statements(routine)[0], twice, routine).reason == "the expressions differ"


# --- questions for isl ------------------------------------------------------------------------------------


def test_blocks_of_lanes_cover_every_extent_once() -> None:
    assert covers_once((16,))
    assert covers_once((16, 2))
    assert covers_once((3, 5, 7))


def test_digits_determine_their_axes_and_sums_do_not() -> None:
    k, p = Index.of("k"), Index.of("p")
    extents = {"k": Index.of(16), "p": Index.of(2)}
    assert determines_axes((2 * k + p,), extents, ["k", "p"])
    assert not determines_axes((k + p,), extents, ["k"])
    assert not determines_axes((k,), extents, ["p"])
    assert determines_axes((k + p, k), extents, ["k", "p"])


def test_sizes_divide_by_what_is_known_of_them() -> None:
    routine = shipped("gemm_f32")
    assert not divides(16, Index.of("K"), routine.where)
    assert divides(16, 16 * Index.of("K"), ())
    assert not divides(16, Index.of("K") * Index.of("N"), ())


def test_a_question_that_is_too_hard_has_no_answer() -> None:
    names = IslNames()
    x = [names.of(f"x{n}") for n in range(12)]
    hard = [f"({a}) mod {n + 7} = ({b}) mod {n + 5}" for n, (a, b) in enumerate(pairwise(x))]
    apart = [f"{a} != {b}" for n, a in enumerate(x) for b in x[n + 1 :]]
    assert is_empty(names, (*hard, *apart)) is None


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("z", "c"), ("a", "z")])
def test_no_name_of_a_kernel_matters(names: tuple[str, str]) -> None:
    """Rename inputs to what the instructions of x86-avx2 call their operands: a, b, c and z."""

    def found(first: str, second: str) -> list[tuple[str, str, str]]:
        text = f"""kernel k(N, scalar s: i32) {{
          in {first}: i8[N]; in {second}: i8[N]; out y: i8[N];
          for n in N {{ y[n] = sat_i8((i32({first}[n]) - s) * i32({second}[n])); }}
        }}"""
        matched = match_kernel(Source("k.ir", text), machine, {"N": 64})
        return [(m.instruction, m.kind, matched.look.at(m).proof.status) for m in matched.mappings]

    machine = load_machine("x86-avx2")
    assert found(*names) == found("p", "q")
