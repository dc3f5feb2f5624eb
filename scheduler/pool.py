"""Schedules of one statement that are known, cheapest first, and what lies around them.

Two ways to decide an option may be the same loops: a schedule is known by its text, with all its ways.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import factorial, inf, prod

from isamap.plan.text import print_nest
from isamap.scheduler.candidates import Candidate, OpenOption, decided
from isamap.scheduler.crossing import open_values
from isamap.scheduler.greedy import all_moves
from isamap.scheduler.orders import agrees, canonical, decisions_of
from isamap.scheduler.space import Assignment, RegisterBlock, Space
from isamap.scheduler.summing import nearest, sum_choices


@dataclass(slots=True)
class Pool:
    """Per text the cheapest way to decide it and all ways seen; `expanded` are those looked around."""

    best: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    seen: dict[str, list[Candidate]] = field(default_factory=dict[str, list[Candidate]])
    expanded: set[str] = field(default_factory=set[str])

    def add(self, candidate: Candidate) -> bool:
        """Takes a candidate in; whether it is new."""
        text = print_nest(candidate.nest())
        ways = self.seen.setdefault(text, [])
        own = canonical(candidate.option.space, candidate.assignment)
        if any(canonical(w.option.space, w.assignment) == own for w in ways):
            return False
        ways.append(candidate)
        if text not in self.best or candidate.cost_ns < self.best[text].cost_ns:
            self.best[text] = candidate
        return True

    def ranked(self, k: int) -> list[Candidate]:
        """The cheapest `k`, in an order that depends on nothing but them."""
        return [self.best[text] for text in self._texts(k)]

    def ways(self, candidates: Sequence[Candidate], last: Candidate) -> list[Candidate]:
        """All ways seen to decide the same loops as these do, but for those that a solver takes for `last`.

        Loops that run once may stand anywhere in a text; a solver sees them in one place only.
        """
        kept = canonical(last.option.space, last.assignment)
        found = (way for c in candidates for way in self.seen[print_nest(c.nest())])
        return [
            way
            for way in found
            if way.option is not last.option or canonical(way.option.space, way.assignment) != kept
        ]

    def expand(self, k: int, stop: float) -> bool:
        """Adds what differs little from the cheapest `k`, until nothing changes; whether that was in time."""
        while open_ones := [text for text in self._texts(k) if text not in self.expanded]:
            for text in open_ones:
                if time.monotonic() > stop:
                    return False
                self.expanded.add(text)
                ranked = self.ranked(k)
                most = ranked[-1].cost_ns if len(ranked) == k else inf
                for other in neighbours(self.best[text]):
                    if other.cost_ns <= most:
                        self.add(other)
        return True

    def _texts(self, k: int) -> list[str]:
        return heapq.nsmallest(k, self.best, key=lambda text: (self.best[text].cost_ns, text))


def neighbours(candidate: Candidate) -> Iterator[Candidate]:
    """What differs in one decision, or in its register block."""
    option = candidate.option
    for move in all_moves(option, candidate.assignment):
        assignment = {**candidate.assignment, **move}
        if option.space.is_feasible(assignment):
            yield decided(option, assignment)
    for block in option.register_blocks:
        fitted = _with_block(option, candidate.assignment, block)
        if fitted is not None and option.space.is_feasible(fitted):
            yield decided(option, fitted)


def _with_block(option: OpenOption, assignment: Assignment, block: RegisterBlock) -> Assignment | None:
    """The assignment with another register block, and the nearest cache blocks that fit it."""
    space = option.space
    found = dict(assignment)
    turns = [
        made for made in sum_choices(space, block) if all(n <= assignment[name] for name, n in made.items())
    ]
    if not turns:
        return None
    found |= turns[-1]
    for axis in space.axes:
        factor = block.get(axis.name, found.get(space.unroll(axis), 1))
        sizes = space.blocks(axis, factor)
        if not sizes:
            return None
        found[space.block(axis)] = nearest(sizes, assignment[space.block(axis)])
        if not axis.is_reduction:
            found[space.unroll(axis)] = factor
    return found


# --- all of them ------------------------------------------------------------------------------------------


def count_assignments(option: OpenOption) -> int:
    """How many ways there are to decide an option, those counted too that are not feasible."""
    space = option.space
    count = factorial(len(space.axes)) * factorial(len(space.register_axes))
    count *= prod(len(space.stage_values(operand)) for operand in space.option.operands)
    count *= prod(len(values) for values in open_values(space).values())
    return count * sum(
        prod(len(sizes) for sizes in _block_sizes(space, block, turns))
        for block in option.register_blocks
        for turns in sum_choices(space, block)
    )


def _block_sizes(space: Space, block: RegisterBlock, turns: Assignment) -> list[tuple[int, ...]]:
    """The cache blocks of each axis that fit a register block and an unrolled sum."""
    return [space.blocks(a, block.get(a.name, turns.get(space.unroll(a), 1))) for a in space.axes]


def all_candidates(option: OpenOption) -> Iterator[Candidate]:
    """Every way to decide an option."""
    space = option.space
    orders = [decisions_of(order, space.order_pairs()) for order in permutations(space.axes)]
    sweeps = [decisions_of(order, space.sweep_pairs()) for order in permutations(space.register_axes)]
    stages = [[(space.stage(o), value) for value in space.stage_values(o)] for o in space.option.operands]
    crossings = [[(name, value) for value in values] for name, values in open_values(space).items()]
    both = ((block, turns) for block in option.register_blocks for turns in sum_choices(space, block))
    for block, turns in both:
        unrolls = {space.unroll(axis): block[axis.name] for axis in space.register_axes} | turns
        sizes = [
            [(space.block(axis), size) for size in own]
            for axis, own in zip(space.axes, _block_sizes(space, block, turns), strict=True)
        ]
        for chosen in product(*sizes, *stages, *crossings):
            for order, sweep in product(orders, sweeps):
                assignment = {**unrolls, **dict(chosen), **order, **sweep}
                if agrees(assignment, space.fixed) and space.is_feasible(assignment):
                    yield decided(option, assignment)
