"""Time contenders in alternation: in another order each round, with long readings and C refilled.

It summarises times measured in alternation by medians, paired ratios and confidence intervals:

    ratio(ours=[1.0, 1.1, 1.0, …], theirs=[1.3, 1.2, 1.4, …])  ->  Ratio(value=1.3, low=1.2, high=1.4)
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from math import ceil, comb, exp, log
from statistics import median
from typing import Protocol

from isamap.source.records import dataclass

ROUND_NS = 10_000_000
MOST_CALLS = 20_000
LEAST_ROUNDS, MOST_ROUNDS = 7, 1000
LONG_NS = 200_000_000
"""The length of a call in which refilling all caches (64 MB at 20 GB/s: 3 ms) is negligible; it has no warm-up."""


class TimedContender(Protocol):
    """A contender: its name, and a function that returns the nanoseconds of a number of calls."""

    @property
    def name(self) -> str: ...

    def time(self, calls: int, first: int = 0) -> int: ...


class Buffers(Protocol):
    """The operands of all contenders, in several copies. `refill` restores the written array C."""

    @property
    def ring(self) -> int: ...

    def refill(self) -> None: ...


def play(
    contenders: Sequence[TimedContender], budget_s: float, shared: Buffers
) -> dict[str, tuple[float, ...]]:
    """Return the seconds per call by contender and round, with all rounds in the budget, at least seven."""
    stop = time.monotonic() + budget_s
    turns = {c.name: _turn(c, shared) for c in contenders}
    seconds: dict[str, list[float]] = {c.name: [] for c in contenders}
    order, at = list(contenders), 0
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() >= stop:
            break
        random.shuffle(order)
        for contender in order:
            untimed, calls = turns[contender.name]
            shared.refill()
            if untimed:  # what the others left in caches and pages is not its fault
                contender.time(untimed, at % shared.ring)
            ns = contender.time(calls, (at + untimed) % shared.ring)
            seconds[contender.name].append(ns * 1e-9 / calls)
            at += untimed + calls
    return {name: tuple(times) for name, times in seconds.items()}


def _turn(contender: TimedContender, shared: Buffers) -> tuple[int, int]:
    """Return how many calls to make before the clock starts, and how many make a reading long enough."""
    shared.refill()
    once = contender.time(1)
    if once >= LONG_NS:
        return 0, 1
    once = max(1, min(once, contender.time(2, 1 % shared.ring) // 2))
    return 1, max(1, min(MOST_CALLS, ceil(ROUND_NS / once)))


CONFIDENCE = 0.95
WIDE = 0.03
"""An interval that reaches farther than this from its median, as a share, is too wide to act upon."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of the other contender divided by ours: the median over rounds with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        """Return whether the whole interval shows that ours is slower."""
        return self.high < 1

    @property
    def is_wide(self) -> bool:
        """Return whether the interval is too wide to detect differences of some per cent."""
        return max(self.high / self.value, self.value / self.low) > 1 + WIDE


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Return the paired ratio of rounds.

    The interval is that of the median by order statistics, which assumes nothing about the distribution of
    times: with 7 rounds it is the whole range (98 %), and with fewer there is no interval of 95 %.
    """
    quotients = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    cut = count_trimmed(len(quotients))
    return Ratio(median(quotients), quotients[cut], quotients[len(quotients) - 1 - cut])


def count_trimmed(rounds: int) -> int:
    """Return how many sorted values to omit on each side so that the rest contains the median with 95 %."""
    cut = 0
    while 2 * sum(comb(rounds, i) for i in range(cut + 2)) / 2**rounds <= 1 - CONFIDENCE:
        cut += 1
    return cut


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean, or None if there are no values."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else None
