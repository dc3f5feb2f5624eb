"""Products with transposed weights on this processor: packed by transpositions, remainders right as well."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.kernels import kernel_path
from isamap.machine import load_machine, missing_features
from isamap.source import Source


@pytest.mark.silicon
@pytest.mark.parametrize(("hw", "used"), [("x86-avx2", "transpose8_f32"), ("x86-avx512", "transpose16_f32")])
@pytest.mark.parametrize("sizes", [{"M": 20, "N": 35, "K": 53}, {"M": 16, "N": 64, "K": 32}], ids=str)
def test_weights_are_packed_by_transpositions(hw: str, used: str, sizes: dict[str, int]) -> None:
    if missing := missing_features(load_machine(hw)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    text = kernel_path("gemm_nt_f32").read_text(encoding="utf-8")
    prepared = prepare(Request(Source("gemm_nt_f32.ir", text), hw, {**sizes}, heuristic="greedy"))
    assert prepared.ran_on == "native"
    program = prepared.program.compilation.program
    assert program is not None
    assert used in program.instructions()
    cases = list(all_cases(prepared, ("integers", "random"), guard=True))
    assert len(cases) == 2
    assert not [d.render() for case in cases for d in case.problems]
