"""The smallest pairs on which the matcher and trying everything once differed."""

from __future__ import annotations

import pytest
from matched import compare
from unit.matching import instruction, kernel, mappings

PRODUCT = """instruction product() {{
  inout c: f32[3] @ reg;
  in a: f32[3] @ {memory};
  in b: f32[3] @ reg;
  for i in 3 {{ c[i] += a[i] * b[i]; }}
}}"""

SQUARED = "in A: f32[6]; in B: f32[6]; inout Y: f32[6];", "for i in 6 { Y[i] += A[i] * B[i]; }"


@pytest.mark.parametrize(("memory", "count"), [("reg", 1), ("mem", 2)])
def test_operands_of_different_memories_are_not_exchanged(memory: str, count: int) -> None:
    assert len(mappings(instruction(PRODUCT.format(memory=memory)), kernel(*SQUARED))) == count


COUNTED = """instruction counted(choose R: 1..3) {{
  inout c: f32[R] @ reg;
  in a: f32[R] @ reg;
  for i in R {{ c[i] += f32({value}) * a[i]; }}
}}"""


@pytest.mark.parametrize(("value", "performed"), [("i", False), ("R", False), ("2", True)])
def test_axes_and_sizes_of_an_instruction_are_none_of_the_kernel(value: str, performed: bool) -> None:
    routine = kernel(
        "in A: f32[R]; inout Y: f32[R];", f"for i in R {{ Y[i] += f32({value}) * A[i]; }}", "R: 1..6"
    )
    assert bool(mappings(instruction(COUNTED.format(value=value)), routine)) is performed


WINDOW = """instruction window() {{
  inout c: f32[{lanes}, {lanes}] @ reg;
  in a: f32[{taps}] @ reg;
  for i in {lanes}, j in {lanes} {{ c[i, j] += a[i + j]; }}
}}"""


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("extent", [1, 2, 3, 4, 5])
def test_few_lanes_of_a_window_may_be_told_apart(lanes: int, extent: int) -> None:
    found = compare(
        WINDOW.format(lanes=lanes, taps=2 * lanes - 1),
        f"kernel k() {{ in A: f32[9]; inout Y: f32[9]; for x in {extent} {{ Y[x] += A[x]; }} }}",
    )
    assert (found.missing, found.extra, found.twice) == ([], [], [])


def test_axes_that_stay_empty_have_one_lane() -> None:
    halves = """instruction halves(choose J) {
      inout c: f32[J + 6, 2] @ reg;  in a: f32[J] @ reg;  in b: f32[2, 3] @ reg;
      for i in 3, j in J, k in 2 { c[(3*i + j) / 2, k] += a[j] * b[k, i]; }
    }"""
    squares = """kernel k() {
      in A: f32[3];  inout Y: f32[3];
      for i in 3, m in 2 { Y[i] += A[i] * A[i]; }
    }"""
    found = compare(halves, squares)
    assert found.missing == found.extra == []
    assert found.counts[0] > 0
