"""Gates written one by one: what is made one statement, and what stays apart."""

from __future__ import annotations

from typing import Any

import pytest
from numpy.typing import NDArray
from unit.rewriting import kernel, steps, text_after

from isamap.transform import refused_rewrites

Array = NDArray[Any]


def test_instances_that_depend_on_each_other_stay_apart() -> None:
    routine = kernel(
        "in A: f32[N]; inout y: f32[3, N];",
        "for i in N { y[1, i] = A[i] * y[0, i]; } for i in N { y[2, i] = A[i] * y[1, i]; }",
        "N",
    )
    assert not steps(routine, "batching")


@pytest.mark.parametrize(("dtype", "accumulate"), [("f32", ""), ("bf16", " accumulate f32")])
def test_sums_that_are_rounded_one_after_the_other_are_not_exchanged(dtype: str, accumulate: str) -> None:
    sums = "".join(f"for i in N, k in K {{ y[i] += f32({a}[i, k]); }}" for a in "AB")
    sums = sums if accumulate else sums.replace("f32(", "(")
    operands = f"in A: {dtype}[N, K]; in B: {dtype}[N, K]; inout y: {dtype}[N]{accumulate};"
    assert bool(steps(kernel(operands, sums, "N, K"), "reordering")) == (not accumulate)


@pytest.mark.parametrize(("target", "merges"), [("y[0, i]", False), ("y[{}, i]", True)])
def test_sums_that_are_rounded_one_after_the_other_are_not_merged(target: str, merges: bool) -> None:
    sums = "".join(
        f"for i in N, k in K {{ {target.format(g)} += f32(A[{g}, i, k]) * f32(B[i, k]); }}" for g in range(2)
    )
    operands = "in A: bf16[2, N, K]; in B: bf16[N, K]; inout y: bf16[2, N] accumulate f32;"
    word = "batching: 2 statements become `y["
    assert bool(steps(kernel(operands, sums, "N, K"), word)) == merges


def test_instances_are_merged_across_what_they_do_not_touch() -> None:
    between = "for i in N { z[i] = y[0, i]; }"
    loops = f"for i in N {{ y[0, i] = 2 * A[0, i]; }} {between} for i in N {{ y[1, i] = 2 * A[1, i]; }}"
    routine = kernel("in A: f32[2, N]; inout y: f32[2, N]; inout z: f32[N];", loops, "N")
    assert steps(routine, "batching")
    other = kernel(
        "in A: f32[2, N]; inout y: f32[2, N]; inout z: f32[N];",
        loops.replace("z[i] = y[0, i]", "z[i] = y[0, i] + y[1, i]"),
        "N",
    )
    assert not steps(other, "batching")


def test_arrays_that_differ_in_type_cannot_be_one() -> None:
    routine = kernel(
        "in X: f32[C]; in A: f32[C, H]; in B: f32[C, H] strides(any, 1); inout r: f32[2, H];",
        "for j in H, c in C { r[0, j] += X[c] * A[c, j]; } for j in H, c in C { r[1, j] += X[c] * B[c, j]; }",
        "C, H",
    )
    (found,) = refused_rewrites(routine)
    assert "differ in role, type or shape" in found.reason
    assert found.help is None


def test_gates_in_one_row_are_told_apart_by_a_size() -> None:
    sums = "".join(
        f"for n in N, j in H, c in C {{ x[{g}, n, j] += X[n, c] * W[c, {g}*H + j]; }}" for g in range(3)
    )
    routine = kernel("in X: f32[N, C]; in W: f32[C, 3*H]; inout x: f32[3, N, H];", sums, "N, C, H")
    assert "x[g, n, j] += X[n, c] * W[c, H*g + j]" in text_after(routine, "batching")


def test_what_would_let_gates_be_one_is_a_kernel_that_is_rewritten() -> None:
    routine = kernel(
        "in X: f32[N, C]; in A: f32[C, H]; in B: f32[C, H]; inout r: f32[2, N, H];",
        """for n in N, j in H, c in C { r[0, n, j] += X[n, c] * A[c, j]; }
        for n in N, j in H, c in C { r[1, n, j] += X[n, c] * B[c, j]; }""",
        "N, C, H",
    )
    assert not steps(routine, "batching")
    (found,) = refused_rewrites(routine)
    assert found.help == "declare `in A_B: f32[2, C, H]` in place of `A` and `B`"
    assert found.kernel is not None
    assert "r[g, n, j] += X[n, c] * A_B[g, c, j]" in text_after(found.kernel, "batching")
