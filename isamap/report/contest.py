"""Schedules side by side under evaluators: what the model says of each, what they say, and how they agree.

heuristic  cost_ns  bound_ns  gap    status    seconds  simulated_ns  rank
cpsat      4039.0   4039.0    0.0 %  OPTIMAL   0.22     4410.2        2
cpsat 2    4041.5   4039.0    0.1 %  FEASIBLE  -        4398.7        1

simulated: cpsat 2 is the fastest, 4398.7 ns; the model's first takes 1.003 times as long; tau -1.00
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, sqrt

from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.trial import Evaluation
from isamap.report.schedules import Attempt, attempt_json, attempt_rows


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one evaluator said, by the nests of a schedule. `recalled` are those that it said before."""

    evaluator: str
    said: Mapping[tuple[NestSchedule, ...], Evaluation]
    recalled: frozenset[tuple[NestSchedule, ...]]

    def cost_ns(self, schedule: Schedule) -> float:
        """Units: nanoseconds, infinite for what did not run."""
        return self.said[schedule.nests].cost_ns

    def rank(self, schedule: Schedule) -> int:
        """1 for the fastest; those of one cost share a place."""
        own = self.cost_ns(schedule)
        return 1 + sum(1 for e in self.said.values() if e.cost_ns < own)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an evaluator's order and the model's agree over schedules that are not the same.

    `tau` is Kendall's tau-b (Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945), None
    where one of the two tells nothing apart. `first_over_best` is how much slower the model's first choice is
    than the best of all.
    """

    tau: float | None
    first_over_best: float | None


def agreement(verdicts: Verdicts, attempts: Sequence[Attempt]) -> Agreement:
    """The agreement over the distinct schedules of all attempts that ran and have a cost."""
    pairs: dict[tuple[NestSchedule, ...], tuple[float, float]] = {}
    for attempt in attempts:
        model, found = attempt.schedule.cost_ns, verdicts.cost_ns(attempt.schedule)
        if model is not None and found != inf:
            pairs.setdefault(attempt.schedule.nests, (model, found))
    if not pairs:
        return Agreement(None, None)
    values = list(pairs.values())
    first = min(values, key=lambda pair: pair[0])[1]
    return Agreement(kendall_tau(values), first / min(found for _, found in values))


def kendall_tau(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Kendall's tau-b of two orders; None where one of them has only ties."""
    score, left, right = 0, 0, 0
    for (a, b), (c, d) in combinations(pairs, 2):
        one, other = (a > c) - (a < c), (b > d) - (b < d)
        score, left, right = score + one * other, left + abs(one), right + abs(other)
    return score / sqrt(left * right) if left and right else None


def contest_rows(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> list[tuple[str, ...]]:
    """The comparison as a table's rows, the header first."""
    rows = attempt_rows(attempts)
    found = [(*rows[0], *(word for v in verdicts for word in (f"{v.evaluator}_ns", "rank")))]
    for attempt, row in zip(attempts, rows[1:], strict=True):
        cells: list[str] = []
        for verdict in verdicts:
            cost = verdict.cost_ns(attempt.schedule)
            cells += ["failed", "-"] if cost == inf else [f"{cost:.1f}", str(verdict.rank(attempt.schedule))]
        found.append((*row, *cells))
    return found


def contest_lines(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> list[str]:
    """A sentence for each evaluator."""
    return [_sentence(attempts, verdict) for verdict in verdicts]


def _sentence(attempts: Sequence[Attempt], verdicts: Verdicts) -> str:
    best = winner(attempts, verdicts)
    cost, found = verdicts.cost_ns(best.schedule), agreement(verdicts, attempts)
    said = f"{verdicts.evaluator}: {best.heuristic} is the fastest, {cost:.1f} ns"
    if found.first_over_best is not None and found.first_over_best > 1:
        said += f"; the model's first takes {found.first_over_best:.3f} times as long"
    if found.tau is not None:
        said += f"; the two orders agree by tau {found.tau:.2f}"
    if verdicts.recalled:
        said += f"; {len(verdicts.recalled)} of {len(verdicts.said)} known from before"
    return said


def winner(attempts: Sequence[Attempt], verdicts: Verdicts) -> Attempt:
    """The attempt whose schedule is fastest; the first of several."""
    return min(attempts, key=lambda attempt: verdicts.cost_ns(attempt.schedule))


def contest_json(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> list[dict[str, object]]:
    """All attempts as JSON, with what evaluators said of each."""
    found: list[dict[str, object]] = []
    for attempt in attempts:
        entry = attempt_json(attempt)
        entry["evaluations"] = {v.evaluator: _verdict_json(v, attempt.schedule) for v in verdicts}
        found.append(entry)
    return found


def _verdict_json(verdicts: Verdicts, schedule: Schedule) -> dict[str, object]:
    evaluation = verdicts.said[schedule.nests]
    ran = evaluation.cost_ns != inf
    return {
        "cost_ns": evaluation.cost_ns if ran else None,
        "rank": verdicts.rank(schedule) if ran else None,
        "recalled": schedule.nests in verdicts.recalled,
        "facts": dict(evaluation.facts),
    }


def agreement_json(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> dict[str, object]:
    """How each evaluator's order and the model's agree."""
    found: dict[str, object] = {}
    for verdict in verdicts:
        agreed = agreement(verdict, attempts)
        found[verdict.evaluator] = {"tau": agreed.tau, "first_over_best": agreed.first_over_best}
    return found
