"""Matrix products of every type on every machine, at sizes that the program learns when it is called.

Every tensor lies beside memory that must not be touched. What this processor lacks runs as a plain-C model.
"""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.kernels import kernel_path
from isamap.source import Source

MACHINES = ("generic-c", "x86-avx2", "x86-avx512", "x86-avx512-vnni", "x86-avx512-bf16", "x86-amx")
TYPES = ("f32", "f64", "bf16", "bf16_f32", "u8s8", "s8s8")
SIZES = ((1, 1, 1), (17, 37, 19), (33, 64, 70), (6, 128, 3))

ON_EACH = [(hw, f"gemm_{t}") for hw in MACHINES for t in TYPES]
STORED_OTHERWISE = [
    ("x86-avx512", f"gemm_{s}_{t}") for s in ("nt", "tn") for t in ("f32", "bf16_f32", "u8s8")
]


@pytest.mark.exhaustive(fast=2)
@pytest.mark.hardware
@pytest.mark.parametrize(("hw", "name"), ON_EACH + STORED_OTHERWISE)
def test_a_product_is_right_at_any_size(hw: str, name: str) -> None:
    text = kernel_path(name).read_text(encoding="utf-8")
    sizes = {"M": "1..200@64", "N": "1..200@64", "K": "1..200@64"}
    prepared = prepare(Request(Source(f"{name}.ir", text), hw, sizes, heuristic="greedy"))
    for m, n, k in SIZES:
        case = verify_case(prepared, {"M": m, "N": n, "K": k}, "integers")
        assert case.ok, case.problems[0].render()
