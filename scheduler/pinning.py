"""Complete a partial schedule: keep the parts that a user named, and solve for the others.

    complete(problem, schedule, {"nest0.unroll": None, "nest0.block.k": 256}, solve)

keeps the unrolling of statement 0, cuts k into blocks of 256, and calls `solve` for its other decisions.
Statements that the user does not name stay unchanged. Statements that the schedule lacks are solved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from isamap.plan.decisions import mapping_of, parallel_of
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.scheduler.deciding.fixing import all_names, names_of, resolve, unknown
from isamap.scheduler.nests.pricing import read_nest
from isamap.source import UsageProblem, replace

Solve = Callable[[Problem, Mapping[str, int]], Schedule]


def complete(problem: Problem, base: Schedule, fixed: Mapping[str, int | None], solve: Solve) -> Schedule:
    """Return the schedule with parts solved again. A decision fixed to None keeps its value in the schedule.

    Raises: UsageProblem for names that are unknown, or whose value cannot be read off; as `solve`.
    """
    given = resolve(problem, {name: value for name, value in fixed.items() if value is not None})
    pins = [name for name, value in fixed.items() if value is None]
    kept = {nest.statement: nest for nest in base.nests}
    remaining = dict(given)
    asked: set[int] = set()
    for nest in problem.nests:
        names = sorted(names_of(problem, nest))
        pinned = [name for name in names if any(_is_part(name, pin) for pin in pins)]
        if pinned and nest.statement in kept:
            remaining = _values(problem, nest, kept[nest.statement], pinned) | remaining
        if pinned or set(names) & set(given) or not _together(base, nest.statement):
            asked |= {nest.statement, *_together(base, nest.statement)}
    for pin in pins:
        if not any(_is_part(name, pin) for name in all_names(problem)):
            raise UsageProblem(unknown(pin, all_names(problem)))
    if not asked:
        return base
    open_nests = tuple(nest for nest in problem.nests if nest.statement in asked)
    found = solve(replace(problem, nests=open_nests), remaining)
    return _merge_nests(base, found, [nest for nest in base.nests if nest.statement not in asked])


def _together(base: Schedule, statement: int) -> set[int]:
    """Return the statements that one nest performs together with a given statement."""
    groups = [{nest.statement, *nest.fused} for nest in base.nests]
    return next((group for group in groups if statement in group), set[int]())


def _merge_nests(base: Schedule, found: Schedule, kept: list[NestSchedule]) -> Schedule:
    """Return the kept nests and the found ones. A total with hand-written parts has no proof."""
    ordered = tuple(sorted((*kept, *found.nests), key=lambda nest: nest.statement))
    if not kept:
        return replace(found, kernel=base.kernel, machine=base.machine, sizes=base.sizes, blocks=base.blocks)
    return replace(
        base,
        nests=ordered,
        model="",
        cost_ns=None,
        lower_bound_ns=None,
        status="MANUAL",
        reproducible=found.reproducible,
        profile="",
        fixed=(),
        question="",
        findings=found.findings,
    )


def _is_part(name: str, pin: str) -> bool:
    """Return whether `pin` names a decision or a group that contains it, with or without the statement."""
    return any(own == pin or own.startswith(f"{pin}.") for own in (name, name.partition(".")[2]))


def _values(problem: Problem, nest: NestProblem, chosen: NestSchedule, pinned: list[str]) -> dict[str, int]:
    """Return the values of the pinned decisions in a nest."""
    read = read_nest(problem, nest, chosen)
    if read is None:
        raise UsageProblem.of(
            "fix-unreadable",
            f"parts of nest {nest.statement} cannot be fixed: no decisions lead to its loops",
            notes=("it has more loops over an axis, or stages elsewhere, than the solver would",),
            help="replay it unchanged, without --fix, or give the values: --fix NAME=NUMBER",
        )
    option, assignment = read
    number = next(
        n for n, o in enumerate(nest.options) if (o.mapping, o.choose) == (option.mapping, option.choose)
    )
    dealt = {name: prod(n for axis, n in option.parts if axis == name) for name, _ in option.parts}
    values = {mapping_of(nest.statement): number, **assignment}
    values |= {parallel_of(nest.statement, axis.name): dealt.get(axis.name, 1) for axis in option.axes}
    return {name: values[name] for name in pinned if name in values}
