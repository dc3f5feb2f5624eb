"""Tune by measurement: `--tune` measures, stores and uses the fastest of the model's best schedules.

The contenders are the solver's schedule, its next best ones, and some with another mapping or register block,
because the cheapest ones of a model are mostly alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, cast

from isamap.driver.refining import evaluate_schedules, rank_schedules
from isamap.driver.request import Request
from isamap.driver.side_by_side import done_side_by_side
from isamap.ir import Kernel, Range, print_routine
from isamap.machine import Machine
from isamap.machine.processor import this_cpu
from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model, load_searcher
from isamap.plan.problem import Problem
from isamap.plan.protocols import Trial
from isamap.plan.schedule import Schedule
from isamap.plan.text import parse_schedule, print_schedule
from isamap.run.child import RunProblem
from isamap.scheduler.search.points import Point, SearchSpace
from isamap.source import Diagnostic, IsamapError, OnlyWarned, Source, UsageProblem, dataclass, replace
from isamap.source.cache import digest, program_state
from isamap.tune.measured import MeasuredEvaluator, check_here
from isamap.tune.searching import finalists, search
from isamap.tune.tournament import (
    ROUNDS,
    Tournament,
    TournamentWinner,
    find_winner,
    play_there,
    schedule_digest,
)
from isamap.tune.winners import Winner, Winners
from isamap.version import __version__

if TYPE_CHECKING:
    from isamap.tune.searching import Searcher

# How a searcher's proposals are measured, and the share of the time that it may take; then so many of them
# are judged beside the model's choice.
SEARCH_ROUNDS, SEARCH_SECONDS, SEARCH_SHARE = 5, 0.02, 0.8
FINALISTS = 4


@dataclass(frozen=True, slots=True)
class TuningKey:
    """The key of a tuned schedule: a kernel with sizes bound and guards explicit, on a machine."""

    request: Request
    kernel: Kernel
    machine: Machine
    problem: Problem
    sizes: Mapping[str, int | Range]

    def trial(self, schedule: Schedule) -> Trial:
        """Return a schedule as a trial to measure."""
        return Trial(self.kernel, self.machine, self.problem, schedule, self.sizes)

    @property
    def key(self) -> str:
        """The sha256 under which the winner is stored."""
        return digest(
            __version__,
            print_routine(self.kernel),
            json.dumps(sorted(self.request.sizes.items())),
            self.machine.name,
            self.machine.digest,
            json.dumps([self.request.profile.digest if self.request.profile else "", self.request.threads]),
            json.dumps([sorted(self.request.fixed.items()), sorted(self.request.packed)]),
            *(["cold"] if self.request.cold else []),
            this_cpu().key,
        )


def tuned_schedule(
    question: TuningKey, model_choice: Callable[[], Schedule]
) -> tuple[Schedule, Mapping[str, object]]:
    """Return the fastest measured schedule and its origin, measured now (`--tune`) or stored before.

    If none is stored, return the schedule that `model_choice` finds, with a warning. Raises: as `tune`.
    """
    if question.request.tune:
        schedule, winner = tune(question, model_choice())
        return schedule, {"from": "tuning", **tuning_json(winner)}
    kept, winner = kept_schedule(question)
    if kept is not None and winner is not None:
        return replace(kept, findings=(_report_winner(winner),)), {"from": "tuning", **tuning_json(winner)}
    schedule = model_choice()
    findings = (*schedule.findings, not_tuned(question, winner))
    return replace(schedule, findings=findings), {"from": "model"}


def kept_schedule(question: TuningKey) -> tuple[Schedule | None, Winner | None]:
    """Return the stored schedule with its record, or None if there is none that is still valid."""
    winner = _recall_winner(question)
    return (_replay_winner(winner, question.problem), winner) if winner is not None else (None, None)


def _recall_winner(question: TuningKey) -> Winner | None:
    with OnlyWarned():
        return Winners.open().find(question.key)
    return None


def not_tuned(question: TuningKey, winner: Winner | None) -> Diagnostic:
    """Return the warning that the cost model chose because the tuning database has no valid winner."""
    what = f"{question.problem.kernel} on {question.machine.name}"
    why = "the stored schedule breaks a rule of this version" if winner else "none is stored"
    return Diagnostic(
        "not-tuned",
        f"there is no tuned schedule of {what} at these sizes: the cost model chose one",
        severity="warning",
        notes=(why,),
        help="`--tune` measures and stores one; `isamap explain not-tuned` lists the inputs that it depends on",
    )


def tune(question: TuningKey, first: Schedule) -> tuple[Schedule, Winner]:
    """Return the fastest contender, and how it was found. `first` is the model's choice.

    A stored result for an equal question is used, and an interrupted tournament continues. Raises:
    UsageProblem, MissingTool, RunProblem.
    """
    check_here(question.machine)
    winners, request = Winners.open(), question.request
    state = _state(question)
    stop = time.monotonic() + request.tune_limit_s
    known = _recall_winner(question) if request.cache else None
    if known is not None and known.state == state and known.asked >= request.tune:
        schedule = _replay_winner(known, question.problem)
        if schedule is not None:
            return replace(schedule, findings=(*first.findings, _report_winner(known))), known
    schedules, places = _contenders(question, first, stop)
    trials = [question.trial(schedule) for schedule in schedules]
    names = [schedule_digest(trial) for trial in trials]
    asked = digest(question.key, state, *names)
    spread = partial(done_side_by_side, play_there, where=request.scheduler) if request.scheduler else None
    tournament = Tournament(winners, asked, stop, spread=spread)
    evaluated = evaluate_schedules(request, trials, tournament, again=True)
    found = find_winner(tournament.rounds(), names[0])
    if found is None:
        notes = tuple(f"{name}: {value}" for name, value in evaluated[0].evaluation.facts[:3])
        message = f"none of {len(trials)} schedules could be measured"
        raise RunProblem.of("nothing-ran", message, notes=notes)
    schedule, played = schedules[names.index(found.winner)], len(tournament.rounds())
    place, looked_at = places[names.index(found.winner)], places[-1]
    winner = _winner(question, state, schedule, found, place, looked_at, played)
    is_stopped = played < ROUNDS
    if not is_stopped:  # else the rounds stay, and the next run goes on
        with OnlyWarned():
            winners.keep(winner, asked)
    stopped = (_report_stop(request, played, winner),) if is_stopped else ()
    reproducible = schedule.reproducible and not is_stopped
    findings = (*first.findings, *stopped, _report_winner(winner))
    return replace(schedule, findings=findings, reproducible=reproducible), winner


def tuning_json(winner: Winner) -> dict[str, object]:
    """Return how measuring found a schedule, for manifests."""
    return {
        "time": winner.time,
        "place": winner.place,
        "contenders": winner.contenders,
        "rounds": winner.rounds,
        "measured_ns": winner.cost_ns,
        "first_ns": winner.first_ns,
        "ratio": winner.ratio,
        "processor": winner.processor,
        "compiler": winner.compiler,
    }


def _contenders(
    question: TuningKey, first: Schedule, stop: float
) -> tuple[tuple[Schedule, ...], tuple[int, ...]]:
    """Return `first` and its competitors, their positions in the candidate list, and the list's length.

    The candidates are the model's list, or the fastest ones that a searcher has found.
    """
    request, problem = question.request, question.problem
    listed = _list_schedules(request, problem, first)
    if not request.search:
        return listed, (*range(1, len(listed) + 1), len(listed))
    model = load_cost_model(request.cost_model)
    space = SearchSpace.around(problem, model, _list_fixed(request), first, listed[1:])
    if space is None:
        raise UsageProblem.of(
            "not-searchable",
            f"`--search {request.search}` has nowhere to begin: no decisions lead to the model's choice",
            help="leave out `--search`: `--tune` measures the model's list",
        )
    measured = MeasuredEvaluator(SEARCH_ROUNDS, SEARCH_SECONDS)

    def measure(points: Sequence[Point]) -> list[float]:
        schedules = [first, *(_copy_origin(space.schedule(point), first) for point in points)]
        fitting = [s for s in schedules if not check_schedule(s, problem)]
        trials = [question.trial(schedule) for schedule in fitting]
        evaluated = evaluate_schedules(request, trials, measured, again=True)
        costs = {e.schedule.nests: e.evaluation.cost_ns for e in evaluated}
        base = costs[first.nests]
        return [costs.get(s.nests, inf) / base if base < inf else inf for s in schedules[1:]]

    searcher = cast("Searcher", load_searcher(request.search))
    begun = time.monotonic()
    told = search(searcher, space, request.tune, measure, begun + SEARCH_SHARE * (stop - begun))
    points, chosen = [one.point for one in told], finalists(told, FINALISTS)
    schedules = (first, *(_copy_origin(space.schedule(point), first) for point in chosen[1:]))
    return schedules, (*(points.index(point) + 1 for point in chosen), len(points))


def _list_schedules(request: Request, problem: Problem, first: Schedule) -> tuple[Schedule, ...]:
    """Return the requested number of schedules: `first`, the solver's next best, and other register blocks."""
    from isamap.scheduler.search.varied import vary_schedule

    half = replace(request, best=(request.tune + 1) // 2)
    ranked = rank_schedules(half, problem).schedules if half.best > 1 else ()
    model = load_cost_model(request.cost_model)
    others = vary_schedule(problem, model, request.tune, limit_s=request.limit_s, fixed=_list_fixed(request))
    fitting = (s for s in (*ranked, *others) if not check_schedule(s, problem))
    distinct = {s.nests: s for s in reversed((first, *fitting))}
    chosen = tuple(reversed(distinct.values()))[: request.tune]
    return tuple(_copy_origin(schedule, first) for schedule in chosen)


def _list_fixed(request: Request) -> dict[str, int]:
    """Return the decisions that are fixed to numbers."""
    return {name: value for name, value in request.fixed.items() if value is not None}


def _copy_origin(schedule: Schedule, first: Schedule) -> Schedule:
    """Return a schedule with the profile, the question and the bound of the model's first choice."""
    return _with_bound(replace(schedule, profile=first.profile, question=first.question), first)


def _with_bound(schedule: Schedule, first: Schedule) -> Schedule:
    """Return a schedule with the lower bound of the model's first choice, which holds for the whole problem."""
    known = max(schedule.lower_bound_ns or 0.0, first.lower_bound_ns or 0.0)
    return replace(schedule, lower_bound_ns=min(known, schedule.cost_ns or known))


def _replay_winner(winner: Winner, problem: Problem) -> Schedule | None:
    """Return a winner's schedule if it is still valid, or None."""
    try:
        schedule = parse_schedule(Source("schedule from the tuning database", winner.schedule))
    except IsamapError:
        return None
    return None if check_schedule(schedule, problem) else schedule


def _state(question: TuningKey) -> str:
    """Return the digest of everything that influences which schedules are measured, and how."""
    found = (program_state(), MeasuredEvaluator().depends_on(question.machine)["compiler"])
    return digest(*found, *([question.request.search] if question.request.search else []))


def _winner(
    question: TuningKey,
    state: str,
    schedule: Schedule,
    found: TournamentWinner,
    place: int,
    looked_at: int,
    rounds: int,
) -> Winner:
    sizes = {name: str(value) for name, value in sorted(question.request.sizes.items())}
    return Winner(
        key=question.key,
        state=state,
        kernel=question.problem.kernel,
        kernel_sha256=digest(print_routine(question.kernel)),
        sizes=sizes,
        machine=question.machine.name,
        machine_sha256=question.machine.digest,
        profile=schedule.profile,
        threads=question.request.threads,
        processor=this_cpu().describe(),
        compiler=MeasuredEvaluator().depends_on(question.machine)["compiler"],
        version=__version__,
        schedule=print_schedule(schedule),
        place=place,
        asked=question.request.tune,
        contenders=looked_at,
        rounds=rounds,
        cost_ns=round(found.cost_ns, 1),
        first_ns=round(found.first_ns, 1),
        ratio=round(found.ratio, 4),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _report_winner(winner: Winner) -> Diagnostic:
    is_first = winner.place == 1
    which = "the cost model's first choice" if is_first else f"number {winner.place}"
    notes = () if is_first else (f"the cost model's first choice takes {winner.ratio:.3g} times as long",)
    return Diagnostic(
        "chosen-by-tuning",
        f"of {winner.contenders} schedules {which} is the fastest, {winner.cost_ns:.0f} ns; "
        f"measured {winner.time}",
        severity="note",
        notes=notes,
    )


def _report_stop(request: Request, rounds: int, winner: Winner) -> Diagnostic:
    return Diagnostic(
        "tuning-stopped",
        f"measuring was stopped after {request.tune_limit_s:g} s and {rounds} of {ROUNDS} rounds; "
        "no winner is kept",
        severity="warning",
        notes=(
            f"{winner.contenders} schedules were measured; number {winner.place} is the fastest so far",
            f"it took {winner.cost_ns:.0f} ns, the cost model's first choice {winner.first_ns:.0f} ns",
        ),
        help="the same command goes on with the rounds that are missing; --tune-limit gives more time",
    )
