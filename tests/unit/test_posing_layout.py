"""How tensors lie under loops, read off an operand's subscripts."""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import F32, Cast, Index, Kernel, Operand, Read
from isamap.plan.problem import TileOperand
from isamap.posing.layout import lay_out

PLAIN = TileOperand("a", "A", ("m", "k"), False, "zmm", 1, 1, 4, 4, 0.1, 0.1, 0.1)
SIZE = Index.of("K")
KERNEL = Kernel("k", (), (Operand("A", "in", F32, (Index.of(64), SIZE)),), ())


def at(name: str) -> Index:
    return Index.of(f"@{name}")


def test_a_matrix_has_rows() -> None:
    found = lay_out(PLAIN, Cast(Read("A", (at("m"), at("k")), F32), F32), KERNEL, {"K": 100})
    assert (found.subscripts, found.dense_axis, found.pitch_bytes, found.next_row) == ((), "k", 400, "m")


def test_a_window_has_its_coefficients() -> None:
    found = lay_out(PLAIN, Read("A", (2 * at("m") + at("r") - 1, at("k")), F32), KERNEL, {"K": 100})
    assert (found.subscripts, found.next_row) == (((("m", 2), ("r", 1)), (("k", 1),)), "")


def test_a_row_that_is_not_walked_densely_has_no_dense_axis() -> None:
    found = lay_out(PLAIN, Read("A", (at("m"), 2 * at("k")), F32), KERNEL, {"K": 100})
    assert (found.dense_axis, found.subscripts) == ("", ((("m", 1),), (("k", 2),)))


UNKNOWN = replace(PLAIN, in_rows=False)


def test_what_is_not_plain_stays_unknown() -> None:
    assert lay_out(PLAIN, Read("A", (at("m").floordiv(3), at("k")), F32), KERNEL, {}) == UNKNOWN
    assert lay_out(PLAIN, Read("A", (at("m") * SIZE, at("k")), F32), KERNEL, {}) == UNKNOWN
    assert lay_out(PLAIN, None, KERNEL, {}) == UNKNOWN
