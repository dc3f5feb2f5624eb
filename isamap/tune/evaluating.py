"""Evaluate each schedule once: known results are read from the log, and new ones are added to it.

The log has every evaluated schedule with its decisions, its price and the parts of it, from which cost models can be
trained.

    Log.open().add(record)       one transaction: the record is stored completely or not at all
    Log.open().find(key)         the newest evaluation of an equal question

It contains no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isamap.ir import Range
from isamap.plan.protocols import (
    ComparingEvaluator,
    CostModel,
    DependentEvaluator,
    Evaluation,
    Evaluator,
    Fact,
    Trial,
)
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_nest
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.scheduler.nests.pricing import read_nest
from isamap.source import OnlyWarned, Unkept, dataclass
from isamap.tune.record_table import RecordTable
from isamap.tune.store import data_path

NAME = "evaluations.sqlite"


@dataclass(frozen=True, slots=True)
class Record:
    """One stored evaluation.

    `key` is the digest of everything on which the result depends. Units: `model_cost_ns` and `cost_ns` in
    nanoseconds (None if it did not run); `features` in the time of an effect as a part of `model_cost_ns`; `time` in
    UTC, ISO 8601.
    """

    key: str
    kernel: str
    kernel_sha256: str
    machine: str
    machine_sha256: str
    profile: str
    sizes: Mapping[str, Any]
    schedule: str
    decisions: Mapping[str, int]
    model: str
    model_cost_ns: float | None
    features: Mapping[str, float]
    evaluator: str
    cost_ns: float | None
    facts: Mapping[str, Fact]
    versions: Mapping[str, str]
    time: str

    @property
    def evaluation(self) -> Evaluation:
        """The evaluator's result."""
        return Evaluation(float("inf") if self.cost_ns is None else self.cost_ns, tuple(self.facts.items()))


def _unusable(path: Path, why: str) -> Unkept:
    return Unkept.of(
        "log-unusable",
        f"the log of evaluations {path} cannot be used: {why}",
        help="move it away: isamap begins a new one; ISAMAP_DATA_DIR names another folder",
    )


_INDEX = "create index if not exists evaluations_by_key on evaluations (key);"
TABLE = RecordTable("evaluations", Record, _unusable, is_log=True, more=_INDEX)


@dataclass(frozen=True, slots=True)
class Log:
    """The SQLite file of evaluations."""

    path: Path

    @staticmethod
    def open() -> Log:
        """Return the log in the user's data folder."""
        return Log(data_path() / NAME)

    def add(self, record: Record) -> None:
        """Store a record permanently. Raises: Unkept if the file cannot be used."""
        with TABLE.change(self.path) as file:
            TABLE.put(file, record)

    def find(self, key: str) -> Record | None:
        """Return the newest record of a key. Raises: Unkept if the file cannot be used."""
        found = TABLE.read(self.path, "where key = ? order by number desc limit 1", (key,))
        return found[0] if found else None

    def records(self) -> Iterator[Record]:
        """Yield all records, oldest first. Raises: Unkept if the file cannot be used."""
        yield from TABLE.read(self.path, "order by number")


@dataclass(frozen=True, slots=True)
class TrialInputs:
    """The common inputs of trials in the form that the log records.

    `versions` are those of everything that made the code and found the schedules. `profile` names the
    measured parameters of the machine, "" for none.
    """

    kernel_sha256: str
    versions: Mapping[str, str]
    profile: str = ""


@dataclass(frozen=True, slots=True)
class EvaluatedSchedule:
    """A schedule with its evaluation. `is_recalled` says that it comes from the log."""

    schedule: Schedule
    evaluator: str
    evaluation: Evaluation
    is_recalled: bool


def evaluate_all(
    trials: Sequence[Trial],
    evaluator: Evaluator,
    model: CostModel,
    setting: TrialInputs,
    log: Log,
    *,
    again: bool = False,
) -> tuple[EvaluatedSchedule, ...]:
    """Return the evaluation of each trial. With `again`, trials in the log are evaluated again.

    Each result is logged before the next group is evaluated, if groups are possible. Raises: the errors of
    the evaluator.
    """
    keys = [trial_key(trial, evaluator, setting) for trial in trials]
    known = {key: None if again else _recall_row(log, key) for key in keys}
    new = [(key, trial) for key, trial in dict(zip(keys, trials, strict=True)).items() if known[key] is None]
    fresh: dict[str, Evaluation] = {}
    answers = _ask(evaluator, [trial for _, trial in new])
    for (key, trial), answer in zip(new, answers, strict=True):
        fresh[key] = answer
        with OnlyWarned():
            log.add(_record(key, trial, evaluator, model, answer, setting))
    found: list[EvaluatedSchedule] = []
    for key, trial in zip(keys, trials, strict=True):
        record = known[key]
        evaluation = fresh[key] if record is None else record.evaluation
        found.append(EvaluatedSchedule(trial.schedule, evaluator.name, evaluation, record is not None))
    return tuple(found)


def _recall_row(log: Log, key: str) -> Record | None:
    with OnlyWarned():
        return log.find(key)
    return None


def _ask(evaluator: Evaluator, trials: Sequence[Trial]) -> Iterator[Evaluation]:
    """Yield the results, one by one if the evaluator can, so that each is logged before the next evaluation."""
    if isinstance(evaluator, ComparingEvaluator):
        yield from evaluator.evaluate_together(trials) if trials else ()
    else:
        yield from (Evaluation(float(evaluator.evaluate(trial))) for trial in trials)


def trial_key(trial: Trial, evaluator: Evaluator, setting: TrialInputs) -> str:
    """Return the digest of all inputs of an evaluation."""
    parts = {
        "kernel": setting.kernel_sha256,
        "machine": trial.machine.digest,
        "profile": setting.profile,
        "sizes": _sizes(trial),
        "schedule": schedule_text(trial.schedule),
        "evaluator": evaluator.name,
        "versions": {**setting.versions, **_depends(evaluator, trial)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def schedule_text(schedule: Schedule) -> str:
    """Return the nests of a schedule as text, equal for schedules with equal code."""
    return "\n\n".join(print_nest(nest) for nest in schedule.nests)


def _depends(evaluator: Evaluator, trial: Trial) -> Mapping[str, str]:
    return evaluator.depends_on(trial.machine) if isinstance(evaluator, DependentEvaluator) else {}


def _sizes(trial: Trial) -> dict[str, int | str]:
    return {
        name: str(value) if isinstance(value, Range) else value for name, value in sorted(trial.sizes.items())
    }


def _record(
    key: str,
    trial: Trial,
    evaluator: Evaluator,
    model: CostModel,
    evaluation: Evaluation,
    setting: TrialInputs,
) -> Record:
    decisions, total_ns, parts = _describe(trial, model)
    ran = evaluation.cost_ns != float("inf")
    return Record(
        key=key,
        kernel=trial.problem.kernel,
        kernel_sha256=setting.kernel_sha256,
        machine=trial.machine.name,
        machine_sha256=trial.machine.digest,
        profile=setting.profile,
        sizes=_sizes(trial),
        schedule=schedule_text(trial.schedule),
        decisions=decisions,
        model=model.name,
        model_cost_ns=total_ns,
        features=parts,
        evaluator=evaluator.name,
        cost_ns=evaluation.cost_ns if ran else None,
        facts=dict(evaluation.facts),
        versions={**setting.versions, **_depends(evaluator, trial)},
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _describe(trial: Trial, model: CostModel) -> tuple[dict[str, int], float | None, dict[str, float]]:
    """Return a schedule's decisions, its price (None without one), and the price's parts."""
    problem, chosen = trial.problem, {nest.statement: nest for nest in trial.schedule.nests}
    decisions: dict[str, int] = {}
    total_ns, sums = 0.0, dict[str, float]()
    for nest, time in zip(problem.nests, where_time_goes(trial.schedule, problem, model), strict=True):
        if nest.statement in chosen:  # otherwise another statement takes it along
            read = read_nest(problem, nest, chosen[nest.statement])
            if read is None or time is None:
                return decisions, None, {}
            decisions |= read[1]
            total_ns += time.total_ns
            for name, ns in time.sums().items():
                sums[name] = sums.get(name, 0.0) + ns
    return decisions, total_ns, {name: ns / total_ns for name, ns in sums.items()} if total_ns > 0 else {}
