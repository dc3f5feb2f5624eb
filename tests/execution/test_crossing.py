"""Schedules that let work cross iterations by decision, run and compared with the interpreter."""

from __future__ import annotations

import pytest
from execution.test_overlap import check

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.plan.check import check_schedule
from isamap.source import Source

Sizes = dict[str, int]


def compiled(kernel: str, machine: str, sizes: Sizes, fixed: Sizes) -> Compilation:
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text())
    made = compile_kernel(Request(source, machine, dict(sizes), fixed=fixed, model=True))
    assert made.schedule is not None
    assert made.problem is not None
    assert check_schedule(made.schedule, made.problem) == ()
    return made


def crossed(made: Compilation) -> set[str]:
    assert made.schedule is not None
    (nest,) = made.schedule.nests
    return {s.operand for s in nest.stages if s.ahead} | {s.operand for s in nest.spread}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"M": 192, "N": 64, "K": 96}, {"c"}),
        ({"M": 100, "N": 130, "K": 71}, {"c"}),
        ({"M": 17, "N": 200, "K": 33}, {"c"}),
        ({"M": 16, "N": 16, "K": 16}, set[str]()),
    ],
)
def test_what_the_solver_lets_cross_turns_of_an_array_comes_out_right(
    sizes: Sizes, expected: set[str]
) -> None:
    made = compiled("gemm_s8s8", "systolic-16", sizes, {})
    assert expected <= crossed(made)
    check(made, "gemm_s8s8", sizes, {})


def test_large_blocks_are_filled_early_too() -> None:
    sizes = {"M": 520, "N": 40, "K": 500}
    made = compiled("gemm_s8s8", "systolic-16", sizes, {"ahead.a": 1, "block.m": 176})
    assert "a" in crossed(made)
    check(made, "gemm_s8s8", sizes, {})


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize(
    ("kernel", "machine", "fixed"),
    [
        ("gemm_f32", "x86-avx2", {"ahead.b": 1}),
        ("gemm_f32", "x86-avx512", {"ahead.a": 1, "ahead.b": 1, "spread.c": 1}),
        ("gemm_bf16", "x86-amx", {"spread.c": 1}),
        ("gemm_bf16", "x86-amx", {"ahead.b": 1, "spread.c": 1}),
    ],
)
@pytest.mark.parametrize("sizes", [{"M": 64, "N": 128, "K": 96}, {"M": 39, "N": 105, "K": 71}])
def test_what_a_person_lets_cross_turns_on_a_processor_comes_out_right(
    kernel: str, machine: str, fixed: Sizes, sizes: Sizes
) -> None:
    made = compiled(kernel, machine, sizes, fixed)
    assert crossed(made) >= {name.rpartition(".")[2] for name in fixed}  # the solver may let more cross
    check(made, kernel, sizes, {})
