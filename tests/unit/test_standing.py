"""Prices: what does not move is named alike, so that mappings that differ in it only are priced once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.rewriting import shipped

from isamap.formulate.build import build_problem
from isamap.ir import BF16, F32, Call, Cast, Const, Expr, Index, Read, bind
from isamap.ir.index import ONE, ZERO
from isamap.machine import load_machine
from isamap.match import Copy, MoveSearch, find_packing, hide_position, packing_ns
from isamap.match.operand_loads.standing import lane_layout
from isamap.transform import make_guards_explicit

AVX512 = load_machine("x86-avx512")
LANE, N, C, ROW, PART = (Index.of(s) for s in ("%0", "@n.w", "@s.c", "~0", "~1"))


def element(*subscripts: Index) -> Read:
    return Read("X", subscripts, BF16)


def priced(expr: Expr) -> Expr:
    return hide_position(expr, lambda symbol: symbol.startswith("%"))


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
    search = MoveSearch(AVX512, {"X": (*strides, ONE), "tile": (ONE, Index.of(32), ONE)})
    copy = Copy(Read("tile", (Index.of("@offset"), ROW, PART), BF16), element(*subscripts), ("~0", "~1"))
    found = find_packing(copy, (16, 32), search)
    assert packing_ns(copy, (16, 32), search) == (None if found is None else found.cost_ns)


def test_copies_that_differ_in_their_place_only_are_priced_once() -> None:
    search = MoveSearch(AVX512, {"X": (Index.of("X.s0"), ONE), "tile": (ONE, Index.of(32), ONE)})
    copy = Copy(Read("tile", (Index.of("@offset"), ROW, PART), BF16), element(N, C + PART), ("~0", "~1"))
    moved = replace(copy, value=element(C * 2 + 1, N - ROW + PART))
    assert packing_ns(copy, (16, 32), search) == packing_ns(moved, (16, 32), search) is not None
    assert len(search.packings) == 1


STRIDES = {
    "X": (Index.of("X.s0"), Index.of("X.s1"), Index.of("X.s2"), ONE),
    "F": (Index.of("F.s0"), Index.of("F.s1"), Index.of("F.s2"), ONE),
    "D": (Index.of(4096), Index.of(512), Index.of(64), ONE),
}
FOUR_RUNS = LANE.mod(4), LANE.floordiv(4)


def test_arrays_whose_lanes_are_as_far_apart_lie_alike() -> None:
    low, high = FOUR_RUNS
    of_rows = Read("X", (N, N, N + low, C + high), BF16)
    of_planes = Read("F", (C, C + low, N, N + high), BF16)
    assert lane_layout(of_rows, STRIDES) == lane_layout(of_planes, STRIDES) is not None


@pytest.mark.parametrize(
    "other",
    [
        Read("D", (N, N, N + FOUR_RUNS[0], C + FOUR_RUNS[1]), BF16),  # a stride that is known
        Read("X", (N, N, N + FOUR_RUNS[1], C + FOUR_RUNS[0]), BF16),
        Read("X", (N, N + FOUR_RUNS[0], N, C + FOUR_RUNS[1]), F32),
        Read("X", (N, N + FOUR_RUNS[0], N, C + FOUR_RUNS[1]), BF16, Const(0.0, BF16)),
        Cast(Read("X", (N, N, N + FOUR_RUNS[0], C + FOUR_RUNS[1]), BF16), F32),
        Read("X", (N, N + FOUR_RUNS[0], N + FOUR_RUNS[0], C + FOUR_RUNS[1]), BF16),
        Read("X", (N, N, C + FOUR_RUNS[0], C + FOUR_RUNS[1]), BF16),  # both start at one place
    ],
)
def test_other_places_other_types_and_other_fills_do_not(other: Expr) -> None:
    low, high = FOUR_RUNS
    assert lane_layout(Read("X", (N, N, N + low, C + high), BF16), STRIDES) != lane_layout(other, STRIDES)


def test_what_is_computed_lies_nowhere() -> None:
    read = Read("X", (N, N, N, LANE), F32)
    assert lane_layout(Call("add", (read, read), F32), STRIDES) is None
    assert lane_layout(Read("Y", (LANE,), F32), STRIDES) is None


def nothing(_: Expr, __: dict[str, tuple[Index, ...]]) -> None:
    """Lies like nothing else."""


@pytest.mark.parametrize(
    ("kernel", "machine", "sizes"),
    [
        (
            "conv2d_nchw",
            "x86-avx512",
            {"N": 2, "C": 16, "K": 32, "H": 14, "W": 14, "R": 3, "S": 3, "stride": 1, "pad": 1},
        ),
        ("gemm_bf16", "x86-amx", {"M": 64, "N": 96, "K": 128}),
        ("gemm_tn_bf16", "x86-avx512-bf16", {"M": 64, "N": 96, "K": 128}),
    ],
)
def test_the_price_of_what_lies_alike_is_its_own(
    kernel: str, machine: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = make_guards_explicit(bind(shipped(kernel), sizes))
    once = build_problem(given, load_machine(machine), sizes)
    monkeypatch.setattr("isamap.match.moves.transfers.lane_layout", nothing)
    assert once == build_problem(given, load_machine(machine), sizes)
