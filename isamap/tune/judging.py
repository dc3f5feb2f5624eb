"""How well costs order schedules that were measured: Kendall's tau, and what the first choice loses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, log
from statistics import fmean


def kendall(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Kendall's tau-b: 1 where both orders agree, -1 where one is the other reversed."""
    pairs = [(i, j) for i in range(len(predicted)) for j in range(i)]
    signs = [(_sign(predicted[i], predicted[j]), _sign(measured[i], measured[j])) for i, j in pairs]
    total = comb(len(predicted), 2)
    free = (total - sum(p == 0 for p, _ in signs)) * (total - sum(m == 0 for _, m in signs))
    return sum(p * m for p, m in signs) / free**0.5 if free else 0.0


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


def first_over_best(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """The measured time of what is predicted to be the fastest over the least: 1 where it is the fastest."""
    return measured[predicted.index(min(predicted))] / min(measured)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Means over kernels at some sizes: geometric of first choice over best, arithmetic of tau."""

    rows: int
    first_over_best: float
    worst: float
    tau: float

    @staticmethod
    def of(cases: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Judgement | None:
        """That of predicted and measured costs of each; None of no case."""
        known = list(cases)
        if not known:
            return None
        lost = [first_over_best(predicted, measured) for predicted, measured in known]
        tau = fmean(kendall(predicted, measured) for predicted, measured in known)
        return Judgement(len(known), exp(fmean(map(log, lost))), max(lost), tau)
