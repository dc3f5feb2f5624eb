"""Recurrent cells on AMX without a processor that has it: whole programs below Bochs (tests/bochs).

ISAMAP_BOCHS=~/bochs python -m pytest tests/execution/test_bochs.py -rs
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isamap import verify

RUN = Path(__file__).parents[1] / "bochs" / "run.py"
BUILT = os.environ.get("ISAMAP_BOCHS", "")
# No extent is a multiple of a tile's: rows, columns and pairs of the sum all have remainders.
SIZES = {"T": 2, "N": 5, "C": 19, "H": 37}

needs_bochs = pytest.mark.skipif(
    not BUILT, reason="needs ISAMAP_BOCHS, the folder that tests/bochs/build made: no AMX is run"
)


@needs_bochs
@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("kernel", ["gru_bf16", "lstm_bf16"])
def test_cells_are_right_on_emulated_tiles(kernel: str) -> None:
    cases = verify(kernel, "x86-amx", SIZES, emulator=f"{RUN} {BUILT}")
    assert [(case.ok, case.ran_on) for case in cases] == [(True, "emulator")] * 3
