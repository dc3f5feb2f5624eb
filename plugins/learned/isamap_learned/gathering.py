"""Samples for learned cost models: schedules near the model's best of many kernels, each timed.

    for found in gather(plan, samples_of(plan, Log.open()), stop): ...     a visit of a row after the other

The measurements of a visit are logged when it ends. Rows with the fewest samples come first, so that a stopped
run can continue.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from isamap.driver.inputs import named_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.refining import evaluate_schedules
from isamap.driver.request import Request, sha256
from isamap.driver.side_by_side import done_side_by_side
from isamap.machine.processor import this_cpu
from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model
from isamap.plan.protocols import Trial
from isamap.scheduler.answer import schedule as solve
from isamap.scheduler.search.points import Point, SearchSpace
from isamap.scheduler.search.varied import vary_schedule
from isamap.source import IsamapError, OnlyWarned
from isamap.source.records import dataclass, replace
from isamap.tune.evaluating import Log, Record, schedule_text
from isamap.tune.measured import MeasuredEvaluator, check_processor
from isamap.tune.profile import Profile
from isamap_learned.features import FEATURES_VERSION, described
from isamap_learned.samples import PROCESSOR_TIME, SampleRow

# So many schedules are timed in turns, in rounds of so many seconds each.
TOGETHER, ROUNDS, SECONDS = 16, 3, 0.01
# How many of the model's best a walk may begin at, how many changes it takes at most, and how many times the
# best predicted cost it may lead to: worse ones are never chosen among.
LISTED, MOST_CHANGES, WIDEST = 8, 5, 3.0
# Walks for each schedule that is wanted.
WALKS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The samples to gather: rows on a machine with a profile. Units: `limit_s` for the search of one row."""

    rows: tuple[SampleRow, ...]
    machine: str
    profile: Profile | None
    limit_s: float = 3.0

    def request(self, row: SampleRow) -> Request:
        """Return the question about a row, of all its mappings."""
        sizes, text = dict(row.sizes), named_kernel(row.kernel)
        return Request(text, self.machine, sizes, profile=self.profile, limit_s=self.limit_s, best=LISTED)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The samples of one row: the number of new and of failed ones; `refused` says why there is none."""

    row: SampleRow
    count: int
    failed: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Formulated:
    """A row's search space, and the data that its trials share."""

    request: Request
    space: SearchSpace
    trial: Trial


Samples = Mapping[SampleRow, Set[str]]
"""The texts of the schedules of each row that were timed."""


def samples_of(plan: Plan, log: Log) -> dict[SampleRow, set[str]]:
    """Return the schedules in the log by row, for this machine and these features. Raises: Unkept."""
    shas = {row: sha256(named_kernel(row.kernel).text) for row in plan.rows}
    found: dict[SampleRow, set[str]] = {row: set() for row in plan.rows}
    for record in log.records():
        is_ours = record.evaluator == PROCESSOR_TIME and record.machine == plan.machine
        if is_ours and record.versions.get("features") == str(FEATURES_VERSION):
            for row, sha in shas.items():
                if record.kernel_sha256 == sha and row.has(record.sizes):
                    found[row].add(record.schedule)
    return found


def gather(
    plan: Plan,
    before: Samples,
    stop: float,
    watch: Callable[[str], None] = lambda _: None,
    scheduler: str | None = None,
) -> Iterator[Gathered]:
    """Yield the samples of each visited row until `stop` on the monotonic clock, rows with few samples first.

    Schedules timed `before` are not timed again. A row that cannot be compiled here, or has no new schedules,
    is not visited again. With a scheduler, its workers visit the rows. Records are logged here as they come.
    """
    timed = {row: set(texts) for row, texts in before.items()}
    wave, where = (1, 1) if scheduler is None else (WAVE, scheduler)
    while timed and time.monotonic() < stop:
        rows = sorted(timed, key=lambda r: len(timed[r]))[:wave]
        watch(str(rows[0]))
        visits = [Visit(plan, row, frozenset(timed[row]), this_cpu().key) for row in rows]
        for number, (found, records) in done_side_by_side(visit, visits, where):
            row = rows[number]
            for record in records:
                assert (record.machine, row.has(record.sizes)) == (plan.machine, True), "a sample of this row"
                timed[row].add(record.schedule)
                with OnlyWarned():
                    Log.open().add(record)
            if not found.count:
                del timed[row]
            yield found
            if time.monotonic() > stop:
                return


WAVE = 32
"""Rows that workers are given together; the next ones are chosen by the samples of these."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of a row, perhaps on another computer with the same processor; `timed` are known schedules."""

    plan: Plan
    row: SampleRow
    timed: frozenset[str]
    processor: str


def visit(asked: Visit) -> tuple[Gathered, tuple[Record, ...]]:
    """Return the new samples of a row with their records, which are not logged yet. Raises: UsageProblem."""
    check_processor(asked.processor)
    with TemporaryDirectory() as folder:
        log = Log(Path(folder) / "evaluations.sqlite")
        try:
            found, features = _visit_row(
                asked.row, _formulate_row(asked.plan, asked.row), set(asked.timed), log
            )
        except IsamapError as error:
            return Gathered(asked.row, 0, refused=error.diagnostics[0].message), ()
        return found, tuple(
            replace(
                record,
                features=features[record.schedule],
                versions={**record.versions, "features": str(FEATURES_VERSION)},
            )
            for record in log.records()
        )


@lru_cache(maxsize=128)
def _formulate_row(plan: Plan, row: SampleRow) -> _Formulated:
    """Return the search space around the greedy schedule of a row. Raises: NoMapping, Infeasible, UsageProblem."""
    request = plan.request(row)
    made = compile_kernel(request, "formulate")
    assert made.machine, "the stages before have run"
    assert made.canonical, "the stages before have run"
    assert made.problem, "the stages before have run"
    model = load_cost_model(request.cost_model)
    first = solve(made.problem, heuristic="greedy", limit_s=plan.limit_s, model=model)
    listed = vary_schedule(made.problem, model, LISTED, limit_s=plan.limit_s)
    space = SearchSpace.around(made.problem, model, {}, first, listed)
    assert space is not None, "greedy decides"
    sizes = {name: value for name, value in made.problem.sizes if isinstance(value, int)}
    profile = request.profile.digest[:12] if request.profile else ""
    trial = Trial(made.canonical, made.machine, made.problem, replace(first, profile=profile), sizes)
    return _Formulated(request, space, trial)


def _visit_row(
    row: SampleRow, formulated: _Formulated, timed: set[str], log: Log
) -> tuple[Gathered, dict[str, Mapping[str, float]]]:
    """Time and log new schedules of a row. Return their number, and the features of each by its text.

    Raises: RunProblem, CompilerRefused, MissingTool.
    """
    trials: list[Trial] = []
    features: dict[str, Mapping[str, float]] = {}
    model = load_cost_model(formulated.request.cost_model)
    for point in _draw_points(formulated.space, random.Random(len(timed))):
        schedule = replace(formulated.space.schedule(point), profile=formulated.trial.schedule.profile)
        text = schedule_text(schedule)
        if text not in timed and not check_schedule(schedule, formulated.trial.problem):
            timed.add(text)
            trials.append(replace(formulated.trial, schedule=schedule))
            features[text] = described(trials[-1], model).features
        if len(trials) == TOGETHER:
            break
    clocked = MeasuredEvaluator(ROUNDS, SECONDS, PROCESSOR_TIME, processor_time=True)
    evaluated = evaluate_schedules(formulated.request, trials, clocked, log=log) if trials else ()
    ran = sum(one.evaluation.cost_ns < float("inf") for one in evaluated)
    return Gathered(row, ran, len(evaluated) - ran), features


def _draw_points(space: SearchSpace, rng: random.Random) -> Iterator[Point]:
    """Yield the model's best, then points a few changes away from one of these, some of them twice."""
    starts = (space.first, *space.listed)
    widest = WIDEST * min(point.cost_ns for point in starts)
    yield from (point for point in starts if point.cost_ns <= widest)
    for _ in range(WALKS * TOGETHER):
        point = rng.choice(starts)
        for _ in range(rng.randint(1, MOST_CHANGES)):
            point = space.changed(point, rng) or point
        if point.cost_ns <= widest:
            yield point
