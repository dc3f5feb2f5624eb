"""Sums of products of many factors, taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.ir import Kernel, bind, interpret, print_routine
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import factorisations


def kernel(operands: str, loops: str, params: str = "", word: str = "kernel") -> Kernel:
    return parse_kernel(Source("kernel.ir", f"{word} k({params}) {{ {operands} {loops} }}"))


def fused() -> Kernel:
    path = kernel_path("depthwise_separable_fused")
    return parse_kernel(Source(path.name, path.read_text(encoding="utf-8")))


CHAIN = (
    "in A: f32[I, J]; in B: f32[J, K]; in C: f32[K, L]; inout Y: f32[I, L];",
    "for i in I, j in J, k in K, l in L { Y[i, l] += A[i, j] * B[j, k] * C[k, l]; }",
)


def test_a_fused_separable_convolution_is_taken_apart_into_its_two_stages() -> None:
    first = factorisations(fused())[0]
    text = print_routine(first.kernel)
    assert "temp X_F: f32[N, C, P, Q];" in text
    assert "X_F[n, c, p, q] += (X[n, c, p*stride + r - pad, q*stride + s - pad] else 0) * F[c, r, s];" in text
    assert (
        "for n in N, k in K, p in P, q in Q, c in C { Y[n, k, p, q] += X_F[n, c, p, q] * G[k, c]; }" in text
    )
    assert str(first.flops_before) == "3*C*K*N*P*Q*R*S"
    assert str(first.flops_after) == "2*C*N*P*Q*R*S + 2*C*K*N*P*Q"
    assert str(first.temporary) == "C*N*P*Q"


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (2, 1)])
def test_all_groupings_of_a_fused_convolution_compute_it(stride: int, pad: int) -> None:
    sizes = {"N": 2, "C": 3, "K": 4, "H": 6, "W": 5, "R": 3, "S": 2, "stride": stride, "pad": pad}
    rng = np.random.default_rng(1)
    shapes = {o.name: [int(e.evaluate({})) for e in o.shape] for o in bind(fused(), sizes).operands}
    arrays = {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    expected = interpret(fused(), arrays, sizes)["Y"]
    found = factorisations(fused())
    assert len(found) == 3
    for f in found:
        np.testing.assert_array_equal(interpret(f.kernel, arrays, sizes)["Y"], expected, str(f.steps))


@pytest.mark.parametrize(("sizes", "best"), [((1000, 2, 3, 4), "B_C"), ((2, 3, 4, 1000), "A_B")])
def test_sizes_that_are_known_decide_which_grouping_is_cheapest(sizes: tuple[int, ...], best: str) -> None:
    routine = bind(kernel(*CHAIN, "I, J, K, L"), dict(zip("IJKL", sizes, strict=True)))
    assert isinstance(routine, Kernel)
    assert best in print_routine(factorisations(routine)[0].kernel)


def test_a_factor_with_an_axis_of_its_own_is_summed_first() -> None:
    routine = kernel(
        "in A: f32[I]; in B: f32[I, K]; inout Y: f32[I];",
        "for i in I, k in K { Y[i] += A[i] * B[i, k]; }",
        "I, K",
    )
    (found,) = factorisations(routine)
    assert "Y[i] += A[i] * B_[i]" in print_routine(found.kernel)


@pytest.mark.parametrize("factors", [4, 5])
def test_all_ways_to_multiply_two_by_two_are_tried(factors: int) -> None:
    names = "ABCDE"[:factors]
    operands = " ".join(f"in {n}: f32[I];" for n in names)
    product = " * ".join(f"{n}[i]" for n in names)
    routine = kernel(f"{operands} inout y: f32;", f"for i in I {{ y += {product}; }}", "I")
    assert len(factorisations(routine)) == {4: 15, 5: 105}[factors]


def test_wide_sums_of_narrow_factors_have_wide_temporaries() -> None:
    routine = kernel(
        "in A: bf16[I, J]; in B: bf16[J]; in C: bf16[I]; inout y: bf16[I] accumulate f32;",
        "for i in I, j in J { y[i] += f32(A[i, j]) * f32(B[j]) * f32(C[i]); }",
        "I, J",
    )
    text = print_routine(factorisations(routine)[0].kernel)
    assert "temp A_B: f32[I];" in text
    assert "A_B[i] += f32(A[i, j]) * f32(B[j]);" in text


def test_a_number_is_multiplied_last() -> None:
    routine = kernel(
        "in A: f32[I, J]; in B: f32[J]; in C: f32[I]; inout y: f32[I];",
        "for i in I, j in J { y[i] += 2 * A[i, j] * B[j] * alpha * C[i]; }",
        "I, J, scalar alpha: f32",
    )
    assert "y[i] += A_B[i] * C[i] * 2*alpha;" in print_routine(factorisations(routine)[0].kernel)


def test_conditions_stay_with_what_they_are_about() -> None:
    routine = kernel(
        "in A: f32[I, J]; in B: f32[J, K]; in C: f32[K, L]; inout Y: f32[I, L];",
        "for i in I, j in J, k in K, l in L { Y[i, l] += A[i, j] * B[j, k] * C[k, l] if j < k & j + l < 9; }",
        "I, J, K, L",
    )
    text = next(print_routine(f.kernel) for f in factorisations(routine) if "A_B" in f.steps[0])
    assert "A_B[i, j, k] += A[i, j] * B[j, k] if" in text  # j is kept: the other condition meets it with l
    assert "Y[i, l] += A_B[i, j, k] * C[k, l] if" in text


@pytest.mark.parametrize(
    ("word", "dtype", "value"),
    [
        ("strict kernel", "f32", "A[i] * B[i] * C[i]"),
        ("kernel", "bf16", "A[i] * B[i] * C[i]"),
        ("kernel", "f32", " * ".join(["A[i]"] * 6)),
        ("kernel", "bf16", "f32(A[i] * B[i] * C[i])"),
        ("kernel", "i8", "i32(A[i] * B[i] * C[i])"),
    ],
)
def test_a_product_that_rounds_or_has_many_factors_stays_whole(word: str, dtype: str, value: str) -> None:
    wide = {"bf16": "f32", "i8": "i32"}[dtype] if "(" in value else None
    operands = " ".join(f"in {n}: {dtype}[I];" for n in "ABC")
    target = f"inout y: {dtype}{f' accumulate {wide}' if wide else ''};"
    routine = kernel(f"{operands} {target}", f"for i in I {{ y += {value}; }}", "I", word)
    assert factorisations(routine) == ()
