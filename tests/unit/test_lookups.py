"""Look-ups: instructions that read a table at the values of another operand, and which subscripts they perform."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isamap.ir import DTYPES, F32, Index, Read
from isamap.ir.index import ONE, Element
from isamap.machine import load_machine
from isamap.match import LoadRequest, Location, MoveSearch, OperandMove, find_operand_load
from isamap.match.patterns.pattern import pattern_of
from isamap.match.patterns.unify import unify

AVX512 = load_machine("x86-avx512")
LANE, N, H = Index.of("%0"), Index.of("@n"), Index.of("@h")


def code(low: int, high: int, at: Index = N + LANE, buffer: str = "c") -> Index:
    return Index.of(Element(buffer, at, Index.of(low), Index.of(high), Index.of(1000)))


def found(
    *index: Index, dtype: str = "f32", codes: str = "i32", valid: int | None = None
) -> OperandMove | None:
    """Return how a register of elements of T at these subscripts is loaded."""
    strides = {"T": (Index.of(256), ONE)[2 - len(index) :], "S": (Index.of("S.s0"), ONE), "c": (ONE,)}
    search = MoveSearch(AVX512, strides, index_types={"c": DTYPES[codes]})
    element = DTYPES[dtype]
    lanes = 64 * 8 // element.bits
    expr = Read("T", index, element)
    parts = (None if valid is None else Index.of(valid),)
    request = LoadRequest(expr, "zmm", element, (lanes,), parts)
    made = find_operand_load(search, request)
    assert made is None or isinstance(made, OperandMove)
    return made


def names(move: OperandMove | Location | object) -> Iterator[str]:
    if isinstance(move, OperandMove):
        yield move.instruction
        for _, source in move.inputs:
            yield from names(source)


def test_a_table_in_a_register_is_read_at_codes() -> None:
    made = found(code(0, 15))
    assert list(names(made)) == ["lookup_zmm_f32", "load_zmm_i32", "load_zmm_f32"]
    assert made is not None
    chain = dict(made.inputs)["t"]
    assert isinstance(chain, OperandMove)
    (table,) = chain.inputs
    assert table == ("a", Location("T", Index.of(0), (ONE,)))


def test_a_remainder_that_the_instruction_takes_itself_is_not_computed() -> None:
    assert list(names(found(code(0, 255).mod(16), codes="u8"))) == [
        "lookup_zmm_f32", "cvt_zmm_u8_i32", "load_xmm_u8", "load_zmm_f32",
    ]  # fmt: skip


def test_high_bits_are_shifted_down() -> None:
    shifted = list(names(found(code(0, 255).floordiv(16), codes="u8")))
    assert shifted[0] == "lookup_zmm_f32"
    assert shifted[1].startswith("sr")


def test_codes_that_an_instruction_is_not_described_for_are_masked_first() -> None:
    """`lookup_zmm_i8` gives zero for codes from 128 on: the remainder by 16 has to be computed."""
    plain = list(names(found(code(0, 127).mod(16), dtype="i8", codes="u8")))
    masked = list(names(found(code(0, 255).mod(16), dtype="i8", codes="u8")))
    assert plain == ["lookup_zmm_i8", "load_zmm_u8", "load_xmm_i8"]
    assert masked[0] == "lookup_zmm_i8"
    assert masked[1].startswith("and")


def test_a_longer_table_is_gathered_from_memory() -> None:
    made = found(H, code(0, 255))
    assert list(names(made)) == ["gather_zmm_f32", "load_zmm_i32"]
    assert made is not None
    assert dict(made.inputs)["t"] == Location("T", H * 256, (ONE,))
    assert dict(made.params)["T"] == Index.of(256)


def test_rows_of_a_table_are_gathered_over_a_known_distance() -> None:
    made = found(code(0, 7), H)
    assert made is not None
    assert made.instruction == "gather_zmm_f32"
    assert dict(made.params)["T"] == Index.of(7 * 256 + 1)


@pytest.mark.parametrize(
    "index",
    [
        (code(-1, 14),),  # below the table
        (code(0, 1 << 40),),  # no i32
        (code(0, 15) * -1 + 15,),  # backwards
        (code(0, 15, N),),  # the same code in all lanes: a broadcast
    ],
)
def test_other_subscripts_are_not_looked_up(index: tuple[Index, ...]) -> None:
    looked = [n for n in names(found(*index)) if n.startswith(("lookup", "gather"))]
    assert looked == []


def test_lanes_that_do_not_matter_read_no_memory() -> None:
    """Codes behind the valid ones are anything: a gather would read anywhere, a permutation does not."""
    assert found(code(0, 255), valid=5) is None
    assert next(names(found(code(0, 15), valid=5))) == "lookup_zmm_f32"


def test_a_look_up_unifies_with_nothing() -> None:
    """Its table would else stand for any expression, its codes for none."""
    pattern = pattern_of(AVX512.instructions["lookup_zmm_f32"].instruction)
    assert pattern is not None
    assert list(unify(pattern.value, Read("A", (N,), F32))) == []
