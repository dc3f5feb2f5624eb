"""Random schedules dealt to threads perform their kernels, whatever is staged, cut and shared."""

from __future__ import annotations

from random import Random

import pytest
from properties.parallel_schedules import dealt_schedule
from properties.random_schedules import random_schedule

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.kernels import kernel_path
from isamap.plan.text import print_schedule
from isamap.source import Source

KERNELS: tuple[tuple[str, str, dict[str, Size]], ...] = (
    ("gemm_f32", "x86-avx512", {"M": 29, "N": 67, "K": 41}),
    ("gemm_bf16", "x86-amx", {"M": 40, "N": 70, "K": 90}),
    ("gemm_bias_relu_f32", "x86-avx2", {"M": 29, "N": 67, "K": 41}),
    ("gemm_u8s8", "x86-avx512-vnni", {"M": 20, "N": 50, "K": 60}),
    ("conv2d_nchw", "generic-c", {"N": 2, "C": 3, "K": 5, "H": 9, "W": 8, "R": 3, "S": 3, "pad": 1}),
    ("conv2d_nchw", "x86-avx512", {"N": 2, "C": 3, "K": 20, "H": 9, "W": 8, "R": 3, "S": 3, "pad": 1}),
    ("gru", "x86-avx2", {"T": 3, "N": 2, "C": 5, "H": 9}),
)


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize(("name", "hw", "sizes"), KERNELS)
def test_random_schedules_in_parts_are_right(name: str, hw: str, sizes: dict[str, Size]) -> None:
    source = Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))
    matched = compile_kernel(Request(source, hw, sizes), "formulate")
    assert matched.problem is not None
    random, tried = Random(name + hw), 0
    while tried < 2:
        plain = random_schedule(matched.problem, random)
        schedule = plain and dealt_schedule(plain, matched.problem, random)
        if schedule is None:
            continue
        tried += 1
        text = print_schedule(schedule)
        prepared = prepare(Request(source, hw, sizes, schedule=Source("x", text), threads=2))
        numbers = {n: v for n, v in schedule.sizes if isinstance(v, int)}
        case = verify_case(prepared, numbers, "integers")
        assert case.ok, f"{text}\n{case.problems[0].render()}"
