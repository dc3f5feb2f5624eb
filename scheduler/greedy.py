"""The built-in heuristic: a complete schedule in milliseconds, always.

Per option, cheapest first: the register blocks that promise most, then every other decision in turn set to
what the cost model likes best, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from isamap.plan.problem import Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.candidates import Candidate, OpenOption, decided, floor_of, open_options
from isamap.scheduler.orders import first_order, other_orders
from isamap.scheduler.space import Assignment, RegisterBlock

# How often all decisions are gone through, and how many register blocks of an option are tried in earnest.
ROUNDS = 4
TRIED_BLOCKS = 3
# Costs closer than this are the same: sums of floats must not decide anything.
SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Greedy:
    """The built-in heuristic."""

    model: CostModel
    name: str = "greedy"

    def schedule(self, problem: Problem, limit_s: float) -> Schedule:
        """A schedule of every statement, well within any limit."""
        options = [open_options(problem, nest, self.model, {}) for nest in problem.nests]
        found = [candidate for each in options if (candidate := greedy_candidate(each))]
        return Schedule(
            problem.kernel,
            problem.machine,
            problem.sizes,
            tuple(candidate.nest() for candidate in found),
            self.model.name,
            sum(candidate.cost_ns for candidate in found),
            None,
            "HEURISTIC",
        )


def greedy_candidate(options: Sequence[OpenOption]) -> Candidate | None:
    """The best that descent finds; None where the fixed decisions leave nothing."""
    best: Candidate | None = None
    for option in options:
        if best is not None and option.floor_ns >= best.cost_ns:
            break  # the options come by their floors
        floors = sorted(
            ((floor_of(option, block), i) for i, block in enumerate(option.register_blocks)),
        )
        for floor, i in floors[:TRIED_BLOCKS]:
            if best is not None and floor >= best.cost_ns:
                break
            start = _first_assignment(option, option.register_blocks[i])
            found = _descend(decided(option, start), _moves) if start is not None else None
            if found is not None and (best is None or found.cost_ns < best.cost_ns * (1 - SAME)):
                best = found
    return _descend(best, _double_moves) if best is not None else None


def _descend(best: Candidate, moves: Callable[[OpenOption, Assignment], Iterator[Assignment]]) -> Candidate:
    """The result of improving one decision after the other."""
    option = best.option
    for _ in range(ROUNDS):
        before = best.cost_ns
        for move in moves(option, best.assignment):
            assignment = {**best.assignment, **move}
            if option.space.is_feasible(assignment):
                found = decided(option, assignment)
                best = found if found.cost_ns < best.cost_ns * (1 - SAME) else best
        if best.cost_ns >= before:
            break
    return best


def _first_assignment(option: OpenOption, block: RegisterBlock) -> Assignment | None:
    """No cache blocks, axes in their order, nothing staged, as far as that may be."""
    space = option.space
    assignment = {space.unroll(axis): block[axis.name] for axis in space.register_axes}
    for axis in space.axes:
        sizes = space.blocks(axis, block.get(axis.name, 1))
        if not sizes:
            return None
        assignment[space.block(axis)] = sizes[0]
    order = first_order(space.axes, space.order_pairs(), space.fixed)
    sweep = first_order(space.register_axes, space.sweep_pairs(), space.fixed)
    if order is None or sweep is None:
        return None
    assignment |= order | sweep
    for operand in space.option.operands:
        assignment[space.stage(operand)] = space.stage_values(operand)[0]
    if not space.is_feasible(assignment):
        for operand in space.option.operands:
            assignment[space.stage(operand)] = space.stage_values(operand)[-1 if operand.stage_whole else 0]
    return assignment if space.is_feasible(assignment) else None


def _moves(option: OpenOption, current: Assignment) -> Iterator[Assignment]:
    """Single changes to try: a stage, a cache block, an order."""
    space = option.space
    yield from _stages(option, current)
    for axis in space.axes:
        for size in space.blocks(axis, current.get(space.unroll(axis), 1)):
            yield {space.block(axis): size}
    yield from other_orders(space.axes, space.order_pairs(), current, space.fixed)
    yield from other_orders(space.register_axes, space.sweep_pairs(), current, space.fixed)


def _double_moves(option: OpenOption, current: Assignment) -> Iterator[Assignment]:
    """Changes that pay together: a cache block and a stage, then each alone."""
    space = option.space
    for axis in space.axes:
        for size in space.blocks(axis, current.get(space.unroll(axis), 1)):
            for stage in _stages(option, current):
                yield {space.block(axis): size, **stage}
    yield from _moves(option, current)


def _stages(option: OpenOption, current: Assignment) -> list[dict[str, int]]:
    """Each operand staged in another way."""
    space = option.space
    return [
        {space.stage(operand): value}
        for operand in space.option.operands
        for value in space.stage_values(operand)
        if value != current[space.stage(operand)]
    ]
