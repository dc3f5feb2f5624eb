"""A Problem answered: the door to this package.

schedule(problem)                                   CP-SAT, hinted by greedy
schedule(problem, heuristic="greedy")               at once
schedule(problem, fixed={"nest0.block.k": 256})     with parts decided by a person
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from difflib import get_close_matches

from isamap.plan.check import check_schedule
from isamap.plan.decisions import mapping_of
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.analytic import AnalyticModel
from isamap.scheduler.candidates import fixed_names, open_options
from isamap.scheduler.cpsat import Limits, Solved, solve_nest
from isamap.scheduler.greedy import greedy_candidate
from isamap.scheduler.space import Assignment, Space
from isamap.source import Diagnostic, Infeasible, UsageProblem

HEURISTICS = ("cpsat", "greedy")
# Solver effort per second of the wall-clock limit: so little that the clock stops it on slow machines only.
DETERMINISTIC_SHARE = 0.2


def schedule(
    problem: Problem,
    *,
    heuristic: str = "cpsat",
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
    model: CostModel | None = None,
) -> Schedule:
    """The best schedule found, with its cost and what is proven about it. Units: `limit_s` of wall clock.

    Raises: UsageProblem for unknown heuristics or decisions; Infeasible when the fixed ones cannot be met.
    """
    if heuristic not in HEURISTICS:
        raise UsageProblem(_unknown("heuristic", heuristic, HEURISTICS))
    model = model or AnalyticModel()
    decided = dict(sorted((fixed or {}).items()))
    _check_fixed(problem, decided)
    deadline = time.monotonic() + limit_s
    effort = DETERMINISTIC_SHARE * limit_s / max(1, len(problem.nests))
    solved: list[Solved] = []
    for position, nest in enumerate(problem.nests):
        options = open_options(problem, nest, model, decided)
        first = greedy_candidate(options)
        if first is None:
            raise Infeasible(_impossible(nest, decided))
        if heuristic == "greedy":
            floor = min(first.cost_ns, *(option.floor_ns for option in options))
            solved.append(Solved(first, floor, "HEURISTIC", reproducible=True))
        else:
            left_s = (deadline - time.monotonic()) / (len(problem.nests) - position)
            solved.append(solve_nest(options, first, Limits(left_s, effort)))
    answer = _assembled(problem, model.name, solved)
    findings = check_schedule(answer, problem)
    assert not findings, "\n".join(finding.render() for finding in findings)
    return answer


def _assembled(problem: Problem, model: str, solved: list[Solved]) -> Schedule:
    statuses = {part.status for part in solved}
    status = next(word for word in ("HEURISTIC", "FEASIBLE", "OPTIMAL") if word in statuses)
    return Schedule(
        problem.kernel,
        problem.machine,
        problem.sizes,
        tuple(part.candidate.nest() for part in solved),
        model,
        sum(part.candidate.cost_ns for part in solved),
        sum(part.bound_ns for part in solved),
        status,
        all(part.reproducible for part in solved),
    )


# --- fixed decisions --------------------------------------------------------------------------------------


def _check_fixed(problem: Problem, fixed: Assignment) -> None:
    known = [name for nest in problem.nests for name in _decisions(problem, nest)]
    for name in fixed:
        if name not in known:
            raise UsageProblem(_unknown("decision", name, sorted(set(known))))


def _decisions(problem: Problem, nest: NestProblem) -> list[str]:
    names = [mapping_of(nest.statement)]
    for option in nest.options:
        names += Space(nest.statement, option, dict(problem.registers), {}).names()
    return names


def _unknown(what: str, name: str, known: tuple[str, ...] | list[str]) -> Diagnostic:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return Diagnostic(
        "fix-unknown",
        f"there is no {what} `{name}`",
        notes=(f"known: {', '.join(known[:12])}{' and others' if len(known) > 12 else ''}",),
        help=f"did you mean `{near[0]}`?" if near else None,
    )


def _impossible(nest: NestProblem, fixed: Assignment) -> Diagnostic:
    named = [f"{name} = {fixed[name]}" for name in fixed_names(fixed, nest.statement)]
    if not named:
        return Diagnostic(
            "fix-impossible",
            f"statement {nest.statement} has no schedule: one issue of each mapping needs more registers "
            "than there are, or an operand that nothing supplies",
        )
    return Diagnostic(
        "fix-impossible",
        f"no schedule of statement {nest.statement} has {', '.join(named)}",
        notes=("steps are multiples of what one issue covers, and unrolled tiles fit into the registers",),
        help="leave one of them to the solver",
    )
