"""Sums that are unrolled, with rests and cut short by cache blocks, compared with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.ir import bind, interpret
from isamap.kernels import kernel_path
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel


def check(
    kernel: str, machine: str, sizes: dict[str, Size], fixed: dict[str, int], actual: dict[str, int]
) -> None:
    """Small integers, whose sums every order rounds alike."""
    source = Source(f"{kernel}.ir", kernel_path(kernel).read_text())
    made = compile_kernel(
        Request(source, machine, sizes, fixed=fixed, heuristic="greedy", model=True, cache=False)
    )
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    assert made.schedule
    assert any(x.is_unrolled and x.axis == "k" for x in made.schedule.nests[0].loops)
    rng = np.random.default_rng(1)
    bound = bind(parse_kernel(source), actual)
    arrays = {
        o.name: rng.integers(0, 3, tuple(s.value or 1 for s in o.shape)).astype(o.dtype.numpy())
        for o in bound.operands
    }
    opened = {name: value for name, value in actual.items() if not isinstance(sizes[name], int)}
    result = run_program(compile_library(made.emitted, made.machine), arrays, opened, guard=True)
    assert result.status == 0, result.meaning
    expected = interpret(bound, arrays, {})["C"]
    assert np.array_equal(np.asarray(result.arrays["C"], np.float64), np.asarray(expected, np.float64))


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(
    ("kernel", "machine", "factor"),
    [("gemm_f32", "x86-avx2", 4), ("gemm_bf16", "x86-amx", 3), ("gemm_u8s8", "x86-avx512-vnni", 2)],
)
def test_a_rest_of_an_unrolled_sum_is_performed(kernel: str, machine: str, factor: int) -> None:
    sizes = {"M": 7, "N": 37, "K": 107}
    check(kernel, machine, {**sizes}, {"unroll.k": factor}, sizes)


def test_a_cache_block_may_end_inside_an_unrolled_turn() -> None:
    sizes = {"M": 7, "N": 37, "K": 101}
    check("gemm_f32", "x86-avx2", {**sizes}, {"unroll.k": 4, "block.k": 30}, sizes)


def test_a_sum_whose_length_only_the_run_knows_is_unrolled() -> None:
    for extent in (3, 64, 131):
        actual = {"M": 5, "N": 19, "K": extent}
        check("gemm_f32", "x86-avx2", {"M": 5, "N": 19, "K": "1..256@64"}, {"unroll.k": 4}, actual)
