"""Time our code and other code in alternating rounds, so that disturbances affect all alike.

    time_alternately({OURS: call, "torch": other}, clock)  ->  {0: {"isamap": 812.0, "torch": 790.0}, 1: …}

`Choice.of` decides by these times. Code that clearly loses the first rounds is not timed further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from statistics import median

from isamap.tune.tournament import ROUNDS, still_playing
from isamap.tune.winners import Rounds

ROUND_NS = 20_000_000
READING_NS = 50_000
"""The least time between two readings of a clock. Reading a thread's own clock takes a part of 1 µs."""
LIMIT_NS, LEAST_ROUNDS = 1_000_000_000, 5
"""After so long no round begins but those without which none can win: of slow calls."""

Clock = Callable[[], int]
"""A clock in nanoseconds."""


def time_alternately(calls: Mapping[str, Callable[[], None]], clock: Clock) -> Rounds:
    """Return the nanoseconds per call of each contender, by round; the others are compared with the first one."""
    stop = clock() + LIMIT_NS
    return play({name: _turn(call, clock) for name, call in calls.items()}, clock, stop)


def play(turns: Mapping[str, Callable[[], float]], clock: Clock, stop: int) -> Rounds:
    """Return the rounds of contenders, each a function that returns the nanoseconds of one call.

    After `stop`, only the rounds that are needed to win start.
    """
    rounds: dict[int, dict[str, float]] = {}
    for number in range(ROUNDS):
        playing = still_playing(tuple(turns), rounds)
        if len(playing) == 1 or (number >= LEAST_ROUNDS and clock() > stop):
            break
        order = playing if number % 2 else playing[::-1]
        rounds[number] = {name: turns[name]() for name in order}
    return rounds


def _turn(call: Callable[[], None], clock: Clock) -> Callable[[], float]:
    """Return a measurement: the nanoseconds of one call, the median over its readings of a clock."""
    call()
    start = clock()
    call()
    once = max(1, clock() - start)
    calls = ceil(READING_NS / once)
    readings = max(1, ROUND_NS // (calls * once))

    def turn() -> float:
        if once < ROUND_NS:  # what the other one left in the caches is not its fault
            call()
        found: list[int] = []
        for _ in range(readings):
            start = clock()
            for _ in range(calls):
                call()
            found.append(clock() - start)
        return median(found) / calls

    return turn
