"""Assemble the results of all statements to one Schedule, and explain an infeasible problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.search.candidates import Candidate, fixed_names
from isamap.source import Diagnostic, add_up, dataclass

# What rounding costs to whole steps may hide, as a fraction: more is not called optimal.
ROUNDING = 1e-3
# From what claims least.
STATUSES = ("HEURISTIC", "FEASIBLE", "OPTIMAL")


@dataclass(frozen=True, slots=True)
class Solved:
    """The answer for one statement.

    Units: `bound_ns` in nanoseconds, proven; `effort` of the solver in its own measure. `status` is as in
    Schedule. `findings` are events of the search for its reader. `found_by` and `proved_by` name the engine
    that found the candidate and the one that proved the bound; empty if unknown.
    """

    candidate: Candidate
    bound_ns: float
    status: str
    reproducible: bool
    effort: float = 0.0
    findings: tuple[Diagnostic, ...] = ()
    found_by: str = ""
    proved_by: str = ""


def assemble(problem: Problem, model: str, solved: Sequence[Solved]) -> Schedule:
    """Return the schedule of all statements, in the order of the problem. Its status is the weakest of theirs."""
    statuses = {part.status for part in solved}
    status = next(word for word in STATUSES if word in statuses)
    return Schedule(
        problem.kernel,
        problem.machine,
        problem.sizes,
        tuple(part.candidate.nest() for part in solved),
        model,
        add_up(part.candidate.cost_ns for part in solved),
        add_up(part.bound_ns for part in solved),
        status,
        all(part.reproducible for part in solved),
        tuple(dict.fromkeys(finding for part in solved for finding in part.findings)),
        found_by=", ".join(dict.fromkeys(part.found_by for part in solved if part.found_by)),
        proved_by=", ".join(dict.fromkeys(part.proved_by for part in solved if part.proved_by)),
        blocks=problem.blocks,
    )


def impossible(nest: NestProblem, fixed: Mapping[str, int]) -> Diagnostic:
    """Return why a statement has no schedule."""
    named = [f"{name} = {fixed[name]}" for name in fixed_names(fixed, nest.statement)]
    if not named:
        return Diagnostic(
            "fix-impossible",
            f"statement {nest.statement} has no schedule: one issue of each mapping needs more registers "
            "than there are, or has an operand that no move loads or stores",
        )
    return Diagnostic(
        "fix-impossible",
        f"no schedule of statement {nest.statement} has {', '.join(named)}",
        notes=("steps are multiples of the extent of one issue, and unrolled tiles fit into the registers",),
        help="leave one of them to the solver",
    )
