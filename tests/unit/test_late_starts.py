"""Integer sums start from 0 where their one reader can add the value that they began with."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.inputs import load_machine
from isamap.ir import Kernel, interpret, print_routine
from isamap.match.refusals.refuse import adds_to_narrowed
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform.split_sums import with_late_starts

TEXT = """kernel layer() {
  in A: i8[5, 7];
  in B: i8[7, 3];
  in bias: i32[3];
  temp S: i32[5, 3];
  out Y: i8[5, 3];
  for m in 5, n in 3 { S[m, n] = bias[n]; }
  for m in 5, n in 3, k in 7 { S[m, n] += i32(A[m, k]) * i32(B[k, n]); }
  for p in 5, q in 3 { Y[p, q] = sat_i8(S[p, q] >> 8); }
}
"""


def kernel(text: str) -> Kernel:
    return parse_kernel(Source("layer.ir", text))


def test_a_sum_that_starts_late_has_the_same_results_also_where_it_wraps_around() -> None:
    late = with_late_starts(kernel(TEXT))
    assert late is not None
    text = print_routine(late)
    assert "S[m, n] = 0" in text
    assert "S[p, q] + bias[q]" in text
    drawn = np.random.default_rng(0)
    arrays = {
        "A": drawn.integers(-128, 128, (5, 7)).astype(np.int8),
        "B": drawn.integers(-128, 128, (7, 3)).astype(np.int8),
        "bias": np.array([2**31 - 1, -(2**31), 5], np.int32),
    }
    one, other = interpret(kernel(TEXT), arrays, {}), interpret(late, arrays, {})
    assert np.array_equal(one["Y"], other["Y"])
    assert one["Y"].any()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bias[n];", "0;"),  # it starts from 0 already
        ("S[p, q] >> 8", "(S[p, q] + S[p, 0]) >> 8"),  # two reads
        ("temp S", "out S"),  # others see the sums
        ("in bias: i32", "inout bias: i32"),  # its value may change, and is one of the results
    ],
)
def test_other_sums_are_left_as_they_are(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    if "inout" in new:
        changed = changed.replace("for p in", "for n in 3 { bias[n] = 0; }\n  for p in")
    assert with_late_starts(kernel(changed)) is None


def test_a_machine_with_and_one_without_such_an_instruction() -> None:
    assert adds_to_narrowed(load_machine("edge-npu"))
    assert not adds_to_narrowed(load_machine("gemmini"))
