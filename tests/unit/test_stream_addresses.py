"""Addresses of programs are whole numbers of any size: what no memory has is refused, and never wraps."""

from __future__ import annotations

from isamap.ir import DTYPES, Index, Operand
from isamap.stream.accesses import bytes_of, span_of
from isamap.stream.command import Place


def operand(*shape: int) -> Operand:
    return Operand("x", "in", DTYPES["f32"], tuple(Index.of(size) for size in shape))


def test_a_span_holds_the_bytes_of_an_operand() -> None:
    for strides in ((16, 4), (-16, 4), (4, 0)):
        place = Place("dram", 100, strides)
        at, span = bytes_of(operand(3, 2), place), span_of(operand(3, 2), place)
        assert (span.start, span.stop - 1) == (at.min(), at.max())


def test_a_span_reaches_as_far_as_numbers_do() -> None:
    assert span_of(operand(2), Place("dram", 2**64 - 1, (2**63,))).stop == 2**64 - 1 + 2**63 + 4
    assert not span_of(operand(0), Place("dram", 2**64, (4,)))
