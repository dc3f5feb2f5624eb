"""A Problem answered: the door to this package.

schedule(problem)                                   CP-SAT, hinted by greedy
schedule(problem, heuristic="greedy")               at once
schedule(problem, fixed={"nest0.block.k": 256})     with parts decided by a person
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from isamap.plan.check import check_schedule
from isamap.plan.decisions import mapping_of
from isamap.plan.plugins import load_cost_model, load_heuristic, origin
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel, Heuristic
from isamap.plan.schedule import Schedule
from isamap.scheduler.conflicts import explain
from isamap.scheduler.space import Assignment, Space
from isamap.source import Diagnostic, Infeasible, UsageProblem


def schedule(
    problem: Problem,
    *,
    heuristic: str | Heuristic = "cpsat",
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
    model: str | CostModel = "analytic",
) -> Schedule:
    """The best schedule found, with its cost and what is proven about it. Units: `limit_s` of wall clock.

    Raises: UsageProblem for unknown or broken plug-ins and unknown decisions; Infeasible when the fixed ones
    cannot be met.
    """
    finder = load_heuristic(heuristic) if isinstance(heuristic, str) else heuristic
    priced = load_cost_model(model) if isinstance(model, str) else model
    decided = dict(sorted((fixed or {}).items()))
    _check_fixed(problem, decided)
    try:
        answer = finder.schedule(problem, priced, limit_s=limit_s, fixed=decided)
    except Infeasible as error:
        raise Infeasible(*(explain(problem, decided) or error.diagnostics)) from error
    findings = check_schedule(answer, problem)
    if findings:
        place = origin(finder)
        assert place is not None, "\n".join(finding.render() for finding in findings)
        raise UsageProblem(
            Diagnostic(
                "plugin-broken",
                f"the heuristic `{finder.name}` of {place} gave a schedule that breaks a rule",
                notes=tuple(finding.message for finding in findings[:3]),
                help="tell its authors; `--heuristic cpsat` is built in",
            )
        )
    if not answer.reproducible and not answer.findings:
        return replace(answer, findings=(_stopped(finder.name, limit_s),))
    return answer


def _stopped(name: str, limit_s: float) -> Diagnostic:
    return Diagnostic(
        "solver-stopped",
        f"{name} was stopped after {limit_s:g} s; this is the best schedule so far",
        severity="warning",
        help="give it more time with --limit",
    )


def _check_fixed(problem: Problem, fixed: Assignment) -> None:
    known = [name for nest in problem.nests for name in _decisions(problem, nest)]
    for name in fixed:
        if name not in known:
            raise UsageProblem(_unknown(name, sorted(set(known))))


def _decisions(problem: Problem, nest: NestProblem) -> list[str]:
    names = [mapping_of(nest.statement)]
    for option in nest.options:
        names += Space(nest.statement, option, dict(problem.registers), {}).names()
    return names


def _unknown(name: str, known: list[str]) -> Diagnostic:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return Diagnostic(
        "fix-unknown",
        f"there is no decision `{name}`",
        notes=(f"known: {', '.join(known[:12])}{' and others' if len(known) > 12 else ''}",),
        help=f"did you mean `{near[0]}`?" if near else None,
    )
