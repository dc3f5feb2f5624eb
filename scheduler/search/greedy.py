"""The built-in greedy heuristic: a complete schedule within milliseconds.

For each option, cheapest first, it takes the most promising register blocks. Then it sets one decision after
the other to the value with the least cost, until nothing changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import inf

from isamap.plan.problem import NestProblem, Problem, TileAxis
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.deciding.orders import first_order, other_orders
from isamap.scheduler.deciding.per_operand import first_values, is_any_fixed, least_values, other_values
from isamap.scheduler.deciding.scratch_least import least_assignments
from isamap.scheduler.deciding.software_pipelining import crossings
from isamap.scheduler.deciding.space import Assignment, RegisterBlock, Space
from isamap.scheduler.deciding.summing import sum_choices, vary_factors
from isamap.scheduler.search.assembling import Solved, assemble, impossible
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import solve_all
from isamap.scheduler.search.lower_bounds import costs_of
from isamap.source import Infeasible

# How often all decisions are gone through, and how many register blocks of an option are tried in earnest.
ROUNDS = 4
TRIED_BLOCKS = 3
# How many changes are priced at a time: more are wasted where one of the first pays.
TRIED_AT_ONCE = 64
# By how many iterations all inputs are copied ahead at once. More are tried of one input after the other.
MOST_TOGETHER = 2
# Costs closer than this are the same: sums of floats must not decide anything.
SAME = 1e-9

Changes = frozenset[tuple[str, int]]
"""The decisions that differ."""
Tried = set[Changes]
"""Changes of an assignment that do not pay: asked of it again, they are not priced again."""


class Greedy:
    """The greedy heuristic."""

    name = "greedy"

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """Return a schedule of every statement, well within most limits. Raises: Infeasible."""
        stop = time.monotonic() + limit_s

        def solve(nest: NestProblem, options: tuple[OpenOption, ...], _: int) -> Solved:
            has_all = time.monotonic() < stop
            found = first_candidate(nest, options, fixed, stop)
            floor = min(found.cost_ns, *(option.floor_ns for option in options)) if has_all else 0.0
            return Solved(
                found,
                floor,
                "HEURISTIC",
                reproducible=time.monotonic() < stop,
                found_by=self.name,
                proved_by="lower bounds" if has_all else "",
            )

        return assemble(problem, model.name, solve_all(problem, model, fixed, solve, stop))


def first_candidate(
    nest: NestProblem, options: Sequence[OpenOption], fixed: Mapping[str, int], stop: float = inf
) -> Candidate:
    """Return the greedy schedule by `stop` on the monotonic clock, or after that time the first feasible one.

    Raises: Infeasible if nothing agrees with the fixed decisions.
    """
    found = greedy_candidate(options, stop)
    if found is None:
        raise Infeasible(impossible(nest, fixed))
    return found


def any_candidate(options: Iterable[OpenOption]) -> Iterator[Candidate]:
    """Yield a candidate for each option and register block that has one. No candidate proves infeasibility.

    It has no cache blocks if possible, because then every other decision is possible: `first_assignment`.
    """
    for option in options:
        for block in option.register_blocks:
            start = first_assignment(option.space, block)
            if start is not None:
                yield candidate_of(option, start)


def greedy_candidate(
    options: Sequence[OpenOption], stop: float = inf, limit_ns: float = inf
) -> Candidate | None:
    """Return the best schedule that descent finds by `stop`, or None if the fixed decisions allow none.

    Schedules whose lower bound is above the limit are tried only if there are no others.
    """
    given = (candidate_of(option, option.start) for option in options if option.start is not None)
    known = min(given, key=lambda c: c.cost_ns, default=None)
    best, tried = known, Tried()
    # The start is the best of all partitions of its mapping. Fused statements add a time that partitions change.
    settled = {o.number for o in options if o.start is not None and not o.space.option.fusions}
    for option in options:
        if option.floor_ns > limit_ns or (best is not None and option.floor_ns >= best.cost_ns):
            break  # the options come by their floors
        if best is not None and time.monotonic() > stop:
            break
        if option.number in settled:
            continue
        blocks = sorted((floor, i) for i, floor in enumerate(option.floors_ns))
        starts = ((floor, first_assignment(option.space, option.register_blocks[i])) for floor, i in blocks)
        possible = ((floor, start) for floor, start in starts if start is not None)
        for floor, start in islice(possible, TRIED_BLOCKS):
            if floor > limit_ns or (best is not None and floor >= best.cost_ns):
                break
            own = Tried()
            found = descend(candidate_of(option, start), moves, stop, own)
            if best is None or found.cost_ns < best.cost_ns * (1 - SAME):
                best, tried = found, own
    best = best or next(any_candidate(options), None)
    # What is known already has been improved as far as that goes.
    if best is None or best is known:
        return best
    best = descend(best, _double_moves, stop, tried)
    # Beside units that move by themselves, what is left to the solver elsewhere decides half of the time.
    return descend(best, all_moves, stop) if best.option.space.scratchpads else best


def descend(
    best: Candidate,
    moves: Callable[[OpenOption, Assignment], Iterator[Assignment]],
    stop: float = inf,
    tried: Tried | None = None,
) -> Candidate:
    """Return the candidate after single-decision improvements, until none helps or the deadline `stop` has passed.

    `tried` are changes of `best` that are known not to help. It is updated to those of the returned candidate.
    Units: `stop` in seconds of the monotonic clock.
    """
    tried = Tried() if tried is None else tried
    for _ in range(ROUNDS):
        before = best.cost_ns
        left = list(moves(best.option, best.assignment))
        while left:
            if time.monotonic() > stop:
                return best
            best, left = _improve(best, left, tried)
        if best.cost_ns >= before:
            break
    return best


def _improve(
    best: Candidate, left: Sequence[Assignment], tried: Tried
) -> tuple[Candidate, Sequence[Assignment]]:
    """Return the first move that lowers the cost, and the moves after it, or `best` if none does."""
    option, batch = best.option, dict[Changes, int]()
    position = 0
    while position < len(left) and len(batch) < TRIED_AT_ONCE:
        changes = _changes(best.assignment, left[position])
        if changes and changes not in tried:
            batch.setdefault(changes, position)
        position += 1
    enough = best.cost_ns * (1 - SAME)
    costs = costs_of(option.cost, best.assignment, [left[i] for i in batch.values()]) if batch else []
    for i, cost_ns in zip(batch.values(), costs, strict=True):
        assignment = {**best.assignment, **left[i]}
        if cost_ns < enough and option.space.is_feasible(assignment):
            found = candidate_of(option, assignment)
            if found.cost_ns < enough:
                tried.clear()
                return found, left[i + 1 :]
    tried.update(batch)
    return best, left[position:]


def _changes(current: Assignment, move: Assignment) -> Changes:
    """Return the decisions that a move changes, with their new values."""
    return frozenset([pair for pair in move.items() if current.get(pair[0]) != pair[1]])


def first_assignment(space: Space, block: RegisterBlock) -> Assignment | None:
    """Return an assignment without cache blocks and stages, with axes in order, as far as constraints allow.

    None proves that no assignment with this register block is feasible: larger cache blocks and staged sums
    only relax constraints. If scratchpads are too small, `least_assignments` has the assignments that use
    least.
    """
    iterations = next(iter(sum_choices(space, block)), None)
    if iterations is None:
        return None
    sizes = {a: space.blocks(a, block.get(a.name, iterations.get(space.unroll(a), 1))) for a in space.axes}
    order = first_order(space.axes, space.order_pairs(), space.fixed)
    sweep = first_order(space.register_axes, space.sweep_pairs(), space.fixed)
    if order is None or sweep is None or not all(sizes.values()):
        return None
    made = {space.unroll(axis): block[axis.name] for axis in space.register_axes} | iterations | order | sweep
    firsts = (first_values(space), least_values(space))
    for values, blocks, last in product(firsts, _shrink_blocks(space, sizes), (False, True)):
        staged = {
            space.stage(o): space.stage_values(o)[-1 if last and o.staging.stage_whole else 0]
            for o in space.option.operands
        }
        if space.is_feasible(assignment := made | values | blocks | staged):
            return assignment
    smallest = least_assignments(space, block) if space.scratchpads else iter(())
    return next(filter(space.fits_scratchpads, smallest), None)


def _shrink_blocks(space: Space, sizes: Mapping[TileAxis, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Yield cache blocks that shrink together from the largest sizes until staged operands fit into scratchpads.

    With software pipelining there must be some blocks, and sums may have to stay whole.
    """
    crossed = is_any_fixed(space)
    steps = max(map(len, sizes.values()), default=1) if space.scratchpads or crossed else 1
    for whole_sums in (True, False) if crossed else (False,):
        for shrunk in range(steps):
            yield {
                space.block(axis): found[
                    0 if whole_sums and axis.is_reduction else min(shrunk, len(found) - 1)
                ]
                for axis, found in sizes.items()
            }


def moves(option: OpenOption, current: Assignment) -> Iterator[Assignment]:
    """Yield changes to try: stages with related decisions, cache blocks, unrolled sums, orders, copies ahead."""
    space = option.space
    yield from _stages(option, current)
    yield from other_values(space, current, tried=True)
    for axis in space.axes:
        for size in space.blocks(axis, current.get(space.unroll(axis), 1)):
            yield {space.block(axis): size}
    yield from vary_factors(space, current)
    yield from other_orders(space.axes, space.order_pairs(), current, space.fixed)
    yield from other_orders(space.register_axes, space.sweep_pairs(), current, space.fixed)
    yield from _copied_ahead(space, current)


def all_moves(option: OpenOption, current: Assignment) -> Iterator[Assignment]:
    """Yield the greedy changes, then the changes that only the solver and long searches try."""
    yield from other_values(option.space, current)
    yield from moves(option, current)


def _copied_ahead(space: Space, current: Assignment) -> Iterator[Assignment]:
    """Yield changes with all inputs copied ahead by lanes, also with smaller blocks of a sum, unrolled or not."""
    values = [(name, v) for name, v in crossings(space).items() if len(v) > 1]
    if space.option.shares_work or not values:
        return
    for value in values[0][1][: MOST_TOGETHER + 1]:
        together = {name: value for name, own in values if value in own}
        yield together
        for axis in space.axes:
            unroll = space.unroll(axis)
            for factor in sorted({current.get(unroll, 1), 1}) if axis.is_reduction else ():
                cut = {**together, unroll: factor} if unroll in current else together
                yield from ({**cut, space.block(axis): size} for size in space.blocks(axis, factor))


def _double_moves(option: OpenOption, current: Assignment) -> Iterator[Assignment]:
    """Yield pairs of a cache block and a stage, which may save time only together, and then single changes."""
    space = option.space
    for axis in space.axes:
        for size in space.blocks(axis, current.get(space.unroll(axis), 1)):
            for stage in _stages(option, current):
                yield {space.block(axis): size, **stage}
    yield from moves(option, current)


def _stages(option: OpenOption, current: Assignment) -> list[dict[str, int]]:
    """Return changes that each stage one operand in another way."""
    space = option.space
    return [
        {space.stage(operand): value}
        for operand in space.option.operands
        for value in space.stage_values(operand)
        if value != current[space.stage(operand)]
    ]
