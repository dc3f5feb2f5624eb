"""What is to be seen of a schedule, put together: the scheduler prices it, and the report shows it."""

from __future__ import annotations

from collections.abc import Sequence

from isamap.machine import Machine
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.report.explained import Explained, explain_schedule
from isamap.report.runners_up import Runner
from isamap.scheduler.nests.pricing import read_nest
from isamap.scheduler.shares import where_time_goes


def explain(
    schedule: Schedule,
    problem: Problem,
    machine: Machine,
    cost_model: str,
    ranked: Sequence[Schedule] = (),
) -> Explained:
    """The views of a schedule; `ranked` are the cheapest ones, with which it is compared.

    Raises: UsageProblem for a cost model that does not load.
    """
    times = where_time_goes(schedule, problem, load_cost_model(cost_model))
    others = [other for other in ranked if other.nests != schedule.nests]
    runners = [_runner(s, problem) for s in (schedule, *others)] if others else []
    return explain_schedule(schedule, problem, machine, times, runners)


def _runner(schedule: Schedule, problem: Problem) -> Runner:
    """A schedule by the decisions that it stands for."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found: dict[str, int | str] = {}
    for question in problem.nests:
        nest = nests.get(question.statement)
        if nest is not None and (read := read_nest(problem, question, nest)) is not None:
            found |= read[1]
            found[f"nest{question.statement}.mapping"] = nest.mapping
    return Runner(schedule.cost_ns or 0.0, found)
