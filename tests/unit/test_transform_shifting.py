"""Factors of integer sums as the other signedness: equal bit by bit, also where sums wrap around."""

from __future__ import annotations

import numpy as np
import pytest
from unit.rewriting import chosen_form, kernel, shipped, steps

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.ir import Kernel, bind
from isamap.ir.interpret import interpret
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.match import improving_rewrites
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.source import Source, UsageProblem
from isamap.transform import rewrites, statements

SIZES = {"M": 3, "N": 5, "K": 300}
WIDE = "in A: {a}[M, K]; in B: {b}[K, N]; inout C: i32[M, N];"
SUM = "for m in M, n in N, k in K { C[m, n] += i32(A[m, k]) * i32(B[k, n]); }"

SQUARES = "for m in M, k in K { C[m, k] += i32(A[m, k]) * i32(A[m, k]); }"


def shifted(routine: Kernel) -> list[Kernel]:
    return [r.kernel for r in rewrites(routine) if any(s.startswith("shifting") for s in r.steps)]


@pytest.mark.parametrize(("a", "b"), [("i8", "i8"), ("u8", "i8"), ("i16", "i16"), ("u16", "u8")])
def test_a_shifted_sum_is_equal_bit_by_bit_over_the_whole_range(a: str, b: str) -> None:
    routine = kernel(WIDE.format(a=a, b=b), SUM, "M, N, K")
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray] = {}
    for operand in bind(routine, SIZES).operands:
        shape = [int(e.evaluate({})) for e in operand.shape]
        low, high = operand.dtype.low, operand.dtype.high
        values = rng.integers(low, high, shape, endpoint=True, dtype=np.int64)
        values.flat[:2] = low, high
        arrays[operand.name] = values.astype(operand.dtype.numpy())
    expected = interpret(routine, arrays, SIZES)["C"]
    found = shifted(routine)
    assert len(found) == 2
    for form in found:
        np.testing.assert_array_equal(interpret(form, arrays, SIZES)["C"], expected)


@pytest.mark.parametrize(
    ("operands", "loops"),
    [
        ("in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];", SUM.replace("i32", "f32")),
        ("in A: i32[M, K]; in B: i32[K, N]; inout C: i32[M, N];", SUM.replace("i32(", "(")),
        (
            "in A: i8[M, K]; inout C: i32[M, K];",
            SQUARES,
        ),
    ],
    ids=["floats", "as wide as the sum", "no sum"],
)
def test_what_is_no_sum_of_narrow_integers_is_left_alone(operands: str, loops: str) -> None:
    assert steps(kernel(operands, loops, "M, N, K"), "shifting") == []


BEGUN = "for m in M, n in N { C[m, n] = " + "{first}; } " + SUM


@pytest.mark.parametrize("first", ["0", "7", "bias[n]"])
def test_a_sum_that_starts_from_something_starts_from_that_and_its_correction(first: str) -> None:
    operands = "in A: i8[M, K]; in B: i8[K, N]; in bias: i32[N]; out C: i32[M, N];"
    routine = kernel(operands, BEGUN.replace("{first}", first), "M, N, K")
    rng = np.random.default_rng(5)
    arrays: dict[str, np.ndarray] = {
        n: rng.integers(-128, 128, s).astype(np.int8) for n, s in (("A", (3, 300)), ("B", (300, 5)))
    }
    arrays["bias"] = rng.integers(-(2**31), 2**31, 5).astype(np.int32)
    expected = interpret(routine, arrays, SIZES)["C"]
    found = shifted(routine)
    assert len(found) == 2
    for form in found:
        targets = [s.assign.target.buffer for s in statements(form)]
        assert targets == ["C_offset"] * 3 + ["C"] * 2
        np.testing.assert_array_equal(interpret(form, arrays, SIZES)["C"], expected)


def test_both_factors_are_offered_as_their_sums_differ_in_size() -> None:
    found = improving_rewrites(shipped("gemm_s8s8"), load_machine("x86-avx512-vnni"))
    assert [steps.split("takes ")[1] for i in found for steps in i.rewrite.steps if "takes" in steps] == [
        "`A` as u8, and is corrected",
        "`B` as u8, and is corrected",
    ]


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(("rows", "factor"), [(4, "B"), (2048, "A")])
def test_the_factor_is_shifted_that_leaves_the_smaller_sum(rows: int, factor: str) -> None:
    routine = kernel(
        WIDE.format(a="i8", b="i8").replace("inout", "out"), BEGUN.replace("{first}", "0"), "M, N, K"
    )
    sizes = {"M": rows, "N": 4 if rows > 4 else 2048, "K": 512}
    request = Request(Source("k.ir", ""), "x86-avx512-vnni", sizes, transform="best")
    chosen = chosen_form(request, routine)
    assert f"takes `{factor}` as u8" in chosen.steps[0]


def test_a_product_of_signed_bytes_is_performed_by_an_instruction_for_unsigned_ones() -> None:
    path = kernel_path("gemm_s8s8")
    request = Request(Source(path.name, path.read_text()), "x86-avx512-vnni", {"M": 64, "N": 256, "K": 256})
    made = compile_kernel(
        Request(request.kernel, request.machine, request.sizes, transform="best"), "schedule"
    )
    assert made.rewrite is not None
    assert made.rewrite.steps[0].startswith("shifting")
    assert made.schedule is not None
    as_written = compile_kernel(request, "schedule").schedule
    assert as_written is not None
    assert made.schedule.cost_ns is not None
    assert as_written.cost_ns is not None
    assert made.schedule.cost_ns < as_written.cost_ns


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(("quick", "is_shifted"), [(12.0, True), (2.0, False)])
def test_forms_that_quick_plans_have_close_together_are_told_apart_by_what_is_searched(
    quick: float, is_shifted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel as written is searched at 1, others at 2; quickly it costs 2 or 12, and others 1."""

    class Told:
        def __init__(self, name: str) -> None:
            self.name = name

        def schedule(self, problem: Problem, _: object, **__: object) -> Schedule:
            is_written = len(problem.nests) == 1
            costs = (quick, 1.0) if self.name == "greedy" else (1.0, 2.0)
            return Schedule("", "", (), (), cost_ns=costs[0] if is_written else costs[1])

    monkeypatch.setattr("isamap.driver.formulation.load_heuristic", Told)
    sizes = {"M": 64, "N": 256, "K": 256}
    request = Request(Source("k.ir", ""), "x86-avx512-vnni", sizes, transform="best")
    chosen = chosen_form(request, shipped("gemm_s8s8"))
    assert bool(chosen.steps) == is_shifted


def test_what_cannot_be_computed_one_by_one_is_not_copied_where_tiles_are_cut() -> None:
    """35 columns are two registers and three columns: no instruction flips three bytes."""
    path = kernel_path("gemm_s8s8")
    sizes = {"M": 100, "N": 35, "K": 512}
    request = Request(Source(path.name, path.read_text()), "x86-avx512-vnni", sizes, transform="best")
    made = compile_kernel(request, "lower")
    assert made.rewrite is not None
    assert made.rewrite.steps[0].startswith("shifting")
    assert made.program is not None


def test_a_kernel_that_no_rewrite_makes_faster_stays_as_written() -> None:
    path = kernel_path("gemm_f32")
    request = Request(
        Source(path.name, path.read_text()), "x86-avx512", {"M": 64, "N": 64, "K": 64}, transform="best"
    )
    assert chosen_form(request, shipped("gemm_f32")).steps == ()


def test_a_form_that_there_is_not_is_refused() -> None:
    path = kernel_path("gemm_f32")
    request = Request(Source(path.name, path.read_text()), "x86-avx512", {}, transform="77")
    with pytest.raises(UsageProblem, match="number of a rewrite below"):
        chosen_form(request, shipped("gemm_f32"))
