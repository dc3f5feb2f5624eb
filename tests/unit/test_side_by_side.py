"""Work done by several processes, of which this one may be one."""

from __future__ import annotations

import os
import threading
from math import factorial

import pytest

from isamap.driver.side_by_side import done_side_by_side


def process_of(_: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("here", [False, True])
def test_each_piece_is_done_once_and_comes_with_its_number(here: bool) -> None:
    found = list(done_side_by_side(factorial, range(9), 2, here=here))
    assert sorted(found) == [(n, factorial(n)) for n in range(9)]


def test_this_process_does_what_no_other_has_begun() -> None:
    found = {pid for _, pid in done_side_by_side(process_of, range(40), 2, here=True)}
    assert os.getpid() in found
    assert os.getpid() not in {pid for _, pid in done_side_by_side(process_of, range(4), 2)}


@pytest.mark.parametrize("here", [False, True])
def test_what_fails_ends_all_of_it(here: bool) -> None:
    with pytest.raises(ValueError, match="negative"):
        list(done_side_by_side(factorial, [3, -1, 2, -1], 2, here=here))


SERIALIZED_BY: list[int] = []


class NotedWork(int):
    """A number that notes the thread which serializes it."""

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        SERIALIZED_BY.append(threading.get_ident())
        return int, (int(self),)


def test_work_is_serialized_before_this_process_goes_on() -> None:
    """A thread of the pool would read caches while this process fills them: "dictionary changed size"."""
    SERIALIZED_BY.clear()
    found = dict(done_side_by_side(factorial, [NotedWork(n) for n in range(9)], 2, here=True))
    assert found == {n: factorial(n) for n in range(9)}
    assert SERIALIZED_BY
    assert set(SERIALIZED_BY) == {threading.get_ident()}
