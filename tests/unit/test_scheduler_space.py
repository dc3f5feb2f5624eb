"""Which sizes of cache blocks are looked at."""

from __future__ import annotations

from itertools import pairwise

import pytest
from plan_problems import gemm

from isamap.scheduler.deciding.space import MIN_SUMMING_TRIPS, Space


@pytest.mark.parametrize("length", [2560, 500_000, 3_000_001])
def test_long_sums_have_short_blocks_too(length: int) -> None:
    """Once a sum of 500000 had none shorter than 123: 4096 blocks were the most."""
    problem = gemm(16, 512, length)
    (option,) = problem.nests[0].options
    k = next(axis for axis in option.axes if axis.name == "k")
    blocks = Space(0, option, dict(problem.registers), {}).blocks(k, 1)
    assert blocks[0] == length
    assert MIN_SUMMING_TRIPS <= blocks[-1] < 2 * MIN_SUMMING_TRIPS
    assert all(longer < 3 * shorter for longer, shorter in pairwise(blocks))
