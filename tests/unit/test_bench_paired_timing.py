"""Turns: how many calls each has, what goes before it, and which copy of the operands is next."""

from __future__ import annotations

import pytest

from isamap.bench.paired_timing import LEAST_ROUNDS, LONG_NS, MOST_CALLS, MOST_ROUNDS, ROUND_NS, play


class Buffers:
    def __init__(self, ring: int) -> None:
        self.ring = ring
        self.refilled = 0

    def refill(self) -> None:
        self.refilled += 1


class Contender:
    """Takes so many nanoseconds for a call, and writes down what it was asked for."""

    def __init__(self, name: str, ns: int) -> None:
        self.name = name
        self.ns = ns
        self.asked: list[tuple[int, int]] = []

    def time(self, calls: int, first: int = 0) -> int:
        self.asked.append((calls, first))
        return calls * self.ns


@pytest.mark.parametrize(
    ("ns", "calls"), [(ROUND_NS // 4, 4), (ROUND_NS - 1, 2), (1, MOST_CALLS), (2 * ROUND_NS, 1)]
)
def test_a_turn_is_long_against_the_clock_behind_one_untimed_call(ns: int, calls: int) -> None:
    one = Contender("one", ns)
    seconds = play([one], 0, Buffers(1))
    assert seconds == {"one": (pytest.approx(ns * 1e-9),) * LEAST_ROUNDS}
    assert [asked for asked, _ in one.asked] == [1, 2, *(1, calls) * LEAST_ROUNDS]


def test_nothing_goes_before_a_long_call() -> None:
    one = Contender("one", LONG_NS)
    play([one], 0, Buffers(1))
    assert one.asked == [(1, 0)] * (1 + LEAST_ROUNDS)


def test_all_have_as_many_turns_with_c_filled_before_each_and_go_on_through_the_ring() -> None:
    contenders, shared = [Contender(name, ROUND_NS) for name in ("a", "b", "c")], Buffers(5)
    seconds = play(contenders, 0, shared)
    assert {name: len(times) for name, times in seconds.items()} == {"a": 7, "b": 7, "c": 7}
    assert shared.refilled == 3 + 3 * 7
    copies = sorted(copy for c in contenders for _, copy in c.asked[2:])
    assert copies == sorted(n % 5 for n in range(2 * 21)), "each copy has its turn before any has another"


def test_there_are_as_many_rounds_as_begin_within_the_seconds_but_not_without_end() -> None:
    contenders, shared = [Contender("a", ROUND_NS), Contender("b", ROUND_NS)], Buffers(1)
    assert len(play(contenders, 3600, shared)["b"]) == MOST_ROUNDS, "these calls take no time"
