"""Turns of our code and others': how many rounds are played, and by what."""

from __future__ import annotations

from collections.abc import Callable

from isamap.tune.tournament import play, time_alternately


def test_what_has_lost_three_rounds_plays_no_more() -> None:
    times = iter(range(10**9))
    spent = {"now": 0}

    def clock() -> int:
        return spent["now"] + next(times)

    def taking(ns: int) -> Callable[[], None]:
        def call() -> None:
            spent["now"] += ns

        return call

    lost = time_alternately({"isamap": taking(30_000_000), "torch": taking(60_000_000)}, clock)
    assert len(lost) == 3
    slow = time_alternately({"isamap": taking(90_000_000), "torch": taking(80_000_000)}, clock)
    assert len(slow) == 5  # after a second none begins but those that it takes to win
    quick = time_alternately({"isamap": taking(1_000_000), "torch": taking(1_000_000)}, clock)
    assert len(quick) == 9
    assert all(abs(costs["isamap"] / 1_000_000 - 1) < 0.01 for costs in quick.values())


def test_the_first_one_plays_every_round_and_others_until_they_are_hopeless() -> None:
    taken: list[str] = []

    def turn(name: str, ns: float) -> Callable[[], float]:
        def take() -> float:
            taken.append(name)
            return ns

        return take

    turns = {"isamap": turn("isamap", 10.0), "near": turn("near", 10.5), "far": turn("far", 20.0)}
    rounds = play(turns, lambda: 0, 1)
    assert [sorted(costs) for costs in rounds.values()] == [["far", "isamap", "near"]] * 3 + [
        ["isamap", "near"]
    ] * 6
    assert taken[:6] == ["far", "near", "isamap", "isamap", "near", "far"]
