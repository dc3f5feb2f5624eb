"""Answer a Problem with a Schedule: the entry point of this package.

schedule(problem)                                   CP-SAT, hinted by greedy
schedule(problem, heuristic="greedy")               at once
schedule(problem, fixed={"nest0.block.k": 256})     with parts decided by a person
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model, load_heuristic, plugin_package
from isamap.plan.problem import Problem
from isamap.plan.protocols import CostModel, Heuristic
from isamap.plan.schedule import PROVEN, Schedule
from isamap.scheduler.conflicts.conflicts import explain_conflict
from isamap.scheduler.deciding.fixing import resolve
from isamap.scheduler.nests.pricing import price
from isamap.source import Diagnostic, UsageProblem, add_up, replace


def schedule(
    problem: Problem,
    *,
    heuristic: str | Heuristic = "cpsat",
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
    model: str | CostModel = "analytic",
) -> Schedule:
    """Return the best schedule found, with its cost and what is proven about it. Units: `limit_s` of wall clock.

    Raises: UsageProblem for unknown or broken plug-ins and unknown decisions; Infeasible when the fixed ones
    cannot be met.
    """
    finder = load_heuristic(heuristic) if isinstance(heuristic, str) else heuristic
    priced = load_cost_model(model) if isinstance(model, str) else model
    decided = resolve(problem, fixed or {})
    with explain_conflict(problem, decided):
        answer = finder.schedule(problem, priced, limit_s=limit_s, fixed=decided)
    answer = replace(
        _with_cheapest_price(answer, problem, priced),
        blocks=problem.blocks,
        fixed=tuple(decided.items()),
        found_by=answer.found_by or finder.name,
        proved_by=answer.proved_by or (finder.name if answer.lower_bound_ns else ""),
    )
    findings = check_schedule(answer, problem)
    if findings:
        place = plugin_package(finder)
        assert place is not None, "\n".join(finding.render() for finding in findings)
        raise UsageProblem.of(
            "plugin-broken",
            f"the heuristic `{finder.name}` of {place} gave a schedule that breaks a rule",
            notes=tuple(finding.message for finding in findings[:3]),
            help="tell its authors; `--heuristic cpsat` is built in",
        )
    if not answer.reproducible and not answer.findings and not answer.is_proven:
        return replace(answer, findings=(_report_stop(finder.name, limit_s),))
    return answer


def _with_cheapest_price(answer: Schedule, problem: Problem, model: CostModel) -> Schedule:
    """Return the answer with the cost of the cheapest decisions that give its program."""
    parts = price(answer, problem, model)
    cost_ns = add_up(part or 0.0 for part in parts)
    if None in parts or answer.cost_ns is None or cost_ns >= answer.cost_ns * (1 - PROVEN):
        return answer
    bound_ns = None if answer.lower_bound_ns is None else min(cost_ns, answer.lower_bound_ns)
    return replace(answer, cost_ns=cost_ns, lower_bound_ns=bound_ns)


def _report_stop(name: str, limit_s: float) -> Diagnostic:
    return Diagnostic(
        "solver-stopped",
        f"{name} was stopped after {limit_s:g} s; this is the best schedule so far",
        severity="warning",
        help="give it more time with --limit",
    )
