from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isamap
from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import count_operations, expect, expect_with_errors, last_place
from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import VECTORS, Case, compare, contraction_of, verify_case, wrong_vectors
from isamap.ir import DTYPES, Kernel, bind, interpret
from isamap.kernels import kernel_path
from isamap.run.fills import FILLS, make_arrays
from isamap.run.runner import RunResult
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

SIZES = {"M": 9, "N": 7, "K": 11}


def kernel_text(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


def bound(name: str, sizes: dict[str, int]) -> Kernel:
    return bind(parse_kernel(kernel_text(name)), sizes)


@pytest.fixture(scope="module")
def gemm() -> PreparedKernel:
    return prepare(Request(kernel_text("gemm_f32"), "generic-c", SIZES))


@pytest.mark.parametrize("fill", FILLS)
def test_a_right_program_is_found_right(gemm: PreparedKernel, fill: str) -> None:
    case = verify_case(gemm, SIZES, fill)
    assert case.ok
    assert case.guarded
    assert case.bound == 0 if fill == "integers" else case.bound > 0


def outcome(prepared: PreparedKernel, fill: str, change: Any) -> Case:
    """Return the comparison of a result that was spoilt."""
    kernel = bound("gemm_f32", SIZES)
    arrays = make_arrays(kernel, fill)
    right = interpret(kernel, arrays, {})["C"]
    spoilt = RunResult({"C": change(right)}, (), 0)
    return compare(kernel, arrays, {}, spoilt, prepared, SIZES, fill, False)


def test_one_unit_in_the_last_place_is_too_much_for_integers(gemm: PreparedKernel) -> None:
    def spoil(c: Any) -> Any:
        c[3, 5] = np.nextafter(c[3, 5], np.float32(np.inf))
        return c

    case = outcome(gemm, "integers", spoil)
    assert not case.ok
    assert case.problems[0].message.startswith("C[3, 5] is ")
    assert case.problems[0].notes[0] == "1 of 63 elements compared are wrong"
    assert outcome(gemm, "random", spoil).ok


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0])
def test_what_is_no_result_is_wrong(gemm: PreparedKernel, value: float) -> None:
    def spoil(c: Any) -> Any:
        c[0, 0] = value
        return c

    assert not outcome(gemm, "random", spoil).ok


def test_a_dropped_term_is_wrong(gemm: PreparedKernel) -> None:
    def spoil(c: Any) -> Any:
        arrays = make_arrays(bound("gemm_f32", SIZES), "random")
        return c - np.outer(arrays["A"][:, -1], arrays["B"][-1])

    assert not outcome(gemm, "random", spoil).ok


def test_a_refusal_of_the_program_is_a_problem(gemm: PreparedKernel) -> None:
    kernel = bound("gemm_f32", SIZES)
    arrays = make_arrays(kernel, "random")
    case = compare(kernel, arrays, {}, RunResult({}, (), 4), gemm, SIZES, "random", False)
    assert case.problems[0].code == "program-refused"


def test_a_wrong_instruction_shows_in_the_results(gemm: PreparedKernel) -> None:
    emitted = gemm.program.emitted
    wrong = replace(emitted, source=emitted.source.replace("c += a * b", "c -= a * b"))
    assert wrong.source != emitted.source
    spoilt = replace(gemm, compiled=compile_library(wrong, gemm.machine))
    assert not verify_case(spoilt, SIZES, "random").ok


def test_samples_agree_with_the_whole() -> None:
    kernel = bound("gemm_f32", SIZES)
    arrays = make_arrays(kernel, "random")
    whole, some = expect(kernel, arrays, {}, "random"), expect(kernel, arrays, {}, "random", 50)
    at = some["C"].at
    assert at is not None
    assert np.allclose(whole["C"].values[at], some["C"].values, rtol=1e-12)
    assert np.allclose(whole["C"].bound[at], some["C"].bound, rtol=1e-12)


@pytest.mark.parametrize("name", ["gemm_f32", "gemm_nt_f32", "gemm_tn_f32", "gemm_u8s8", "gemm_bf16_f32"])
def test_a_wrong_element_does_not_survive_random_vectors(name: str) -> None:
    kernel = bound(name, SIZES)
    arrays = make_arrays(kernel, "random")
    contraction = contraction_of(kernel)
    assert contraction is not None
    result = interpret(kernel, arrays, {})["C"]
    unit = 4 * 2.0**-23 if kernel.operand("C").dtype.is_float else 0.0
    assert wrong_vectors(contraction, arrays, result, unit)[0] == 0
    result[2, 3] += 1
    assert wrong_vectors(contraction, arrays, result, unit)[0] == VECTORS


@pytest.mark.parametrize("name", ["gemm_bias_relu_f32", "conv1d", "gru"])
def test_what_is_no_product_is_not_taken_for_one(name: str) -> None:
    sizes = {p.name: 3 for p in parse_kernel(kernel_text(name)).params if p.default is None}
    assert contraction_of(bound(name, sizes)) is None


def test_operations_are_counted() -> None:
    kernel = bound("gemm_f32", SIZES)
    assert count_operations(kernel) == 2 * 9 * 7 * 11


def test_the_last_place_of_a_type() -> None:
    values = np.array([1.0, 1.99, 2.0, -3.0, 0.0])
    assert last_place(values, DTYPES["bf16"]).tolist() == [2**-7, 2**-7, 2**-6, 2**-6, 2.0**-133]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", ["gemm_f32", "gemm_bf16", "gemm_u8s8", "gemm_f64"])
def test_fills_are_repeatable_and_never_zeros(name: str, fill: str) -> None:
    kernel = bound(name, SIZES)
    first, again = make_arrays(kernel, fill), make_arrays(kernel, fill)
    for operand in kernel.operands:
        array = first[operand.name]
        assert array.dtype == operand.dtype.numpy()
        assert array.tobytes() == again[operand.name].tobytes()
        assert np.count_nonzero(array) > array.size / 2


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_number_is_filled_as_an_array(fill: str, dtype: str) -> None:
    text = f"kernel k(N) {{ in s: {dtype}; out y: {dtype}[N]; for i in N {{ y[i] = s; }} }}"
    arrays = make_arrays(bind(parse_kernel(Source("k.ir", text)), {"N": 4}), fill)
    assert {type(array) for array in arrays.values()} == {np.ndarray}


def test_a_lost_subnormal_number_is_wrong_in_a_strict_kernel_alone() -> None:
    text = "kernel k(N) { in x: f32[N]; out y: bf16[N]; for i in N { y[i] = bf16(x[i]); } }"
    x = np.full(4, 1e-40, np.float32)
    kept, lost = x.astype(DTYPES["bf16"].numpy()), np.zeros(4, DTYPES["bf16"].numpy())
    for strict, may_be_lost in (("", True), ("strict ", False)):
        kernel = bind(parse_kernel(Source("k.ir", strict + text)), {"N": 4})
        reference = expect(kernel, {"x": x, "y": lost}, {}, "edges")["y"]
        assert find_deviation(kept, reference).ratio <= 1
        assert (find_deviation(lost, reference).ratio <= 1) is may_be_lost


def test_a_kernel_is_a_callable_in_python() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", SIZES)
    arrays = make_arrays(bound("gemm_f32", SIZES), "integers")
    expected = arrays["C"] + arrays["A"] @ arrays["B"]
    isolated = isamap.compile("gemm_f32", "generic-c", SIZES, isolate=True)(**arrays)
    assert np.array_equal(isolated["C"], expected)
    assert kernel(**arrays)["C"] is arrays["C"]
    assert np.array_equal(arrays["C"], expected)
    assert "gemm_f32.c" in kernel.files


def test_open_sizes_are_given_at_the_call() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": "1..64@8", "N": 7, "K": 11})
    for m in (1, 5, 64):
        arrays = make_arrays(bound("gemm_f32", SIZES | {"M": m}), "integers")
        expected = arrays["C"] + arrays["A"] @ arrays["B"]
        assert np.array_equal(kernel({"M": m}, **arrays)["C"], expected)


def test_matching_and_verifying_from_python() -> None:
    assert {m.instruction for m in isamap.find_mappings("gemm_f32", "generic-c")} >= {"mac_f32"}
    assert all(case.ok for case in isamap.verify("gemm_f32", "generic-c", SIZES))


def test_mappings_are_counted_in_three_modes() -> None:
    counts = [
        sum(m.instruction == "matmul" for m in isamap.find_mappings("conv1d", "matmul-16x16x16", mode=mode))
        for mode in ("complete", "fixed", "amos")
    ]
    assert counts == [18, 9, 6]


@pytest.mark.parametrize(
    "value", ["x[i] - x[i + 1]", "x[i] * x[i] - 2 * x[i + 1]", "sin(x[i]) - sin(x[i + 1])"]
)
def test_errors_of_inputs_are_in_the_bound_whatever_their_signs(value: str) -> None:
    """Errors of one sign alone cancel in differences, and do not show at the top of a curve."""
    text = f"kernel k() {{ in x: f32[65]; out y: f32[64]; for i in 64 {{ y[i] = {value}; }} }}"
    kernel = parse_kernel(Source("k", text))
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, 65).astype(np.float32)
    error = np.full(65, 0.01)
    expected = expect_with_errors(kernel, {"x": x}, "the model's tensors", {"x": error})["y"]
    right = interpret(kernel, {"x": x}, {})["y"].astype(np.float64)
    largest = np.zeros(64)
    for _ in range(50):
        moved = (x + error * rng.choice([-1, 1], 65)).astype(np.float32)
        largest = np.maximum(largest, np.abs(interpret(kernel, {"x": moved}, {})["y"] - right))
    assert (largest <= 1.01 * expected.bound + 1e-4).all(), "to first order"
    assert (expected.bound < 0.1).all()
