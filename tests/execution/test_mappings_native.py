"""A sample of random mappings carried down to C, compiled together and run on this processor."""

from __future__ import annotations

import pytest
from conftest import EXAMPLES
from properties.native_mappings import Attempt, attempts, run_batch

from isamap.machine import load_machine, missing_features

MACHINES = ("generic-c", "x86-avx2", "x86-avx512-bf16", "x86-avx512-vnni", "matmul-16x16x16")


@pytest.mark.exhaustive(fast=2)
@pytest.mark.hardware
@pytest.mark.parametrize("hw", MACHINES)
def test_a_compiled_mapping_computes_what_its_kernel_does(hw: str) -> None:
    machine = load_machine(hw)
    missing = missing_features(machine)
    if missing and machine.target.run != "model":
        pytest.skip(f"this processor lacks {', '.join(missing)}")
    batch: list[Attempt] = []
    seed = 0
    while len(batch) < EXAMPLES // len(MACHINES):
        batch += [a for a in attempts(seed, machine) if a.program is not None]
        seed += 1
    assert [a.story() for a in run_batch(batch, machine)] == []
