"""Units that have their registers to themselves, by what descriptions say."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.plan.problem import TileOperand
from isamap.source import Source


def input_b(kernel: str, machine: str) -> TileOperand:
    """Return the second input under the first mapping of a product of 64 x 64 x 64."""
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text())
    made = compile_kernel(Request(source, machine, dict.fromkeys("MNK", 64), heuristic="greedy"))
    assert made.problem is not None
    return next(o for o in made.problem.nests[0].options[0].operands if o.name == "b")


@pytest.mark.parametrize(
    ("kernel", "machine", "beside"),
    [
        ("gemm_bf16", "x86-amx", True),
        ("gemm_s8s8", "x86-amx", True),
        ("gemm_bf16", "x86-avx512-bf16", False),
        ("gemm_f32", "x86-avx2", False),
        ("gemm_f32", "generic-c", False),
    ],
)
def test_copies_go_by_other_units_where_nothing_else_computes_in_the_registers_of_sums(
    kernel: str, machine: str, *, beside: bool
) -> None:
    assert input_b(kernel, machine).staging.is_concurrent == beside
