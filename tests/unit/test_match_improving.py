"""Rewrites that let instructions perform what no statement as written lets them."""

from __future__ import annotations

import pytest

from isamap.ir import Kernel, print_routine
from isamap.kernels import kernel_path
from isamap.machine import Machine, load_machine
from isamap.match import Gain, improving_rewrites
from isamap.source import Source
from isamap.syntax import parse_kernel


@pytest.fixture(scope="module")
def matrix() -> Machine:
    return load_machine("matmul-16x16x16")


def shipped(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def test_a_sum_of_three_factors_gains_the_product_of_its_pointwise_stage(matrix: Machine) -> None:
    first, *others = improving_rewrites(shipped("depthwise_separable_fused"), matrix)
    assert first.gains == (Gain("matmul", (2,), 14, 0),)
    assert first.rewrite.steps[0].startswith("factorisation: `X_F[n, c, p, q] +=")
    assert [o.gains[0].mappings for o in others] == [98]  # F and G multiplied first: an ordinary convolution


def test_a_recurrent_cell_gains_time_as_an_axis(matrix: Machine) -> None:
    (found,) = improving_rewrites(shipped("gru"), matrix)
    assert found.gains == (Gain("matmul", (2,), 18, 6),)
    assert "seq t in T {\n    for g in 3" in print_routine(found.rewrite.kernel)


def test_gates_gain_an_axis_by_being_one(matrix: Machine) -> None:
    sums = "".join(
        f"for n in N, j in H, c in C {{ x[{g}, n, j] += X[n, c] * W[{g}, c, j]; }}" for g in range(3)
    )
    operands = "in X: f32[N, C]; in W: f32[3, C, H]; inout x: f32[3, N, H];"
    gates = parse_kernel(Source("gates", f"kernel gates(N, C, H) {{ {operands} {sums} }}"))
    (found,) = improving_rewrites(gates, matrix)
    assert found.gains == (Gain("matmul", (0,), 6, 2),)


@pytest.mark.parametrize("name", ["gemm_f32", "conv2d_nchw", "depthwise_separable"])
def test_what_matches_as_it_stands_gains_nothing(name: str, matrix: Machine) -> None:
    assert improving_rewrites(shipped(name), matrix) == ()
