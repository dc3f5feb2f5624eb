"""Tiles of an operand that a DMA engine brings together, and the copies of a buffer that take turns."""

from __future__ import annotations

import re

import pytest

from isamap.driver.encoded_programs import compile_words
from isamap.driver.inputs import read_kernel
from isamap.driver.request import Request, Size
from isamap.machine import load_machine
from isamap.source import Source
from isamap.stream.listing import list_program

SCHEDULE = """isamap schedule 1
kernel gemm_s8s8
machine vector-dsp
sizes K = 70, M = 6, N = 128
nest 0 {
  map mac { i: n } (a = A[m, k], b = B[k, n]);
  for n by 64 {
    stage b in local at 0;
    for m by 2 {
      stage a ahead 1 in local at 8192;
      stage c in local at 16384;
      hold;
      for k by 1 {
        unroll m by 1 {
          issue;
        }
      }
    }
  }
}
"""
SIZES: dict[str, Size] = {"M": 6, "N": 128, "K": 70}


@pytest.fixture(scope="module")
def listed() -> str:
    """Return a product of which rows of A are longer than the engine takes at once."""
    asked = Request(read_kernel("gemm_s8s8"), "vector-dsp", SIZES, schedule=Source("s.schedule", SCHEDULE))
    program, _ = compile_words(asked)
    return list_program(program, load_machine("vector-dsp"))


def moves(listed: str, array: str, buffer: str) -> list[tuple[int, int, str]]:
    """Return where in an array each move into a buffer begins, where it goes, and how much it takes."""
    found = re.findall(rf"dma_in_\w+ +x={array}\+(\d+) z={buffer}\+(\d+) (R=\d+ C=\d+)", listed)
    return [(int(a), int(z), size) for a, z, size in found]


def test_elements_of_a_row_are_brought_together_as_many_as_the_engine_takes(listed: str) -> None:
    found = moves(listed, "A", "a_tiles0")
    assert len(found) == 2 * 6 * 2, "six rows, for each of two blocks of columns, in two pieces"
    assert {size for _, _, size in found} == {"R=1 C=64", "R=1 C=6"}
    assert [z - a for a, z, _ in found[:4]] == [0, 0, 0, 0], "the buffer has k innermost as the array does"


def test_tiles_that_take_as_long_by_themselves_are_brought_one_by_one(listed: str) -> None:
    assert {size for _, _, size in moves(listed, "B", "b_tiles0")} == {"R=1 C=64"}


def test_copies_of_a_buffer_take_turns_from_one_loop_to_the_next(listed: str) -> None:
    firsts = [z for a, z, size in moves(listed, "A", "a_tiles0") if size == "R=1 C=64" and a % 140 == 0]
    assert firsts == [0, 140, 0, 140, 0, 140], (
        "three blocks of rows, twice: the fourth is not where the third is"
    )
