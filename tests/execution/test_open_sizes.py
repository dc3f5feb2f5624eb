"""Programs whose sizes come with the call, at every rest that a block can leave, beside guarded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from isamap.driver.request import Request, Size
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import verify_case
from isamap.kernels import kernel_path
from isamap.source import Source

MACHINES = ("generic-c", "x86-avx2", "x86-avx512", "x86-avx512-vnni", "x86-avx512-bf16")


def made(hw: str, name: str, sizes: dict[str, Size], threads: int = 1) -> PreparedKernel:
    text = kernel_path(name).read_text(encoding="utf-8")
    return prepare(Request(Source(f"{name}.ir", text), hw, sizes, heuristic="greedy", threads=threads))


def blocks(prepared: PreparedKernel) -> dict[str, int]:
    """Return the innermost block of each axis."""
    schedule = prepared.program.compilation.schedule
    assert schedule
    return {loop.axis: loop.step for loop in schedule.nests[0].loops if not loop.is_unrolled}


def check(prepared: PreparedKernel, every: Iterable[dict[str, int]]) -> None:
    for sizes in every:
        case = verify_case(prepared, sizes, "integers")
        assert case.guarded
        assert case.ok, (sizes, case.problems[0].render())


@pytest.mark.exhaustive(fast=3)
@pytest.mark.hardware
@pytest.mark.parametrize(
    ("hw", "name"),
    [*((hw, "gemm_f32") for hw in MACHINES), ("x86-avx512-bf16", "gemm_bf16"), ("x86-avx2", "gemm_u8s8")],
)
def test_every_number_of_rows_is_right(hw: str, name: str) -> None:
    prepared = made(hw, name, {"M": "1..300@90", "N": 37, "K": 11})
    check(prepared, ({"M": m, "N": 37, "K": 11} for m in range(1, 2 * blocks(prepared)["m"] + 4)))


@pytest.mark.exhaustive(fast=1)
@pytest.mark.hardware
@pytest.mark.parametrize("hw", ["x86-avx2", "x86-avx512"])
def test_two_open_sizes_leave_rests_of_each(hw: str) -> None:
    prepared = made(hw, "gemm_f32", {"M": "1..300@90", "N": "1..300@96", "K": 5})
    m, n = (blocks(prepared)[axis] for axis in "mn")
    rows, columns = (1, m - 1, m, m + 2), (1, 7, 16, n - 1, n, n + 8, 2 * n + 17)
    check(prepared, ({"M": m, "N": n, "K": 5} for m in rows for n in columns))


@pytest.mark.hardware
def test_a_sum_of_open_length_is_right() -> None:
    prepared = made("x86-avx512-bf16", "gemm_bf16_f32", {"M": 3, "N": 40, "K": "1..64@32"})
    check(prepared, ({"M": 3, "N": 40, "K": k} for k in (1, 2, 3, 31, 32, 33)))


@pytest.mark.hardware
def test_rests_are_right_on_threads() -> None:
    prepared = made("x86-avx512", "gemm_f32", {"M": "1..400@256", "N": 200, "K": 100}, threads=2)
    schedule = prepared.program.compilation.schedule
    assert schedule
    assert schedule.nests[0].parallel
    check(prepared, ({"M": m, "N": 200, "K": 100} for m in (1, 5, 127, 128, 129, 200, 256, 300)))


def test_fewer_pieces_than_rests_are_right() -> None:
    sizes: dict[str, Size] = {"M": "1..99@40", "N": 5, "K": 3}
    found = made("generic-c", "gemm_f32", sizes)
    text = found.program.outcome.files["gemm_f32.schedule"]
    step = blocks(found)["m"]
    assert step == 4
    short = re.sub("for m by 4 ", "for m by 4 rest 2 1 ", text)
    assert short != text
    kernel = Source("gemm_f32.ir", kernel_path("gemm_f32").read_text(encoding="utf-8"))
    prepared = prepare(Request(kernel, "generic-c", sizes, schedule=Source("s.schedule", short)))
    check(prepared, ({"M": m, "N": 5, "K": 3} for m in range(1, 12)))
