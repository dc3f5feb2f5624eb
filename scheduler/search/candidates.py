"""The options of a statement under a cost model, open or decided. Greedy search and CP-SAT share them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf

from isamap.plan.cost import Cost, evaluate
from isamap.plan.decisions import mapping_of
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import NestSchedule
from isamap.scheduler.deciding.partitioning import part_cost, part_options
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import Assignment, RegisterBlock, Space, issues_of
from isamap.scheduler.deciding.summing import may_unroll
from isamap.scheduler.nests.nest_building import build_nest
from isamap.scheduler.search.lower_bounds import floors_of
from isamap.source.records import dataclass, replace

RECALLED = 2048
"""The number of options whose prices are cached: those of the examined statements of one kernel.

A mapping onto the blocks of a GPU has dozens of options, one for each partition.
"""


@dataclass(frozen=True, slots=True)
class OpenOption:
    """An open option. Units: `floor_ns` in nanoseconds, a proven lower bound on its schedules.

    `start` is greedy's decisions, if known, and `known_floors` are the bounds of its register blocks.
    """

    number: int
    space: Space
    cost: Cost
    register_blocks: tuple[RegisterBlock, ...]
    floor_ns: float
    start: Assignment | None = None
    known_floors: tuple[float, ...] = ()

    @property
    def floors_ns(self) -> tuple[float, ...]:
        """A lower bound of its schedules for each register block."""
        return self.known_floors or floors_of(self.cost, self.space, self.register_blocks)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An option with all of its decisions. Units: `cost_ns` in nanoseconds of the model.

    `fused` are the statements that it fuses.
    """

    option: OpenOption
    assignment: Assignment
    cost_ns: float
    fused: tuple[int, ...] = ()

    def nest(self) -> NestSchedule:
        """Return the loop nest of the decisions."""
        return replace(build_nest(self.option.space, self.assignment), fused=self.fused)


def open_options(
    problem: Problem, nest: NestProblem, model: CostModel, fixed: Assignment, stop: float = inf
) -> tuple[OpenOption, ...]:
    """Return the options that agree with the fixed decisions, most promising first.

    `stop` is on the monotonic clock: after it, one agreeing option suffices, the first of those with the most
    work per issue.
    """
    # They are of free decisions: with others fixed they are not what greedy finds.
    starts = {} if fixed else {(s.option, s.parts, s.alone): dict(s.values) for s in nest.starts}
    pinned = fixed.get(mapping_of(nest.statement))
    found: list[OpenOption] = []
    ways = (
        (n, way)
        for n, o in sorted(enumerate(nest.options), key=lambda numbered: issues_of(numbered[1]))
        for way in part_options(problem, nest.statement, o, fixed)
    )
    for number, option in ways:
        if found and time.monotonic() > stop:
            break
        space = Space(nest.statement, option, problem.registers_of(option), fixed, problem.room(option))
        if pinned not in (None, number) or not all(space.stage_values(o) for o in option.operands):
            continue
        if not keeps_fixed(space) or not all(open_values(space).values()):
            continue
        blocks = space.register_blocks()
        if blocks and set(fixed_names(fixed, nest.statement)) <= {mapping_of(nest.statement), *space.names()}:
            cost, floors = _price_option(problem, nest, space, model, blocks)
            start = starts.get((number, option.parts, option.alone))
            found.append(OpenOption(number, space, cost, blocks, min(floors), start, floors))
    return tuple(sorted(found, key=lambda o: (o.floor_ns, o.number)))


def _price_option(
    problem: Problem, nest: NestProblem, space: Space, model: CostModel, blocks: tuple[RegisterBlock, ...]
) -> tuple[Cost, tuple[float, ...]]:
    """Return the cost of an option and the bounds of its register blocks, cached if nothing is fixed."""
    alone = NestProblem(nest.statement, (space.option,), iterations=nest.iterations)
    own = replace(problem, nests=(alone,))
    if space.fixed or getattr(model, "__hash__", None) is None:
        return _bound_option(own, space, model, blocks)
    return _recall_bound(own, model)


def _bound_option(
    problem: Problem, space: Space, model: CostModel, blocks: Sequence[RegisterBlock]
) -> tuple[Cost, tuple[float, ...]]:
    """Return the cost of the only option of a problem, and lower bounds by register block."""
    (nest,) = problem.nests
    cost = part_cost(problem, nest, space.option, model)
    return cost, floors_of(cost, space, blocks)


@lru_cache(maxsize=RECALLED)
def _recall_bound(problem: Problem, model: CostModel) -> tuple[Cost, tuple[float, ...]]:
    """Return the cached cost and bounds of an option without fixed decisions."""
    (nest,) = problem.nests
    (option,) = nest.options
    space = Space(nest.statement, option, problem.registers_of(option), {}, problem.room(option))
    return _bound_option(problem, space, model, space.register_blocks())


def keeps_fixed(space: Space) -> bool:
    """Return whether each decision with only one value has the fixed value.

    An axis of one issue is neither unrolled nor cut into blocks, whatever is fixed. Nor is a reduction axis
    unrolled that is not the innermost one.
    """
    single = [space.unroll(axis) for axis in space.option.axes if not may_unroll(space.option, axis)]
    whole = [axis for axis in space.option.axes if axis.extent <= axis.tile]
    return all(space.fixed.get(name, 1) == 1 for name in single) and all(
        space.fixed.get(space.block(axis), axis.extent) >= axis.extent for axis in whole
    )


def fixed_names(fixed: Iterable[str], statement: int) -> tuple[str, ...]:
    """Return the fixed decisions of a statement."""
    return tuple(name for name in fixed if name.startswith(f"nest{statement}."))


def candidate_of(option: OpenOption, assignment: Assignment) -> Candidate:
    """Return the candidate of an assignment, with its cost."""
    return Candidate(option, assignment, float(evaluate(option.cost, assignment)))
