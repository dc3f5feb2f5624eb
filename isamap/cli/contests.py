"""Several schedules in `isamap schedule`: the K best by a model, and their evaluations."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from isamap.cli.terminal import Progress
from isamap.report.columns import table

if TYPE_CHECKING:
    from isamap.driver.pipeline import Compilation
    from isamap.driver.request import Request
    from isamap.report.explained import Explained
    from isamap.report.schedules import Attempt, Verdicts
    from isamap.scheduler import Ranking


@dataclass(frozen=True, slots=True)
class Contest:
    """Schedules with what was found out about each; `ranking` is None where one was asked for."""

    attempts: list[Attempt]
    verdicts: tuple[Verdicts, ...]
    ranking: Ranking | None

    @property
    def best(self) -> Attempt:
        """The winner: by the first evaluator, or by the model."""
        from isamap.report.schedules import winner

        if self.verdicts:
            return winner(self.attempts, self.verdicts[0])
        return min(self.attempts, key=lambda a: a.schedule.cost_ns or 0.0)

    def text(self) -> str:
        """Return the table, and what it comes to."""
        from isamap.plan.text import fixed_words
        from isamap.report.schedules import contest_lines, contest_rows

        lines = [table(contest_rows(self.attempts, self.verdicts))]
        said = [] if self.ranking is None else [_proven(self.ranking)]
        if fixed := fixed_words(self.best.schedule):
            said.append(f"cost, bound and gap: of schedules with {fixed}")
        said += contest_lines(self.attempts, self.verdicts)
        return "\n".join([*lines, *([""] if said else []), *said])

    def json(self) -> dict[str, object]:
        """Return the same as JSON."""
        from isamap.report.schedules import agreement_json, contest_json

        found: dict[str, object] = {
            "best": self.best.heuristic,
            "attempts": contest_json(self.attempts, self.verdicts),
            "agreement": agreement_json(self.attempts, self.verdicts),
        }
        if self.ranking is not None:
            rest = self.ranking.rest_ns
            found["ranking"] = {
                "schedules": len(self.ranking.schedules),
                "proven": self.ranking.proven,
                "rest_ns": None if rest == float("inf") else rest,
                "reproducible": self.ranking.reproducible,
            }
        return found


def hold_contest(
    request: Request,
    matched: Compilation,
    attempts: list[Attempt],
    evaluators: tuple[str, ...],
    progress: Progress,
    *,
    again: bool,
) -> Contest:
    """Return the attempts, the further ones of the K best, and what evaluators say of all."""
    from isamap.driver.refining import rank_schedules
    from isamap.report.schedules import Attempt

    assert matched.problem is not None
    ranking: Ranking | None = None
    if request.best > 1:
        progress(f"schedule ({request.best} best)")
        started = time.perf_counter()
        ranking = rank_schedules(request, matched.problem)
        spent = time.perf_counter() - started
        known = {a.schedule.nests for a in attempts}
        first = attempts[0].schedule
        for number, schedule in enumerate(ranking.schedules, 1):
            if schedule.nests not in known:
                own = replace(schedule, profile=first.profile, question=first.question)
                attempts = [*attempts, Attempt(f"best {number}", own, spent)]
    verdicts = tuple(
        _verdicts(request, matched, attempts, name, progress, again=again) for name in evaluators
    )
    return Contest(attempts, verdicts, ranking)


def show_best(request: Request, matched: Compilation, contest: Contest, progress: Progress) -> Explained:
    """Return what is to be seen of the winner, with the cheapest schedules as runners-up."""
    from isamap.driver.explaining import explain
    from isamap.driver.refining import RUNNERS_UP, rank_schedules

    assert matched.machine is not None
    assert matched.problem is not None
    progress("report")
    ranking = contest.ranking or rank_schedules(replace(request, best=RUNNERS_UP), matched.problem)
    best, model = contest.best.schedule, request.cost_model
    return explain(best, matched.problem, matched.machine, model, ranking.schedules)


def _verdicts(
    request: Request,
    matched: Compilation,
    attempts: list[Attempt],
    evaluator: str,
    progress: Progress,
    *,
    again: bool,
) -> Verdicts:
    from isamap.driver.refining import evaluate_schedules
    from isamap.driver.sizes import complete_sizes
    from isamap.plan.trial import Trial
    from isamap.report.schedules import Verdicts
    from isamap.syntax import parse_kernel

    assert matched.canonical is not None
    assert matched.machine is not None
    assert matched.problem is not None
    progress(f"evaluate ({evaluator})")
    sizes = complete_sizes(parse_kernel(request.kernel), request.sizes)
    distinct = {a.schedule.nests: a.schedule for a in reversed(attempts)}
    trials = [
        Trial(matched.canonical, matched.machine, matched.problem, schedule, sizes)
        for schedule in reversed(distinct.values())
    ]
    found = evaluate_schedules(request, trials, evaluator, again=again)
    said = {e.schedule.nests: e.evaluation for e in found}
    return Verdicts(evaluator, said, frozenset(e.schedule.nests for e in found if e.is_recalled))


def _proven(ranking: Ranking) -> str:
    listed, proven = len(ranking.schedules), ranking.proven
    if ranking.rest_ns == float("inf"):
        return f"there are {listed} schedules, and no others"
    if proven == listed:
        return f"proven: no other schedule is cheaper than these {listed} by the model"
    rest = f"any other costs at least {ranking.rest_ns:.1f} ns by the model"
    return f"{proven} of the {listed} cheapest are proven to be; {rest}"
