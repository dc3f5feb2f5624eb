"""Kernels edited until an instruction performs them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from refusing import kernel, machine, rejection
from unit.matching import MATRIX, VECTOR, shipped

from isamap.ir import Kernel, bind
from isamap.machine import load_machine
from isamap.match import Fix, fixes, refusals
from isamap.source import Edit, Source, Span, apply_edits
from isamap.syntax import parse_kernel
from isamap.transform import statements

WIDENING = (
    MATRIX.replace("in a: f32", "in a: bf16")
    .replace("in b: f32", "in b: bf16")
    .replace("a[i, k] * b[k, j]", "f32(a[i, k]) * f32(b[k, j])")
)
PRODUCT = """# A comment that stays.
{strict}kernel product(M, N, K){where} {{
  in A: {types}[M, K];  # rows
  in B: {types}[K, N];
  inout C: {types}[M, N];
  for m in M, n in N, k in K {{ C[m, n] += A[m, k] * B[k, n]{guard}; }}
}}
"""


def product(types: str = "f32", strict: str = "", where: str = "", guard: str = "") -> Kernel:
    return kernel(PRODUCT.format(types=types, strict=strict, where=where, guard=guard))


def fix(text: str, routine: Kernel) -> Fix | None:
    """Return the fix for one instruction, if it is refused and has one."""
    on = machine(text)
    found = rejection(routine, on)
    return next(iter(fixes(routine, on, [found])), None) if found is not None else None


# --- edits ------------------------------------------------------------------------------------------------


def test_edits_are_made_all_at_once_in_any_order() -> None:
    source = Source("text", "a + b")
    first, last = Span(source, 0, 1), Span(source, 4, 5)
    around = (Edit(Span(source, 4, 4), "f32("), Edit(Span(source, 5, 5), ")"))
    assert apply_edits(source.text, (Edit(last, "y"), Edit(first, "x"))) == "x + y"
    assert apply_edits(source.text, around) == "a + f32(b)"
    assert apply_edits(source.text, ()) == source.text


def test_edits_do_not_overlap() -> None:
    source = Source("text", "a + b")
    with pytest.raises(AssertionError):
        apply_edits(source.text, (Edit(Span(source, 0, 3), "x"), Edit(Span(source, 2, 5), "y")))


# --- rounds -----------------------------------------------------------------------------------------------


def test_one_condition_after_the_other_is_met() -> None:
    found = fix(WIDENING, product("bf16", strict="strict ", guard=" if k <= m"))
    assert found is not None
    assert found.keeps_result
    assert "\nkernel product" in found.text
    assert "inout C: bf16[M, N] accumulate f32;" in found.text
    assert "f32(select(k <= m, A[m, k], 0)) * f32(B[k, n])" in found.text
    assert found.mapping.axes == {"i": ("m",), "j": ("n",), "k": ("k",)}


def test_all_else_stays_as_it_was_written() -> None:
    routine = product()
    found = fix(WIDENING, routine)
    assert found is not None
    assert routine.span is not None
    before, after = routine.span.source.text.splitlines(), found.text.splitlines()
    assert [n for n, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [5]
    assert apply_edits(routine.span.source.text, found.edits) == found.text


def test_a_requirement_joins_those_that_are_there() -> None:
    lowest = MATRIX.replace("+=", "min=").replace("* b[k, j]", "^ b[k, j]").replace("f32", "u8")
    lowest = lowest.replace("b: u8[16, 16]", "b: u8[16]").replace("b[k, j]", "b[j]")
    text = (
        PRODUCT.replace("+=", "min=")
        .replace("B[k, n]", "B[n]")
        .replace(" * ", " ^ ")
        .replace("[K, N]", "[N]")
    )
    routine = kernel(text.format(types="u8", strict="", where=" where M >= 2", guard=""))
    found = fix(lowest, routine)
    assert found is not None
    assert found.rejection.reason == "padding-not-neutral"
    assert "where M >= 2, K % 16 == 0 {" in found.text


def test_what_initialises_stands_before_what_accumulates() -> None:
    routine = kernel(
        "kernel k(N) { in A: f32[N]; in B: f32[N]; out D: f32[N]; out C: f32[N]; "
        "for n in N { D[n] = A[n] + B[n]; } for n in N { C[n] = A[n] * B[n]; } }"
    )
    on = machine(VECTOR)
    refused = [r for r in refusals(routine, on) if r.instruction == "fma" and r.statement == 1]
    (found,) = fixes(routine, on, refused)
    assert found.mapping.statement == 2
    assert statements(parse_kernel(Source("k.ir", found.text)))[2].assign.op == "add"


def test_a_product_of_three_is_taken_apart_with_its_sizes_left_open() -> None:
    sizes = {"N": 2, "C": 8, "K": 8, "H": 8, "W": 8, "R": 3, "S": 3, "stride": 1, "pad": 1}
    routine = bind(shipped("depthwise_separable_fused"), sizes)
    on = load_machine("matmul-16x16x16")
    found = [r for r in refusals(routine, on) if r.reason == "three-factors"]
    (apart,) = fixes(routine, on, found, sizes)
    assert apart.mapping.kind == "whole"
    assert not apart.mapping.composed
    assert "Y[n, k, p, q] += X_F[n, c, p, q] * G[k, c];" in apart.text
    assert "stride = 1, pad: 0..4096 = 0" in apart.text


# --- what is not a fix ---------------------------------------------------------------------------------------


def test_an_edit_that_gives_another_result_says_so() -> None:
    found = fix(VECTOR.replace("+=", "max="), product())
    assert found is not None
    assert "C[m, n] max= A[m, k] * B[k, n]" in found.text
    assert not found.keeps_result


def test_saturating_casts_change_the_result() -> None:
    on = load_machine("x86-amx")
    routine = shipped("gemm_s8s8")
    refused = rejection(routine, on, "tdpbuud")
    assert refused is not None
    (found,) = fixes(routine, on, [refused])
    assert "sat_u8(A[m, k])" in found.text
    assert not found.keeps_result


def test_a_kernel_without_a_text_has_places_and_no_fix() -> None:
    routine = replace(product(), span=None)
    on = machine(WIDENING)
    found = [r for r in refusals(routine, on) if r.instruction == "mma"]
    assert [r.reason for r in found] == ["operand-type-differs"]
    assert fixes(routine, on, found) == ()


def test_sizes_that_a_fix_would_forbid_leave_it_out() -> None:
    overlapping = kernel(
        "kernel k(P, R, s: 1..16) { in X: f32[P]; in W: f32[R]; inout Y: f32[P*s + R]; "
        "for p in P, r in R { Y[p*s + r] += X[p] * W[r]; } }"
    )
    outer = MATRIX.replace(", k in 16", "").replace("a[i, k]", "a[i]").replace("b[k, j]", "b[j]")
    on = machine(outer.replace("a: f32[16, 16]", "a: f32[16]").replace("b: f32[16, 16]", "b: f32[16]"))
    refused = rejection(overlapping, on)
    assert refused is not None
    assert refused.edit == "`where R <= s`"
    assert len(fixes(overlapping, on, [refused], {"P": 8, "R": 2, "s": 4})) == 1
    assert fixes(overlapping, on, [refused], {"P": 8, "R": 4, "s": 2}) == ()
