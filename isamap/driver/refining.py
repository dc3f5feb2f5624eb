"""Search by evaluation: evaluate the K best schedules of a cost model, and choose one.

Add software pipelines to a schedule: the innermost loops of its nests are solved one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isamap.driver.request import Request, sha256
from isamap.ir import Kernel, Range
from isamap.lower.passes import steady_states
from isamap.machine import Machine
from isamap.plan.plugins import load_cost_model, load_evaluator
from isamap.plan.problem import Problem
from isamap.plan.protocols import Evaluator, Trial
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.report.compilation import Ordered, Pipelined
from isamap.run.child import RunProblem
from isamap.source import Diagnostic, replace
from isamap.source.cache import program_state
from isamap.version import __version__, solver_version

if TYPE_CHECKING:
    from isamap.scheduler import Ranking
    from isamap.tune.evaluating import EvaluatedSchedule, Log


RUNNERS_UP = 5
"""The default number of schedules that a report compares."""


def rank_schedules(request: Request, problem: Problem) -> Ranking:
    """Return the `request.best` cheapest schedules by the cost model. Raises: UsageProblem, Infeasible."""
    from isamap.scheduler import k_best

    model = load_cost_model(request.cost_model)
    fixed = {name: value for name, value in request.fixed.items() if value is not None}
    return k_best(problem, model, request.best, limit_s=request.limit_s, fixed=fixed)


def evaluate_schedules(
    request: Request,
    trials: Sequence[Trial],
    evaluator: str | Evaluator,
    *,
    again: bool = False,
    log: Log | None = None,
) -> tuple[EvaluatedSchedule, ...]:
    """Return an evaluator's result for each schedule, each evaluated once. Raises: UsageProblem, MissingTool."""
    from isamap.tune.evaluating import Log, TrialInputs, evaluate_all

    versions = {"isamap": __version__, "state": program_state(), "ortools": solver_version()}
    profile = trials[0].schedule.profile if trials else ""
    # A rewritten kernel is another one.
    kernel = request.kernel.text + (f"\ntransform {request.transform}" if request.transform else "")
    setting = TrialInputs(sha256(kernel), versions, profile)
    found = load_evaluator(evaluator) if isinstance(evaluator, str) else evaluator
    model = load_cost_model(request.cost_model)
    return evaluate_all(trials, found, model, setting, Log.open() if log is None else log, again=again)


def searched_schedule(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    problem: Problem,
    sizes: Mapping[str, int | Range],
    first: Schedule,
) -> Schedule:
    """Return the best schedule by `request.evaluate`, among `first` and the cheapest ones.

    It carries a finding that says how it was chosen. Raises: UsageProblem, MissingTool, RunProblem.
    """
    listed = rank_schedules(request, problem).schedules if request.best > 1 else ()
    listed = tuple(replace(s, profile=first.profile, question=first.question) for s in listed)
    distinct = {schedule.nests: schedule for schedule in reversed((first, *listed))}
    schedules = tuple(reversed(distinct.values()))[: request.best]
    trials = [Trial(kernel, machine, problem, schedule, sizes) for schedule in schedules]
    evaluated = evaluate_schedules(request, trials, request.evaluate)
    best = min(evaluated, key=lambda e: e.evaluation.cost_ns)
    if best.evaluation.cost_ns == float("inf"):
        raise RunProblem.of(
            "nothing-ran",
            f"none of {len(evaluated)} schedules could be evaluated by `{request.evaluate}`",
            notes=tuple(f"{name}: {value}" for name, value in best.evaluation.facts[:3]),
        )
    return replace(best.schedule, findings=(*first.findings, _report_choice(request, evaluated, best)))


def _report_choice(
    request: Request, evaluated: Sequence[EvaluatedSchedule], best: EvaluatedSchedule
) -> Diagnostic:
    place, first = evaluated.index(best) + 1, evaluated[0].evaluation.cost_ns
    cost = best.evaluation.cost_ns
    notes = (f"the cost model's first takes {first / cost:.3g} times as long",) if place > 1 else ()
    return Diagnostic(
        "chosen-by-evaluation",
        f"`{request.evaluate}` chose number {place} of {len(evaluated)} schedules: {cost:.0f} ns",
        severity="note",
        notes=notes,
    )


def with_pipelines(schedule: Schedule, kernel: Kernel, machine: Machine, limit_s: float) -> Ordered:
    """Return the schedule with a software pipeline for each nest that may have one.

    Units: `limit_s` of wall clock, for each of them.
    """
    from isamap.scheduler.pipelines.modulo import pipeline_apart  # its child brings OR-Tools

    nests: list[NestSchedule] = []
    found: list[Pipelined] = []
    for nest, steady in steady_states(kernel, machine, schedule):
        solved = pipeline_apart(steady, limit_s) if steady is not None else None
        found.append(Pipelined(nest.statement, steady, solved))
        nests.append(replace(nest, pipeline=solved.pipeline) if solved is not None else nest)
    return Ordered(replace(schedule, nests=tuple(nests)), tuple(found))
