"""Neighbours of a schedule of one statement: one decision differs, or the register block."""

from __future__ import annotations

from collections.abc import Iterator

from isamap.scheduler.deciding.space import Assignment, RegisterBlock
from isamap.scheduler.deciding.summing import nearest, sum_choices
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.greedy import all_moves


def neighbours(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidates that differ in one decision, or in the register block."""
    option = candidate.option
    for move in all_moves(option, candidate.assignment):
        assignment = {**candidate.assignment, **move}
        if option.space.is_feasible(assignment):
            yield candidate_of(option, assignment)
    for block in option.register_blocks:
        fitted = with_block(option, candidate.assignment, block)
        if fitted is not None and option.space.is_feasible(fitted):
            yield candidate_of(option, fitted)


def with_block(option: OpenOption, assignment: Assignment, block: RegisterBlock) -> Assignment | None:
    """Return the assignment with another register block, and the nearest cache blocks that fit it."""
    space = option.space
    found = dict(assignment)
    iterations = [
        made for made in sum_choices(space, block) if all(n <= assignment[name] for name, n in made.items())
    ]
    if not iterations:
        return None
    found |= iterations[-1]
    for axis in space.axes:
        factor = block.get(axis.name, found.get(space.unroll(axis), 1))
        sizes = space.blocks(axis, factor)
        if not sizes:
            return None
        found[space.block(axis)] = nearest(sizes, assignment[space.block(axis)])
        if not axis.is_reduction:
            found[space.unroll(axis)] = factor
    return found
