"""Decisions about software pipelining: filling buffers iterations ahead, and deferring write-back of results.

    nest0.ahead.b = 1       stage b ahead 1;
    nest0.ahead.b = 2       stage b ahead 1 into k;         in a memory that lanes share: stage b ahead 2;
    nest0.spread.c = 1      stage c; spread write c into k;

All need two copies of a buffer, or one more than it is filled ahead. They are searched if a separate unit moves
the data, and for copies that are interleaved with a sum if the summing unit does not share its registers. In
other cases the unit that computes also copies, and pipelining costs more than it saves. The decisions are then 0
unless a person fixes them.

Lanes cannot interleave copies with a sum. They fill a buffer up to four iterations ahead, also where each part of
a parallel loop has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from isamap.plan.cost import Cases, Const, Cost, Decision, times
from isamap.plan.decisions import ahead_of, parallel_of, spread_of
from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import DeferredWriteBack, NestSchedule, Stage
from isamap.plan.schedule import spread_of as spread_in
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.deciding.sums import sums_going_on
from isamap.scheduler.translation.constraints import AtMost, DecisionClause, Fact, Is, Not, stays_whole
from isamap.source.records import replace

CONCURRENT = 2  # value of the decision: one iteration ahead, at the same time as the sum
MOST_AHEAD = 4  # largest value of the decision by how many iterations lanes copy ahead
STAGES = {0: "read in place", 1: "staged per block", 2: "staged as a whole"}


def name_of(space: Choices, operand: TileOperand) -> str:
    """Return the name of the software-pipelining decision about an operand."""
    return (spread_of if operand.is_accumulator else ahead_of)(space.statement, operand.name)


def pipelined_operands(space: Choices) -> tuple[TileOperand, ...]:
    """Return the operands with a software-pipelining decision: inputs and sums that may be staged per block."""
    sums = any(axis.is_reduction for axis in space.option.axes)
    staged = [o for o in space.option.operands if o.costs.staged_ns is not None and not o.staging.is_packed]
    return tuple([o for o in staged if sums or not o.is_accumulator])


def crossing_values(space: Choices, operand: TileOperand) -> tuple[int, ...]:
    """Return the possible values of an operand's decision, or () if a fixed value is impossible.

    Parts that threads perform have their buffers filled at once.
    """
    able = [0] if space.option.parts else [0, 1] if operand.is_accumulator else [0, 1, 2]
    deep = is_filled_by_lanes(space.option, operand)
    if deep:
        able = list(range(MOST_AHEAD + 1))
    elif not space.option.shares_work:
        able = [value for value in able if value != shared_by_iterations(operand)]
    pinned = space.fixed.get(name_of(space, operand))
    if pinned is not None:
        return (pinned,) if pinned in able else ()
    searched = set(able) if deep else {0, 1}
    searched = searched if operand.staging.mover else {0, 2} if operand.staging.is_concurrent else {0}
    return tuple(value for value in able if value in searched)


def is_filled_by_lanes(option: NestOption, operand: TileOperand) -> bool:
    """Return whether lanes fill an input's buffer in shared memory, which allows any number of iterations ahead."""
    return not option.shares_work and not operand.is_accumulator and bool(operand.staging.homes[0])


def iterations_ahead(option: NestOption, operand: TileOperand) -> tuple[tuple[int, int], ...]:
    """Return each value of a decision, with the number of iterations that a fill is ahead or a store late."""
    if is_filled_by_lanes(option, operand):
        return tuple((n, n) for n in range(MOST_AHEAD + 1))
    return ((0, 0), (1, 1)) if operand.is_accumulator else ((0, 0), (1, 1), (CONCURRENT, 1))


def copies(space: Choices, operand: TileOperand) -> Cost:
    """Return how many copies of its buffer an operand has."""
    if operand not in pipelined_operands(space):
        return Const(1)
    option, outlives = space.option, space.option.outlives
    counts = tuple((v, Const(n + 1 + outlives * (n > 0))) for v, n in iterations_ahead(option, operand))
    return Cases(name_of(space, operand), counts)


def shared_by_iterations(operand: TileOperand) -> int:
    """Return the value of the decision with which the iterations of a loop share the copies of an operand."""
    return 1 if operand.is_accumulator else CONCURRENT


def crossings(space: Choices) -> dict[str, tuple[int, ...]]:
    """Return the decisions about software pipelining, with their values."""
    return {name_of(space, operand): crossing_values(space, operand) for operand in pipelined_operands(space)}


def allow_stagings(space: Choices, operand: TileOperand) -> tuple[int, ...] | None:
    """Return how an operand may be staged, or None for any way. Software pipelining requires a copy per block."""
    if not space.fixed.get(name_of(space, operand), 0):
        return None
    return (1,) if crossing_values(space, operand) else ()


def is_crossed(space: Choices, operand: TileOperand, made: Made) -> bool:
    """Return whether an operand is copied in another iteration, so that its buffer has several copies."""
    return made.get(name_of(space, operand), 0) > 0


def crossing_constraints(space: Choices) -> Iterator[DecisionClause]:
    """Yield the constraints on operands that are copied in another iteration."""
    for operand in pipelined_operands(space):
        yield from _constraints(space, operand)


def _constraints(space: Choices, operand: TileOperand) -> Iterator[DecisionClause]:
    name, stage = name_of(space, operand), space.stage(operand)
    still = Is(name, (0,))

    def constraint(facts: Iterable[Fact], why: Callable[[Made], str]) -> DecisionClause:
        return DecisionClause(
            (still, *facts), "fix-crossing", lambda made: f"{name} = 1 is impossible: {why(made)}"
        )

    if operand.is_accumulator:
        around = [
            Not(AtMost(Const(axis.extent), times(axis.tile, Decision(space.unroll(axis)))))
            for axis in space.register_axes
        ]
        why = "it takes a loop over its elements around the sum, and a sum that is not cut into blocks"
    else:
        around = [Not(stays_whole(space.block(axis), axis.extent)) for axis in space.axes_of(operand)]
        axes = " or ".join(space.block(axis) for axis in space.axes_of(operand))
        why = f"it takes a loop around its buffer: a smaller {axes}" if axes else "no loop moves it"
    yield constraint(around, lambda _: why)
    for axis in space.axes:
        if axis.is_reduction and operand.is_accumulator:
            yield constraint([stays_whole(space.block(axis), axis.extent)], lambda _: why)
    yield constraint(
        [Is(stage, (1,))],
        lambda made: f"{stage} = {made[stage]} ({STAGES[made[stage]]}) fills no buffer per iteration",
    )
    deep = is_filled_by_lanes(space.option, operand)
    if not space.option.shares_work and not deep:
        name_of_it = f"{name} = {shared_by_iterations(operand)}"
        apart = [value for value in (0, 1, CONCURRENT) if value != shared_by_iterations(operand)]
        yield DecisionClause(
            (Is(name, tuple(apart)),),
            "fix-crossing",
            lambda _: f"{name_of_it} is impossible: lanes have no order in which iterations share a copy",
        )
    if _is_dealt(space) and not deep:
        yield constraint([], lambda _: "parts for threads have their buffers filled at once")
    if not operand.is_accumulator and not deep:
        yield from _interleaved_copies(space, operand)


def _interleaved_copies(space: Choices, operand: TileOperand) -> Iterator[DecisionClause]:
    """Yield the constraints on copies that are interleaved with a sum: no other block loop is between both."""
    name = name_of(space, operand)

    def constraint(facts: Iterable[Fact], why: str) -> DecisionClause:
        return DecisionClause(
            (Is(name, (0, 1)), *facts), "fix-crossing", lambda _: f"{name} = 2 is impossible: {why}"
        )

    yield constraint(
        (fact for _, fact in sums_going_on(space)), "no loop over the sum is inside the register block"
    )
    for axis in space.axes:
        if axis.name not in operand.axes:
            why = f"blocks of {axis.name} would be between it and the sum: a larger {space.block(axis)}"
            yield constraint([stays_whole(space.block(axis), axis.extent)], why)


def _is_dealt(space: Choices) -> bool:
    """Return whether the loops are divided among threads, or may be."""
    names = (parallel_of(space.statement, axis.name) for axis in space.option.axes)
    return bool(space.option.parts) or any(space.fixed.get(name, 1) > 1 for name in names)


def no_pipelining(space: Choices) -> dict[str, int]:
    """Return 0 (no pipelining) for each decision about software pipelining that is open."""
    found = {
        name_of(space, operand): crossing_values(space, operand) for operand in pipelined_operands(space)
    }
    return {name: 0 for name, values in found.items() if len(values) > 1}


# --- in nests ---------------------------------------------------------------------------------------------


def across_iterations(nest: NestSchedule, space: Choices, made: Made) -> NestSchedule:
    """Return the nest with the decided software pipelining."""
    crossed = {o.name: o for o in pipelined_operands(space) if is_crossed(space, o, made)}
    if not crossed:
        return nest
    stages: list[Stage] = []
    spread: list[DeferredWriteBack] = []
    for stage in nest.stages:
        operand = crossed.get(stage.operand)
        if operand is None:
            stages.append(stage)
        elif operand.is_accumulator:
            # The number of pipelined loops around a result. The loops inside them run once.
            left = {axis.name: axis.extent for axis in space.option.axes}
            depth = 0
            for number, loop in enumerate(nest.loops[: nest.hold]):
                if left[loop.axis] > loop.step:
                    depth = number + 1
                left[loop.axis] = min(left[loop.axis], loop.step)
            stages.append(replace(stage, depth=depth))
            spread.append(DeferredWriteBack(operand.name, _last_sum(nest)))
        else:
            value = made[name_of(space, operand)]
            concurrent = value == CONCURRENT and not is_filled_by_lanes(space.option, operand)
            ahead = dict(iterations_ahead(space.option, operand))[value]
            behind, into = space.option.outlives * (ahead > 0), _last_sum(nest) if concurrent else ""
            stages.append(replace(stage, ahead=ahead, behind=behind, into=into))
    return replace(nest, stages=tuple(sorted(stages, key=lambda s: s.depth)), spread=tuple(spread))


def _last_sum(nest: NestSchedule) -> str:
    """Return the axis of the innermost loop that runs while the accumulators are in registers."""
    return [loop.axis for loop in nest.loops[nest.hold :] if loop.counts][-1]


def crossings_of(space: Choices, nest: NestSchedule) -> dict[str, int]:
    """Return the decisions about software pipelining that a nest has."""
    deep = {o.name for o in pipelined_operands(space) if is_filled_by_lanes(space.option, o)}
    ahead = {
        s.operand: s.ahead if s.operand in deep else CONCURRENT if s.into else 1
        for s in nest.stages
        if s.ahead
    }
    return {
        name_of(space, o): int(spread_in(nest, o.name) is not None)
        if o.is_accumulator
        else ahead.get(o.name, 0)
        for o in pipelined_operands(space)
    }
