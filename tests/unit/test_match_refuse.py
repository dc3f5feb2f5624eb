"""What is said of instructions that do not perform a statement."""

from __future__ import annotations

import pytest
from unit.matching import DOT, MATRIX, PAIRS, VECTOR, instruction, kernel, mappings, shipped

from isamap.ir import Kernel
from isamap.machine import load_machine
from isamap.match import REASONS, Rejection, find_mappings, refusals
from isamap.match.refuse import refusal
from isamap.source import CODES
from isamap.transform import statements

OPERANDS = "in A: f32[16]; in B: f32[16]; inout C: f32[16];"
LARGEST = VECTOR.replace("+=", "max=").replace("fma", "largest")
SCALED = VECTOR.replace("a[i] * b[i]", "a[i] * 2 * b[i]")
SQUARE = VECTOR.replace("b[i]", "a[i]").replace("in b: f32[16] @ reg;", "")
SMALL = VECTOR.replace("fma()", "fma(choose L: 4..8) where L <= 2").replace("16", "L")


def why(text: str, routine: Kernel) -> Rejection | None:
    """Why an instruction does not perform a kernel's first statement."""
    pattern = instruction(text)
    own = mappings(pattern, routine)
    return refusal(pattern.instruction, statements(routine)[0], 0, own)


@pytest.mark.parametrize(
    ("text", "body", "reason", "message", "edit"),
    [
        (
            LARGEST,
            "C[i] += A[i] * B[i];",
            "operation-differs",
            "largest takes the maximum; the statement sums up",
            None,
        ),
        (
            LARGEST,
            "C[i] = A[i] * B[i];",
            "operation-differs",
            "largest takes the maximum; the statement assigns",
            None,
        ),
        (
            VECTOR,
            "C[i] += A[i] + B[i];",
            "expression-differs",
            "fma computes `a[i] * b[i]` where the statement has `A[i] + B[i]`",
            None,
        ),
        (
            VECTOR,
            "C[i] += A[i];",
            "expression-differs",
            "fma computes `a[i] * b[i]` where the statement has `A[i]`",
            None,
        ),
        (
            SCALED,
            "C[i] += A[i] * 3 * B[i];",
            "expression-differs",
            "fma computes `2` where the statement has `3`",
            None,
        ),
        (
            SQUARE,
            "C[i] += A[i] * B[i];",
            "expression-differs",
            "fma takes one operand twice in `a[i] * a[i]`, where the statement has two",
            None,
        ),
        (
            PAIRS,
            "C[i] += A[i] * B[i];",
            "types-differ",
            "pairs takes a of bf16; `A[i]` is f32",
            "A: bf16[…]",
        ),
        (
            DOT,
            "C[i] += A[i] * B[i];",
            "axis-has-no-place",
            "dot runs over k in a = A[i] and b = B[i], not c = C[i]: no axis of the statement does",
            None,
        ),
        (
            SMALL,
            "C[i] += A[i] * B[i];",
            "precondition-fails",
            "fma requires L <= 2, which is not met",
            None,
        ),
    ],
)
def test_the_first_condition_that_fails_is_named(
    text: str, body: str, reason: str, message: str, edit: str | None
) -> None:
    found = why(text, kernel(OPERANDS, f"for i in 16 {{ {body} }}"))
    assert found is not None
    assert (found.reason, found.message, found.edit) == (reason, message, edit)


def test_an_axis_is_missing_under_the_pairing_that_comes_nearest() -> None:
    found = why(MATRIX, shipped("depthwise"))
    assert found is not None
    assert found.reason == "axis-has-no-place"
    assert "mma runs over j in b = F[c, r, s] and c = Y[n, c, p, q]" in found.message


def test_sums_of_another_type_are_told_which() -> None:
    routine = kernel(
        "in A: f64[16]; in B: f64[16]; inout C: f64[16];", "for i in 16 { C[i] += A[i] * B[i]; }"
    )
    found = why(VECTOR, routine)
    assert found is not None
    assert (found.reason, found.message) == (
        "result-type-differs",
        "fma sums in f32; the statement sums in f64",
    )


def test_elements_that_two_iterations_share_are_named() -> None:
    outer = MATRIX.replace(", k in 16", "").replace("a[i, k]", "a[i, i]").replace("b[k, j]", "b[j, j]")
    routine = kernel(
        "in A: f32[9, 9]; in B: f32[9, 9]; inout C: f32[99];",
        "for i in 9, j in 9 { C[i + j] += A[i, i] * B[j, j]; }",
    )
    found = why(outer, routine)
    assert found is not None
    assert found.reason == "elements-shared"
    assert "`C[i + j]`" in found.message


def test_the_place_of_the_difference_is_marked() -> None:
    found = why(SCALED, kernel(OPERANDS, "for i in 16 { C[i] += A[i] * 3 * B[i]; }"))
    assert found is not None
    assert found.span is not None
    assert found.span.text == "3"


def test_what_performs_a_statement_is_not_refused() -> None:
    assert why(MATRIX, shipped("gemm_f32")) is None
    assert why(PAIRS, shipped("gemm_bf16_f32")) is None


def test_every_reason_is_explained() -> None:
    assert [r for r in REASONS if r not in CODES] == []


def test_each_instruction_of_a_machine_maps_or_is_refused_the_nearest_first() -> None:
    machine, routine = load_machine("x86-avx2"), shipped("gemm_bf16_f32")
    found = refusals(routine, machine)
    mapped = {m.instruction for m in find_mappings(routine, machine) if m.kind != "degenerate"}
    computing = {n for n, i in machine.instructions.items() if i.instruction.operands}
    assert mapped | {r.instruction for r in found} == computing
    assert not mapped & {r.instruction for r in found}
    ranks = [REASONS.index(r.reason) for r in found]
    assert ranks == sorted(ranks, reverse=True)
