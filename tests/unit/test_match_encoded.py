"""Numbers that are encoded in an instruction stand for numbers of the kernel."""

from __future__ import annotations

import pytest
from unit.matching import instruction, kernel, mappings

SHIFT = """instruction srai(imm S: 0..31) {
  in a: i32[16] @ reg;
  out z: i32[16] @ reg;
  for i in 16 { z[i] = a[i] >> i32(S); }
}"""


def shifts(by: str) -> list[str]:
    operands = "in X: i32[M]; in D: i32[M]; out Y: i32[M];"
    found = mappings(
        instruction(SHIFT), kernel(operands, f"for m in M {{ Y[m] = X[m] >> {by}; }}", "M, N: 1..8")
    )
    return [m.ident for m in found]


def test_a_number_of_the_kernel_is_encoded() -> None:
    assert shifts("3") == ["srai { i: m } (S = 3, a = X[m])"]
    assert shifts("0") == ["srai { i: m } (S = 0, a = X[m])"]


@pytest.mark.parametrize("by", ["i32(N)", "D[m]", "i32(m % 4)"])
def test_what_is_known_at_run_time_only_is_not_encoded(by: str) -> None:
    assert shifts(by) == []


def test_a_number_outside_the_range_is_not_encoded() -> None:
    narrow = instruction(SHIFT.replace("0..31", "1..7"))
    for by, count in (("7", 1), ("8", 0), ("0", 0)):
        routine = kernel("in X: i32[M]; out Y: i32[M];", f"for m in M {{ Y[m] = X[m] >> {by}; }}", "M")
        assert len(mappings(narrow, routine)) == count


def test_one_number_stands_for_one_parameter() -> None:
    twice = instruction(
        SHIFT.replace("a[i] >> i32(S)", "(a[i] >> i32(S)) + (b[i] >> i32(S))").replace(
            "in a: i32[16] @ reg;", "in a: i32[16] @ reg; in b: i32[16] @ reg;"
        )
    )
    operands = "in X: i32[M]; in Y: i32[M]; out Z: i32[M];"
    for by, count in ((3, 1), (4, 0)):
        loops = f"for m in M {{ Z[m] = wrap_i32((X[m] >> 3)) + (Y[m] >> {by}); }}".replace("wrap_i32", "")
        found = mappings(twice, kernel(operands, loops, "M"))
        assert len([m for m in found if not m.composed]) == count
        assert [m.ident for m in found if m.composed] == [
            f"srai {{ i: m }} (S = 0, a = X[m] >> 3, b = Y[m] >> {by})"
        ]
