"""Which sizes of cache blocks are looked at, and what loops touch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from plan_problems import gemm, gemm_option

from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import with_fields
from isamap.scheduler.deciding.space import MIN_SUMMING_TRIPS, Space
from isamap.scheduler.deciding.tiling import touched_bytes

IN_PLACE = {"nest0.stage.a": 0, "nest0.stage.b": 0, "nest0.stage.c": 0}


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


def test_pieces_of_rows_take_whole_lines_of_a_cache() -> None:
    option = gemm_option(64, 256, 512)
    a, b, c = option.operands
    inside = {"m": Const(6), "n": Const(16), "k": Const(4)}
    plain = Space(0, option, {"zmm": 32}, {})
    assert evaluate(touched_bytes(plain, inside), IN_PLACE) == 4 * (24 + 64 + 96)
    lines = replace(option, operands=tuple(with_fields(o, least_row_bytes=64) for o in (a, b, c)))
    space = Space(0, lines, {"zmm": 32}, {})
    # Four elements of each of six rows of A in place, and four beside each other in a buffer.
    assert evaluate(touched_bytes(space, inside), IN_PLACE) == 6 * 64 + 4 * (64 + 96)
    assert evaluate(touched_bytes(space, inside), IN_PLACE | {"nest0.stage.a": 1}) == 4 * (24 + 64 + 96)
    longer = {**inside, "k": Const(100)}
    assert evaluate(touched_bytes(space, longer), IN_PLACE) == 4 * (600 + 1600 + 96)


def test_windows_of_rows_take_whole_lines_of_a_cache() -> None:
    option = gemm_option(64, 256, 512)
    a, *others = option.operands
    window = (("m", 1),), (("k", 2),)
    a = with_fields(a, least_row_bytes=64, subscripts=window)
    space = Space(0, replace(option, operands=(a, *others)), {"zmm": 32}, {})
    inside = {"m": Const(6), "n": Const(16), "k": Const(4)}
    assert evaluate(touched_bytes(space, inside), IN_PLACE) == 6 * 64 + 4 * (64 + 96)
    assert evaluate(touched_bytes(space, {**inside, "k": Const(20)}), IN_PLACE) == 4 * (6 * 39 + 320 + 96)


def test_rows_between_those_that_are_read_are_not_touched() -> None:
    """`A[4*m + 1, k]` reads a row of four; once all four counted."""
    option = gemm_option(64, 256, 512)
    a, *others = option.operands
    a = with_fields(a, least_row_bytes=64, subscripts=((("m", 4),), (("k", 1),)))
    space = Space(0, replace(option, operands=(a, *others)), {"zmm": 32}, {})
    inside = {"m": Const(6), "n": Const(16), "k": Const(20)}
    assert evaluate(touched_bytes(space, inside), IN_PLACE) == 4 * (6 * 20 + 320 + 96)
    window = with_fields(a, subscripts=((("m", 4), ("k", 1)), (("k", 1),)))
    space = Space(0, replace(option, operands=(window, *others)), {"zmm": 32}, {})
    assert evaluate(touched_bytes(space, inside), IN_PLACE) == 4 * (40 * 20 + 320 + 96)
