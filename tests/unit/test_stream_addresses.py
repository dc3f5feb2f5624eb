"""Addresses of programs are whole numbers of any size: what no memory has is refused, and never wraps."""

from __future__ import annotations

import numpy as np

from isamap.ir import DTYPES, Index, Instruction, Operand
from isamap.stream.accesses import accesses, span_of
from isamap.stream.command import Address, Command


def operand(*shape: int) -> Operand:
    return Operand("x", "in", DTYPES["f32"], tuple(Index.of(size) for size in shape))


def test_a_span_holds_the_bytes_of_an_operand() -> None:
    for strides in ((16, 4), (-16, 4), (4, 0)):
        x, span = operand(3, 2), span_of(operand(3, 2), Address("dram", 100, strides))
        move = Instruction("move", (), (x,), ())
        (access,) = accesses(Command("move", (("x", Address("dram", 100, strides)),)), move)
        at = set(access.of(np.arange(256)).reshape(-1).tolist())
        assert at == {
            100 + strides[0] * m + strides[1] * n + b for m in range(3) for n in range(2) for b in range(4)
        }
        assert (span.start, span.stop - 1) == (min(at), max(at))
        assert access.end == span.stop


def test_a_span_reaches_as_far_as_numbers_do() -> None:
    assert span_of(operand(2), Address("dram", 2**64 - 1, (2**63,))).stop == 2**64 - 1 + 2**63 + 4
    assert not span_of(operand(0), Address("dram", 2**64, (4,)))
