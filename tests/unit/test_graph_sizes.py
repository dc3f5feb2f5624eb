"""Sizes that the caller gives: arithmetic, and comparisons whose answers are noted where calls decide them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isamap.graph.sizes import (
    Guard,
    NeedsSize,
    OpenSizes,
    Size,
    as_known,
    index_of,
    is_zero,
    most_of,
    opened_sizes,
    value_of,
)
from isamap.source import UsageProblem


def opened(**ranges: tuple[int, int]) -> OpenSizes:
    return OpenSizes(opened_sizes(ranges))


def both() -> tuple[OpenSizes, Any, Any]:
    """Return two open sizes, as operators see them."""
    found = opened(batch=(1, 64), sequence=(1, 512))
    return found, found.size("batch"), found.size("sequence")


def test_arithmetic_gives_sizes_and_numbers_where_nothing_is_open_any_more() -> None:
    _, batch, sequence = both()
    assert str(3 * batch * 4) == "(12*N0)"
    assert repr(batch * sequence - 1) == "batch*sequence - 1"
    assert 64 * batch // batch == 64
    assert (64 * batch) % batch == 0
    assert batch - batch == 0
    assert type(batch - batch) is int
    assert str((sequence + 2 - 3) // 2 + 1) == "((N1 - 1) / 2 + 1)"
    assert value_of((sequence + 2 - 3) // 2 + 1, {"N1": 9}) == 5


def test_what_holds_for_the_whole_range_is_answered_without_a_note() -> None:
    found, batch, sequence = both()
    assert batch * sequence > 0
    assert batch * sequence <= 64 * 512
    assert batch * sequence != 64 * 512 + 1
    assert batch
    assert 12 * batch != 64 * batch
    assert batch < batch + sequence
    assert found.guards == {}


def test_what_calls_decide_is_noted_once_with_the_node_that_asked() -> None:
    found, batch, _ = both()
    found.node = "reshape"
    assert batch * 64 != 512
    assert batch * 64 != 512
    assert batch > 3
    (equal, less) = found.guards
    assert (str(equal.index), equal.comparison, equal.answer) == ("64*N0 - 512", "==", False)
    assert (less.comparison, less.answer) == ("<", True)
    assert set(found.guards.values()) == {"reshape"}


def test_a_guard_is_right_in_the_longest_range_on_one_side_of_what_it_excludes() -> None:
    found, batch, _ = both()
    assert batch != 8
    (guard,) = found.guards
    narrow = found.narrowed(guard)
    assert narrow is not None
    assert (narrow.low, narrow.high) == (9, 64)


def test_a_guard_on_two_sizes_is_right_where_it_is_for_all_of_the_other() -> None:
    found, batch, sequence = both()
    assert sequence > batch
    narrow = found.narrowed(Guard(index_of(batch) - index_of(sequence), "<", True))
    assert narrow is not None
    assert (narrow.name, narrow.low, narrow.high) == ("sequence", 65, 512)


def test_an_open_size_is_taken_neither_for_one_nor_for_another_one() -> None:
    found, batch, sequence = both()
    assert batch != 1
    assert batch != sequence
    assert found.guards == {}
    assert not is_zero(batch - sequence)
    assert len(found.guards) == 1


def test_settled_sizes_are_equal_where_they_are_for_all_calls() -> None:
    found, batch, _ = both()
    found.is_settled = True
    assert batch != 8
    assert batch == batch * 2 // 2
    assert found.guards == {}


def halved(size: Any) -> Any:
    return size / 2


@pytest.mark.parametrize("use", [int, float, range, halved, np.zeros])
def test_where_a_number_is_needed_the_size_is_named(use: Any) -> None:
    _, batch, _ = both()
    with pytest.raises(NeedsSize, match=r"`batch \+ 3`, and `batch` is open from 1 to 64"):
        use(batch + 3)


def test_numbers_of_numpy_leave_arithmetic_to_sizes() -> None:
    _, batch, _ = both()
    assert isinstance(np.int64(3) * batch, Size)
    assert str(np.int64(3) + batch) == "(N0 + 3)"
    known = as_known((batch, 4), (2,))
    assert str((known * np.asarray([2, 3]))[0]) == "(2*N0)"
    assert as_known((3, 4), (2,)).dtype == np.int64


def test_expressions_of_too_many_combinations_are_bounded_term_by_term() -> None:
    found = opened(a=(1, 5000), b=(1, 5000))
    a: Any = found.size("a")
    b: Any = found.size("b")
    assert most_of(a * b + b) == 5000 * 5001
    assert a * b > 0
    assert found.guards == {}
    assert not a * b > 7
    assert found.narrowed(next(iter(found.guards))) is None


@pytest.mark.parametrize("wrong", ["two", "0..4", "4..2", "1..8@9", (0, 3), f"1..{1 << 31}"])
def test_what_is_no_range_of_sizes_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageProblem, match="a number, or a range of them from 1 on"):
        opened_sizes({"batch": wrong})


def test_a_range_of_one_number_is_that_number() -> None:
    assert opened_sizes({"batch": (4, 4), "sequence": 3}) == ()
    (size,) = opened_sizes({"batch": "1..64@1,16"})
    assert size.profiles == (1, 16)
    assert size.text == "1..64@1,16"
