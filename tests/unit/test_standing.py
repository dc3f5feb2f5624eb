"""Prices: what does not move is named alike, so that mappings that differ in it only are priced once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isamap.ir import BF16, F32, Cast, Expr, Index, Read
from isamap.ir.index import ONE, ZERO
from isamap.machine import load_machine
from isamap.match import Copy, Suppliers, find_packing, packing_ns, standing

AVX512 = load_machine("x86-avx512")
LANE, N, C, ROW, PART = (Index.of(s) for s in ("%0", "@n.w", "@s.c", "~0", "~1"))


def element(*subscripts: Index) -> Read:
    return Read("X", subscripts, BF16)


def priced(expr: Expr) -> Expr:
    return standing(expr, lambda symbol: symbol.startswith("%"))


def test_what_holds_no_lane_is_one_symbol() -> None:
    found = priced(element(((N + ROW).floordiv(56)) * 3 + 1, C + LANE))
    assert found == element(Index.of("@0"), Index.of("@1") + LANE)


def test_equal_sums_keep_equal_symbols() -> None:
    place = C + ROW * 2 + LANE
    found = priced(element(place.floordiv(64), place.mod(64)))
    same = Index.of("@0") + LANE
    assert found == element(same.floordiv(64), same.mod(64))


def test_different_sums_keep_different_symbols() -> None:
    found = priced(element((N + LANE).floordiv(64), (C + LANE).mod(64)))
    assert found == element((Index.of("@0") + LANE).floordiv(64), (Index.of("@1") + LANE).mod(64))


def test_constants_factors_of_lanes_and_casts_stay() -> None:
    found = priced(Cast(element(ZERO, LANE * 2 + 3), F32))
    assert found == Cast(element(ZERO, LANE * 2 + 3), F32)


def test_divisions_by_sizes_stay_as_they_are() -> None:
    place = element((C + LANE).floordiv(Index.of("S")), ONE)
    assert priced(place) == place


@pytest.mark.parametrize(
    "subscripts",
    [
        (N, C + PART),
        ((N + ROW).floordiv(14), C + ROW * 2 + PART.mod(2), PART.floordiv(2)),
        ((C + ROW * 2 + PART.mod(2)).floordiv(48), (C + ROW * 2 + PART.mod(2)).mod(48), PART.floordiv(2)),
        (N + PART.mod(2), C + PART.floordiv(2)),
        ((N + PART).floordiv(3), (N + PART).mod(3)),
    ],
)
def test_a_packing_costs_what_it_costs_at_its_real_place(subscripts: tuple[Index, ...]) -> None:
    strides = tuple(Index.of(2000 // 100**d) for d in range(len(subscripts) - 1))
    suppliers = Suppliers(AVX512, {"X": (*strides, ONE), "tile": (ONE, Index.of(32), ONE)})
    copy = Copy(Read("tile", (Index.of("@offset"), ROW, PART), BF16), element(*subscripts), ("~0", "~1"))
    found = find_packing(copy, (16, 32), suppliers)
    assert packing_ns(copy, (16, 32), suppliers) == (None if found is None else found.cost_ns)


def test_copies_that_differ_in_their_place_only_are_priced_once() -> None:
    suppliers = Suppliers(AVX512, {"X": (Index.of("X.s0"), ONE), "tile": (ONE, Index.of(32), ONE)})
    copy = Copy(Read("tile", (Index.of("@offset"), ROW, PART), BF16), element(N, C + PART), ("~0", "~1"))
    moved = replace(copy, value=element(C * 2 + 1, N - ROW + PART))
    assert packing_ns(copy, (16, 32), suppliers) == packing_ns(moved, (16, 32), suppliers) is not None
    assert len(suppliers.packings) == 1
