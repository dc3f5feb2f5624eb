"""How tensors lie under loops, read off an operand's subscripts."""

from __future__ import annotations

from isamap.formulate.tensor_layout import lay_out
from isamap.ir import F32, Cast, Index, Kernel, Operand, Read
from isamap.plan.problem import Staging, TensorLayout, TileCosts, TileOperand, with_fields

PLAIN = TileOperand(
    "a", "A", ("m", "k"), False, "zmm", 1, 1, TensorLayout(4), TileCosts(0.1, 0.1), Staging(4, 0.1)
)
SIZE = Index.of("K")
KERNEL = Kernel("k", (), (Operand("A", "in", F32, (Index.of(64), SIZE)),), ())


def at(name: str) -> Index:
    return Index.of(f"@{name}")


def test_a_matrix_has_rows() -> None:
    found = lay_out(PLAIN, Cast(Read("A", (at("m"), at("k")), F32), F32), KERNEL, {"K": 100})
    assert (
        found.layout.subscripts,
        found.layout.dense_axis,
        found.layout.pitch_bytes,
        found.layout.next_row,
    ) == (
        (),
        "k",
        400,
        "m",
    )


def test_a_window_has_its_coefficients() -> None:
    found = lay_out(PLAIN, Read("A", (2 * at("m") + at("r") - 1, at("k")), F32), KERNEL, {"K": 100})
    assert (found.layout.subscripts, found.layout.next_row) == (((("m", 2), ("r", 1)), (("k", 1),)), "")


def test_a_row_that_is_not_walked_densely_has_no_dense_axis() -> None:
    found = lay_out(PLAIN, Read("A", (at("m"), 2 * at("k")), F32), KERNEL, {"K": 100})
    assert (found.layout.dense_axis, found.layout.subscripts) == ("", ((("m", 1),), (("k", 2),)))


def test_short_rows_one_behind_the_other_are_no_rows() -> None:
    filters = (Index.of(64), Index.of(9), Index.of(3))
    read = Read("F", (at("k"), at("c"), at("s")), F32)
    for strides, line, dense in (
        ((None, Index.of(3), Index.of(1)), 64, ""),
        ((None, Index.of(3), Index.of(1)), 8, "s"),  # a row of more than a line
        ((None, Index.of(4), Index.of(1)), 64, "s"),
        ((None, None, Index.of(1)), 64, "s"),
        (None, 64, "s"),
    ):
        kernel = Kernel("k", (), (Operand("F", "in", F32, filters, strides=strides),), ())
        assert lay_out(PLAIN, read, kernel, {}, line).layout.dense_axis == dense


def test_a_piece_of_a_long_row_takes_a_line_at_least() -> None:
    read = Read("A", (at("m"), at("k")), F32)
    assert lay_out(PLAIN, read, KERNEL, {"K": 100}, 64).layout.least_row_bytes == 64
    assert lay_out(PLAIN, read, KERNEL, {"K": 3}, 64).layout.least_row_bytes == 12


UNKNOWN = with_fields(PLAIN, in_rows=False)


def test_what_is_not_plain_stays_unknown() -> None:
    assert lay_out(PLAIN, Read("A", (at("m").floordiv(3), at("k")), F32), KERNEL, {}) == UNKNOWN
    assert lay_out(PLAIN, Read("A", (at("m") * SIZE, at("k")), F32), KERNEL, {}) == UNKNOWN
    assert lay_out(PLAIN, None, KERNEL, {}) == UNKNOWN
