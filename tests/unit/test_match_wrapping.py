"""Elements that wrap around: which searches are spared, and which must not be."""

from __future__ import annotations

import pytest

from isamap.ir import F32, Cast, Index, Read
from isamap.ir.dtypes import F64
from isamap.ir.index import FloorDiv, Mod
from isamap.match.patterns.address import wraps

APART = {"X": (Index.of("X.s0"), Index.of(1))}  # rows as far apart as the caller says
LANE, HERE = Index.of("%0"), Index.of("@n.w")


def read(*index: Index) -> Read:
    return Read("X", index, F32)


@pytest.mark.parametrize("by", [28, 16, 15, 5])
def test_a_row_that_may_end_anywhere_within_the_lanes_wraps(by: int) -> None:
    row = wrapped(by)
    assert wraps(row, (16,), APART)
    assert wraps(Cast(row, F64), (16,), APART)


def test_rows_one_behind_the_other_do_not_wrap() -> None:
    assert not wraps(wrapped(28), (16,), {"X": (Index.of(28), Index.of(1))})


def test_an_array_whose_place_is_not_known_is_left_to_the_search() -> None:
    assert not wraps(wrapped(28), (16,), {})


def wrapped(by: int) -> Read:
    """Return an element of a row of so many, lanes running on into the next."""
    return read(Index.of(FloorDiv(HERE + LANE, Index.of(by))), Index.of(Mod(HERE + LANE, Index.of(by))))


@pytest.mark.parametrize(
    "index",
    [
        HERE + LANE,
        LANE.floordiv(2) + HERE * 16,  # the position does not tell where a pair of lanes begins
        (HERE * 28 + LANE).mod(28),
        Index.of(Mod(HERE, Index.of(28))) + LANE,  # all lanes are in one row
        Index.of(Mod(HERE + LANE * 28, Index.of(28))),  # lanes are whole rows apart
        Index.of(Mod(HERE + LANE.floordiv(8), Index.of(28))),  # two runs of eight
    ],
    ids=str,
)
def test_lanes_that_keep_their_distance_do_not_wrap(index: Index) -> None:
    assert not wraps(read(HERE, index), (16,), APART)


def test_one_element_never_wraps() -> None:
    assert not wraps(read(HERE, Index.of(Mod(HERE + LANE, Index.of(28)))), (), APART)
    assert not wraps(read(HERE, Index.of(Mod(HERE + LANE, Index.of(28)))), (1,), APART)
