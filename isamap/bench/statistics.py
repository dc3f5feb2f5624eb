"""Times of contenders that took turns, as numbers to be believed: medians, paired ratios, intervals.

ratio(ours=[1.0, 1.1, 1.0, …], theirs=[1.3, 1.2, 1.4, …])  ->  Ratio(value=1.3, low=1.2, high=1.4)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, log
from statistics import median

CONFIDENCE = 0.95
WIDE = 0.03
"""An interval that reaches farther than this from its median, as a share, is too wide to act upon."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times longer the other takes: the median over rounds with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        """Whether the whole interval says that ours takes longer."""
        return self.high < 1

    @property
    def is_wide(self) -> bool:
        """Whether more rounds, or a quieter machine, are needed before differences of some per cent count."""
        return max(self.high / self.value, self.value / self.low) > 1 + WIDE


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The paired ratio of rounds.

    The interval is that of the median by order statistics, which supposes nothing about how times are spread:
    with 7 rounds it is the whole range (98 %), for with fewer there is no interval of 95 %.
    """
    quotients = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    cut = trimmed(len(quotients))
    return Ratio(median(quotients), quotients[cut], quotients[len(quotients) - 1 - cut])


def trimmed(rounds: int) -> int:
    """How many of the sorted values to leave out on each side so that the rest holds the median with 95 %."""
    cut = 0
    while 2 * sum(comb(rounds, i) for i in range(cut + 2)) / 2**rounds <= 1 - CONFIDENCE:
        cut += 1
    return cut


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of nothing."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else None
