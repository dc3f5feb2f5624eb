"""Return diverse schedules for evaluation, one per mapping and register block, which is where cost models err.

The cheapest schedules of a model are mostly one register block with its loops in another order, and run
alike. Measuring also needs others: for each promising register block, the schedule that descent finds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.deciding.fixing import resolve
from isamap.scheduler.search.assembling import Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import solve_groups
from isamap.scheduler.search.greedy import descend, first_assignment, first_candidate, moves
from isamap.source.records import replace

# Of the blocks that promise most, how many are looked at for each schedule that is wanted.
LOOKED_AT = 2


def vary_schedule(
    problem: Problem,
    model: CostModel,
    count: int,
    *,
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
) -> tuple[Schedule, ...]:
    """Return the cheapest schedules, each with another mapping or register block of the costliest statement.

    The other statements are as greedy has them. There may be fewer than `count`. Units: `limit_s` in
    seconds of wall clock. Raises: Infeasible if nothing agrees with `fixed`.
    """
    stop = time.monotonic() + limit_s
    decisions = resolve(problem, fixed or {})
    lists: dict[int, tuple[Candidate, ...]] = {}

    def solve(nest: NestProblem, options: tuple[OpenOption, ...], _: int) -> Solved:
        first = first_candidate(nest, options, decisions, stop)
        lists[nest.statement] = _per_block(options, count, stop)
        return _as_solved(first)

    groups = solve_groups(problem, model, decisions, solve)
    costliest = max(groups, key=lambda g: g.answer.candidate.cost_ns)
    found: list[Schedule] = []
    for candidate in lists[costliest.statement]:
        parts = [
            part
            for group in groups
            for part in group.parts(_as_solved(candidate) if group is costliest else group.answer)
        ]
        parts.sort(key=lambda part: part.candidate.option.space.statement)
        found.append(replace(assemble(problem, model.name, parts), fixed=tuple(decisions.items())))
    return tuple(found)


def _as_solved(candidate: Candidate) -> Solved:
    return Solved(candidate, 0.0, "HEURISTIC", reproducible=True, found_by="greedy")


def _per_block(options: Sequence[OpenOption], count: int, stop: float) -> tuple[Candidate, ...]:
    """Return the results of descent for the register blocks with the least bounds, cheapest first."""
    found: list[Candidate] = []
    for option, number in _blocks_by_bound(options, LOOKED_AT * count):
        start = first_assignment(option.space, option.register_blocks[number])
        if start is not None:
            found.append(descend(candidate_of(option, start), moves, stop))
        if found and time.monotonic() > stop:
            break
    return tuple(sorted(found, key=lambda c: (c.cost_ns, c.option.number))[:count])


def _blocks_by_bound(options: Sequence[OpenOption], count: int) -> Iterator[tuple[OpenOption, int]]:
    """Yield register blocks in the order of their lower bounds."""
    floors = [
        (floor, option.number, place, number)
        for place, option in enumerate(options)
        if option.floor_ns < inf
        for number, floor in enumerate(option.floors_ns)
    ]
    for _, _, place, number in sorted(floors)[:count]:
        yield options[place], number
