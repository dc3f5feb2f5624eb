"""Copies in both orders, of sizes that leave remainders: the same results, beside memory that is guarded."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request, Size
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import all_cases
from isamap.kernels import kernel_path
from isamap.machine import load_machine, missing_features
from isamap.plan.text import print_schedule
from isamap.source import Source

SIZES: dict[str, Size] = {"M": 19, "N": 75, "K": 101}
OPEN: dict[str, Size] = {"M": "1..64@19", "N": "1..99@75", "K": "1..128@101"}
WHOLE: dict[str, int | None] = {"stage.b": 2, "rows.b": 1}
BLOCKS: dict[str, int | None] = {"stage.b": 1, "rows.b": 1, "block.n": 64, "block.k": 64}
SHIFTED = """
kernel shifted(M, N, K) {{
  in A: {type}[M, K];
  in B: {type}[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K {{
    C[m, n] += f32(A[m, k]) * f32(B[k - 2, n - 3] else 0);
  }}
}}
"""


def prepared(
    kernel: Source,
    hw: str,
    sizes: dict[str, Size],
    fixed: dict[str, int | None],
    *,
    model: bool,
    threads: int,
) -> PreparedKernel:
    """Return the kernel with a copy by rows, emitted for this processor or in model mode."""
    if not model and (missing := missing_features(load_machine(hw))):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    made = prepare(Request(kernel, hw, sizes, heuristic="greedy", fixed=fixed, model=model, threads=threads))
    assert made.program.compilation.schedule is not None
    assert " by rows" in print_schedule(made.program.compilation.schedule)
    return made


def check(found: PreparedKernel) -> None:
    """Its results are those of the interpreter, and nothing beside its arrays is touched."""
    cases = list(all_cases(found, ("integers", "random"), guard=True))
    assert cases
    assert not [d.render() for case in cases for d in case.problems]


@pytest.mark.hardware
@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sizes", [SIZES, OPEN], ids=["known", "open"])
@pytest.mark.parametrize("fixed", [WHOLE, BLOCKS], ids=["whole", "blocks"])
@pytest.mark.parametrize(
    ("kernel", "hw", "model"),
    [
        ("gemm_f32", "x86-avx512", False),
        ("gemm_f32", "x86-avx2", False),
        ("gemm_s8s8", "x86-avx512-vnni", False),
        ("gemm_bf16_f32", "x86-amx", True),
        ("gemm_s8s8", "x86-amx", True),
    ],
)
def test_products_are_right_with_weights_copied_by_rows(
    kernel: str, hw: str, model: bool, fixed: dict[str, int | None], sizes: dict[str, Size], threads: int
) -> None:
    text = Source(f"{kernel}.ir", kernel_path(kernel).read_text(encoding="utf-8"))
    found = prepared(text, hw, sizes, fixed, model=model, threads=threads)
    check(found)


@pytest.mark.hardware
@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("fixed", [WHOLE, BLOCKS], ids=["whole", "blocks"])
@pytest.mark.parametrize(
    ("hw", "dtype", "model"), [("x86-avx512", "f32", False), ("x86-amx", "bf16", True)], ids=str
)
def test_elements_outside_an_array_are_its_fill(
    hw: str, dtype: str, model: bool, fixed: dict[str, int | None]
) -> None:
    text = Source("shifted.ir", SHIFTED.format(type=dtype))
    check(prepared(text, hw, SIZES, fixed, model=model, threads=2))
