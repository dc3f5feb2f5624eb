"""What many samples of one quantity came to; nothing heavy is imported, as profiles are read often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Spread:
    """What samples of one quantity came to. Units: of the quantity, ns where nothing else is said."""

    least: float
    low: float
    middle: float
    high: float
    count: int

    @staticmethod
    def of(samples: Sequence[float]) -> Spread:
        """Of at least one sample: minimum, quartiles, median."""
        quarters = quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
        return Spread(min(samples), quarters[0], median(samples), quarters[2], len(samples))
