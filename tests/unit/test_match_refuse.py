"""What is said of instructions that do not perform a statement, and the edits that make them do it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from refusing import kernel, machine, rejection
from unit.matching import DOT, MATRIX, PAIRS, VECTOR, shipped

from isamap.ir import Kernel, bind
from isamap.machine import load_machine
from isamap.match import REASONS, Rejection, find_mappings, fixes, refusals
from isamap.match.refusals.rejection import REMARKS
from isamap.source import Source, apply_edits, read_codes
from isamap.syntax import parse_kernel

OPERANDS = "in A: f32[16]; in B: f32[16]; inout C: f32[16];"
LARGEST = VECTOR.replace("+=", "max=").replace("fma", "largest")
SCALED = VECTOR.replace("a[i] * b[i]", "a[i] * 2 * b[i]")
SQUARE = VECTOR.replace("b[i]", "a[i]").replace("in b: f32[16] @ reg;", "")
SMALL = VECTOR.replace("fma()", "fma(choose L: 4..8) where L <= 2").replace("16", "L")
EDITED = (
    "gemm_f32",
    "gemm_bf16",
    "gemm_s8s8",
    "gemv_f32",
    "bmm_f32",
    "pointwise",
    "conv1d",
    "gemm_bias_relu_f32",
)


def elementwise(body: str, operands: str = OPERANDS) -> Kernel:
    return kernel(f"kernel k() {{ {operands} for i in 16 {{ {body} }} }}")


def why(text: str, routine: Kernel) -> Rejection | None:
    """Why an instruction does not perform a kernel."""
    return rejection(routine, machine(text))


@pytest.mark.parametrize(
    ("text", "body", "reason", "message", "edit"),
    [
        (
            LARGEST,
            "C[i] += A[i] * B[i];",
            "operation-differs",
            "largest takes the maximum; the statement sums up",
            "`C[i] max= A[i] * B[i]`, which is another value",
        ),
        (
            LARGEST,
            "C[i] = A[i] * B[i];",
            "accumulates-only",
            "largest takes the maximum; the statement assigns",
            "initialise apart: `C[i] = -inf; C[i] max= A[i] * B[i];`",
        ),
        (
            VECTOR,
            "C[i] += A[i] + B[i];",
            "factor-missing",
            "fma multiplies, `a[i] * b[i]`; the statement has one factor, `A[i] + B[i]`",
            "`(A[i] + B[i]) * 1`",
        ),
        (
            SCALED,
            "C[i] += A[i] * 3 * B[i];",
            "constant-differs",
            "fma has the constant `2` where the statement has `3`",
            "`2`, which is another value",
        ),
        (
            SQUARE,
            "C[i] += A[i] * B[i];",
            "operand-twice",
            "fma takes a twice in `a[i] * a[i]`; `A[i]` and `B[i]` differ",
            "`A[i]` in both places, which is another value",
        ),
        (
            PAIRS,
            "C[i] += A[i] * B[i];",
            "operand-type-differs",
            "pairs takes a of bf16; `A[i]` is f32",
            "`f32(bf16(A[i]))`",
        ),
        (
            DOT,
            "C[i] += A[i] * B[i];",
            "reduction-missing",
            "dot runs over k in a = A[i] and b = B[i], not c = C[i]: the statement has no axis",
            "another instruction, element by element",
        ),
        (
            SMALL,
            "C[i] += A[i] * B[i];",
            "precondition-unmeetable",
            "fma requires L <= 2, which cannot be met with L in 4..8",
            "another instruction",
        ),
    ],
)
def test_the_first_condition_that_fails_is_named(
    text: str, body: str, reason: str, message: str, edit: str | None
) -> None:
    found = why(text, elementwise(body))
    assert found is not None
    assert (found.reason, found.edit) == (reason, edit)
    assert found.message.startswith(message)


def test_an_axis_is_missing_under_the_pairing_that_comes_nearest() -> None:
    found = why(MATRIX, shipped("depthwise"))
    assert found is not None
    assert found.reason == "axis-in-every-operand"
    assert "mma runs over j in b = F[c, r, s] and c = Y[n, c, p, q]" in found.message
    assert "6.25 % of it would be busy" in found.message


def test_sums_of_another_type_are_told_which() -> None:
    operands = "in A: f64[16]; in B: f64[16]; inout C: f64[16];"
    found = why(VECTOR, elementwise("C[i] += A[i] * B[i];", operands))
    assert found is not None
    assert found.reason == "accumulator-type-differs"
    assert found.message == "fma sums in f32; the statement sums in f64"


# --- places -----------------------------------------------------------------------------------------------


def test_the_place_of_the_difference_is_marked_on_both_sides() -> None:
    found = why(SCALED, elementwise("C[i] += A[i] * 3 * B[i];"))
    assert found is not None
    assert found.span is not None
    assert found.instruction_span is not None
    assert (found.span.text, found.instruction_span.text) == ("3", "2")


def test_the_instruction_is_shown_in_the_description_that_it_stands_in() -> None:
    on = load_machine("x86-amx")
    found = rejection(shipped("gemm_f32"), on, "tdpbf16ps")
    assert found is not None
    assert found.instruction_span is not None
    assert found.instruction_span.text == "f32(a[m, 2*k + p])"
    assert str(found.instruction_span).startswith("x86-amx.yaml:")


def test_a_bound_kernel_is_shown_and_edited_as_it_is_written() -> None:
    routine = bind(shipped("gemm_f32"), {"M": 16, "N": 16, "K": 16})
    on = load_machine("x86-amx")
    found = rejection(routine, on, "tdpbf16ps")
    assert found is not None
    (fix,) = fixes(routine, on, [found], {"M": 16, "N": 16, "K": 16})
    assert "f32(bf16(A[m, k])) * f32(bf16(B[k, n]))" in fix.text
    assert fix.text.startswith("# Matrix product"), "everything else stays as it is"


# --- accepted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "on", "instruction"),
    [
        ("gemm_f32", "matmul-16x16x16", "matmul"),
        ("gemm_nt_f32", "matmul-16x16x16", "matmul"),  # Bᵀ
        ("gemm_tn_f32", "matmul-16x16x16", "matmul"),  # Aᵀ
        ("conv2d_nchw", "matmul-16x16x16", "matmul"),  # any stride
        ("gemm_bf16_f32", "x86-amx", "tdpbf16ps"),  # k cut over k and p
        ("gemm_u8s8", "x86-amx", "tdpbusd"),
    ],
)
def test_what_performs_a_statement_is_not_refused(name: str, on: str, instruction: str) -> None:
    assert rejection(shipped(name), load_machine(on), instruction) is None


def test_swapped_factors_another_order_of_loops_and_stride_two_are_accepted() -> None:
    on = load_machine("matmul-16x16x16")
    text = (Path(__file__).resolve().parents[2] / "kernels" / "gemm_f32.ir").read_text(encoding="utf-8")
    swapped = text.replace("A[m, k] * B[k, n]", "B[k, n] * A[m, k]")
    turned = text.replace("m in M, n in N, k in K", "k in K, n in N, m in M")
    assert swapped != text != turned
    for changed in (swapped, turned):
        assert rejection(kernel(changed), on, "matmul") is None
    strided = bind(shipped("conv1d"), {"N": 2, "C": 8, "K": 8, "W": 32, "R": 3, "stride": 2, "pad": 0})
    assert rejection(strided, on, "matmul") is None


def test_signs_are_told_apart_on_a_shipped_machine() -> None:
    found = rejection(shipped("gemm_s8s8"), load_machine("x86-amx"), "tdpbuud")
    assert found is not None
    assert found.reason == "signedness-differs"


def test_a_vector_is_refused_by_a_matrix_instruction_with_what_would_help() -> None:
    found = rejection(shipped("gemv_f32"), load_machine("matmul-16x16x16"), "matmul")
    assert found is not None
    assert found.reason == "batch-missing"
    assert "a batch" in (found.edit or "")


# --- all of a machine -------------------------------------------------------------------------------------


def test_what_a_way_of_counting_leaves_out_is_told_apart_from_what_does_not_match() -> None:
    on, routine = load_machine("gemv-16"), shipped("gemv_f32")
    counted = find_mappings(routine, on, "fixed")
    (found,) = (r for r in refusals(routine, on, counted) if r.instruction == "gemv")
    assert found.reason == "not-counted"
    assert found.edit == "`--count complete`"
    assert rejection(routine, on, "gemv") is None


def test_every_reason_is_explained() -> None:
    assert [r for r in REASONS if r not in read_codes()] == []


def test_each_instruction_of_a_machine_maps_or_is_refused_the_nearest_first() -> None:
    on, routine = load_machine("x86-avx2"), shipped("gemm_bf16_f32")
    found = refusals(routine, on)
    mapped = {m.instruction for m in find_mappings(routine, on) if m.kind != "degenerate"}
    refused = {r.instruction for r in found if r.reason not in REMARKS}
    computing = {n for n, i in on.instructions.items() if i.instruction.operands}
    assert mapped | refused == computing
    assert not mapped & refused
    ranks = [REASONS.index(r.reason) for r in found]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("name", EDITED)
def test_every_edit_of_a_shipped_kernel_can_be_applied_and_is_fixed_or_ends_in_words(name: str) -> None:
    on, routine = load_machine("x86-amx"), shipped(name)
    assert routine.span is not None
    text = routine.span.source.text
    nearest: dict[int, list[Rejection]] = {}
    for r in refusals(routine, on):
        if r.edits:
            nearest.setdefault(r.statement, []).append(r)
    for own in nearest.values():
        for r in own[:3]:
            assert apply_edits(text, r.edits) != text
        for fix in fixes(routine, on, own[:3]):
            assert apply_edits(text, fix.edits) == fix.text
            edited = parse_kernel(Source(f"{name}.ir", fix.text))
            item = on.instructions[fix.mapping.instruction]
            alone = replace(on, instructions={item.name: item})
            assert fix.mapping in find_mappings(edited, alone)
            assert fix.mapping.instruction == fix.rejection.instruction


def test_refusals_of_a_large_machine_take_a_hundred_calls_each() -> None:
    """What all of them share is done once: 109 calls of functions each, whatever the processor's speed."""
    on, routine = load_machine("x86-avx512"), shipped("gru")
    mappings = find_mappings(routine, on)
    calls: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, event, _argument: calls.update((event,)))
    try:
        found = refusals(routine, on, mappings)
    finally:
        sys.setprofile(before)
    assert len(found) > 5000
    assert calls["call"] < 150 * len(found)


SHIFT = """instruction shift(scalar H: 0..31) {{
  in a: {t}[16] @ reg; in b: {t}[16] @ reg; out z: {t}[16] @ reg;
  for i in 16 {{ z[i] = {value}; }}
}}"""
DECLARED = re.compile(r"declare `(?P<declared>[^`]+)` in shift(, and compute with `(?P<name>\w+)`)?")


@pytest.mark.parametrize(
    ("value", "t", "body"),
    [
        ("a[i] << i32(H)", "i32", "A[i] << 3"),
        ("a[i] << i32(H)", "i32", "A[i] << s"),
        ("(a[i] ^ b[i]) >> i32(H)", "i32", "(A[i] ^ B[i]) >> 31"),
        ("(a[i] + b[i]) * i32(H)", "i32", "(A[i] + B[i]) * 0"),
        ("a[i] * f32(H)", "f32", "A[i] * s"),
        ("a[i] * b[i] + f64(H)", "f64", "A[i] * B[i] + s"),
    ],
)
def test_a_number_that_is_declared_as_advised_is_taken(value: str, t: str, body: str) -> None:
    """A parameter that comes with a call is not an operand: the refusal says how to declare it, which works."""
    text = SHIFT.format(t=t, value=value)
    scalar = f"scalar s: {t}" if re.search(r"\bs\b", body) else ""
    routine = kernel(
        f"kernel k({scalar}) {{ in A: {t}[16]; in B: {t}[16]; out C: {t}[16]; "
        f"for i in 16 {{ C[i] = {body}; }} }}"
    )
    found = why(text, routine)
    assert found is not None
    assert found.reason == "immediate-differs"
    assert found.instruction_span is not None
    assert found.instruction_span.text == "scalar H: 0..31"
    advice = DECLARED.fullmatch(found.edit or "")
    assert advice is not None, found.edit
    changed = text.replace(found.instruction_span.text, advice["declared"])
    if advice["name"]:
        changed = re.sub(r"\w+\(H\)", advice["name"], changed)
    assert why(changed, routine) is None


@pytest.mark.parametrize("body", ["A[i] << 32 - 64", "A[i] << B[i]", "A[i] << 40"])
def test_no_declaration_is_advised_that_would_not_be_taken(body: str) -> None:
    found = why(
        SHIFT.format(t="i32", value="a[i] << i32(H)"),
        elementwise(f"C[i] = {body};", "in A: i32[16]; in B: i32[16]; out C: i32[16];"),
    )
    assert found is not None
    assert found.edit == "another instruction"
