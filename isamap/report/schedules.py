"""Compare schedules in a table, and list the differences between two.

heuristic  cost_ns  bound_ns  gap    status     seconds
greedy     4039.0   3950.4    2.2 %  HEURISTIC  0.15
cpsat      4039.0   4039.0    0.0 %  OPTIMAL    0.22

With evaluators, the table has the model's cost, the evaluators' costs, and their agreement:

heuristic  cost_ns  bound_ns  gap    status    seconds  simulated_ns  rank
cpsat      4039.0   4039.0    0.0 %  OPTIMAL   0.22     4410.2        2
cpsat 2    4041.5   4039.0    0.1 %  FEASIBLE  -        4398.7        1

simulated: cpsat 2 is the fastest, 4398.7 ns. The model's first takes 1.003 times as long; tau -1.00
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from itertools import combinations
from math import inf, sqrt

from isamap.plan.protocols import Evaluation
from isamap.plan.schedule import NestSchedule, Schedule, cost_unit
from isamap.plan.text import print_nest
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one heuristic, and its time. Units: seconds."""

    heuristic: str
    schedule: Schedule
    seconds: float


def attempt_rows(attempts: Sequence[Attempt]) -> list[tuple[str, ...]]:
    """Return the comparison as table rows, the header first."""
    unit = cost_unit(attempts[0].schedule.model) if attempts else "ns"
    rows: list[tuple[str, ...]] = [
        ("heuristic", f"cost_{unit}", f"bound_{unit}", "gap", "status", "found by", "proved by", "seconds")
    ]
    for attempt in attempts:
        found = attempt.schedule
        gap = f"{100 * found.gap:.1f} %" if found.gap is not None else "-"
        rows.append(
            (
                attempt.heuristic,
                _number(found.cost_ns),
                _number(found.lower_bound_ns),
                gap,
                found.status,
                found.found_by or "-",
                found.proved_by or "-",
                f"{attempt.seconds:.2f}",
            )
        )
    return rows


def attempt_json(attempt: Attempt) -> dict[str, object]:
    """Return one attempt as JSON."""
    found = attempt.schedule
    return {
        "heuristic": attempt.heuristic,
        "model": found.model,
        "cost_ns": found.cost_ns if cost_unit(found.model) == "ns" else None,
        "lower_bound_ns": found.lower_bound_ns if cost_unit(found.model) == "ns" else None,
        **({} if cost_unit(found.model) == "ns" else _other_cost(found)),
        "gap": found.gap,
        "status": found.status,
        "found_by": found.found_by or None,
        "proved_by": found.proved_by or None,
        "fixed": dict(found.fixed),
        "reproducible": found.reproducible,
        "seconds": round(attempt.seconds, 3),
    }


def _other_cost(found: Schedule) -> dict[str, object]:
    """Return cost and bound as JSON, with the unit of a model that does not price time."""
    return {"cost": found.cost_ns, "lower_bound": found.lower_bound_ns, "unit": cost_unit(found.model)}


@dataclass(frozen=True, slots=True)
class NestChange:
    """The change of one statement: lines of both texts, and the costs if a model has them.

    `unpriced` says why it cannot, for the one before and the one after; "" if it can. Units: nanoseconds.
    """

    statement: int
    lines: tuple[str, ...]
    before_ns: float | None
    after_ns: float | None
    unpriced: tuple[str, str]


def changes(
    before: Schedule,
    after: Schedule,
    before_ns: Sequence[float | None],
    after_ns: Sequence[float | None],
    unpriced: Sequence[tuple[str, str]],
) -> tuple[NestChange, ...]:
    """Return the statements whose nests differ, with the change in cost, or why the model has none."""
    found: list[NestChange] = []
    nests = [{nest.statement: nest for nest in schedule.nests} for schedule in (before, after)]
    for statement, (old_ns, new_ns, why) in enumerate(zip(before_ns, after_ns, unpriced, strict=True)):
        old, new = (given.get(statement) for given in nests)
        if old != new:
            found.append(NestChange(statement, _lines(old, new), old_ns, new_ns, why))
    return tuple(found)


def _lines(old: NestSchedule | None, new: NestSchedule | None) -> tuple[str, ...]:
    before, after = ([] if nest is None else print_nest(nest).splitlines() for nest in (old, new))
    return tuple(unified_diff(before, after, n=1, lineterm=""))[2:]


def change_text(change: NestChange) -> str:
    """Return one change as text for users."""
    before, after = change.before_ns, change.after_ns
    if before is None or after is None:
        why = [f"{when}: {reason}" for when, reason in _reasons(change).items()]
        cost = f"the model cannot price the one {'; nor the one '.join(why)}"
    elif before <= 0:
        cost = f"{_number(before)} ns before, {_number(after)} ns after"
    else:
        cost = f"{_number(before)} ns before, {_number(after)} ns after: {100 * (after / before - 1):+.1f} %"
    lines = [line for line in change.lines if not line.startswith("@@")]
    return "\n".join([f"statement {change.statement}: {cost}", *lines])


def change_json(change: NestChange) -> dict[str, object]:
    """Return one change as JSON."""
    return {
        "statement": change.statement,
        "before_ns": change.before_ns,
        "after_ns": change.after_ns,
        "unpriced": _reasons(change),
        "lines": list(change.lines),
    }


def _reasons(change: NestChange) -> dict[str, str]:
    """Return, as JSON, why there is no price before or after the change, or {} if there are both."""
    return {when: why for when, why in zip(("before", "after"), change.unpriced, strict=True) if why}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The results of one evaluator, by the nests of a schedule. `recalled` are cached results."""

    evaluator: str
    said: Mapping[tuple[NestSchedule, ...], Evaluation]
    recalled: frozenset[tuple[NestSchedule, ...]]

    def cost_ns(self, schedule: Schedule) -> float:
        """Return the cost in nanoseconds, infinite if the schedule did not run."""
        return self.said[schedule.nests].cost_ns

    def rank(self, schedule: Schedule) -> int:
        """Return the rank, 1 for the fastest. Equal costs share a rank."""
        own = self.cost_ns(schedule)
        return 1 + sum(1 for e in self.said.values() if e.cost_ns < own)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far an evaluator and the model agree on the order of distinct schedules.

    `tau` is Kendall's tau-b (Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945), None
    if one of the two has only ties. `first_over_best` is how many times slower the model's first choice is
    than the best of all.
    """

    tau: float | None
    first_over_best: float | None


def agreement(verdicts: Verdicts, attempts: Sequence[Attempt]) -> Agreement:
    """Return the agreement over the distinct schedules of all attempts with both costs."""
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
    """Return Kendall's tau-b of two orders, or None if one of them has only ties."""
    score, left, right = 0, 0, 0
    for (a, b), (c, d) in combinations(pairs, 2):
        one, other = (a > c) - (a < c), (b > d) - (b < d)
        score, left, right = score + one * other, left + abs(one), right + abs(other)
    return score / sqrt(left * right) if left and right else None


def contest_rows(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> list[tuple[str, ...]]:
    """Return the comparison as table rows, the header first."""
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
    """Return a sentence for each evaluator."""
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
        said += f"; {len(verdicts.recalled)} of {len(verdicts.said)} from the cache"
    return said


def winner(attempts: Sequence[Attempt], verdicts: Verdicts) -> Attempt:
    """Return the attempt with the fastest schedule. Of equal ones, the first counts."""
    return min(attempts, key=lambda attempt: verdicts.cost_ns(attempt.schedule))


def contest_json(attempts: Sequence[Attempt], verdicts: Sequence[Verdicts]) -> list[dict[str, object]]:
    """Return all attempts as JSON, with the evaluators' results."""
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
    """Return the agreement of each evaluator's order with the model's as JSON."""
    found: dict[str, object] = {}
    for verdict in verdicts:
        agreed = agreement(verdict, attempts)
        found[verdict.evaluator] = {"tau": agreed.tau, "first_over_best": agreed.first_over_best}
    return found
