"""Decide prefetches of inputs that stream from memory once: which data, and at which loop.

    for n by 6 {                          B[n, k], whose rows lie along the sum, 39 MB of it
      prefetch b ahead 1 into l1;           the next iteration's rows: each one starts a new stream
      hold;
      for k by 16 { … }

    for n by 96 {                         B[k, n], of whose rows a register block reads pieces
      hold;
      for k by 1 {
        prefetch b ahead 22 into l2;        the pieces of later rows: the hardware prefetcher does not follow them
        …

    for k by 8 {
      prefetch b ahead 1 into l2;         the next eight rows, distributed over the inner loop's iterations
      for n by 32 {                         a line or two of eight rows at a time, each to its end
        prefetch b ahead 2 into l1;           those of the next iterations once more, where several rows of a
        hold;                                 are computed on: so far ahead the processor does not look
        unroll k by 1 { … }

    for k by 28 {                         B[k, n], of whose rows several pieces are computed on: `late`
      for n by 24 {
        prefetch b ahead 1 into l2;         the next pieces of the same rows; of short ones, later ones
        for m by 4 { hold; for k by 1 { … } }

`streams` prices the saved time, and `residence` that of the last example. No other input is prefetched: hints
for data in caches cost 7 to 20 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from isamap.plan.cost import Const, Decision, times
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import LoopStep, NestSchedule, Prefetch
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.deciding.sums import sums_going_on, sweeping_axis
from isamap.scheduler.translation.constraints import AtMost, DecisionClause, Facts, Is, Not, stays_whole
from isamap.source.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

# The model's, of rows that are hinted into the nearest cache as well: from so many issues on that share a vector it
# pays. Source: docs/decisions/0024-prefetch-hints.md.
NEAR_SHARE = 2
# Limit of the search: so far ahead may pieces be asked for, however few bytes an iteration reads.
MOST_ITERATIONS = 64


def prefetch_level(option: NestOption, operand: TileOperand) -> int:
    """Return the cache, counted from 1, into which an input's lines may be prefetched, or 0 for none.

    Rows go to the cache that the loads read. Pieces of rows go one level farther, where more lines can be in
    flight.
    """
    if not operand.prefetching.hints or not (operand.prefetching.is_streamed or operand.prefetching.is_late):
        return 0
    return 1 if in_rows(option, operand) else len(operand.prefetching.hints)


def in_rows(option: NestOption, operand: TileOperand) -> bool:
    """Return whether an input is contiguous along the reduction, so that register blocks read whole rows."""
    return any(axis.is_reduction and axis.name == operand.layout.dense_axis for axis in option.axes)


def pieces_ahead(option: NestOption, nest: NestSchedule, operand: TileOperand) -> tuple[int, int] | None:
    """Return depth and distance of hints for pieces of later rows, or None if hints are for whole rows."""
    staged = any(stage.operand == operand.name for stage in nest.stages)
    inside = [
        number
        for number, loop in enumerate(nest.loops)
        if number >= nest.hold and loop.counts and loop.axis in operand.axes
    ]
    if staged or not inside or not operand.prefetching.is_streamed or in_rows(option, operand):
        return None
    iteration_bytes = _iteration_bytes(option, nest, operand, inside[-1])
    return inside[-1] + 1, max(
        1, min(MOST_ITERATIONS, -(-operand.prefetching.ahead_bytes // iteration_bytes))
    )


def late_ahead(option: NestOption, nest: NestSchedule, operand: TileOperand, loop: int) -> int:
    """Return the prefetch distance in iterations of a loop. Small pieces need more than one iteration.

    The distance covers half the bytes in flight of a pure memory stream: the hardware prefetcher brings some.
    If several register blocks share the hints of an iteration, the distance is at least two: otherwise the
    last blocks would request data that the next iteration needs at its start.
    """
    if not operand.prefetching.is_late:
        return 1
    shared = any(inside.counts for inside in nest.loops[loop + 1 : nest.hold])
    iteration_bytes = _iteration_bytes(option, nest, operand, loop)
    return max(
        operand.prefetching.ahead_counts[1] if shared else 1,
        min(MOST_ITERATIONS, -(-operand.prefetching.ahead_bytes // (2 * iteration_bytes))),
    )


def _iteration_bytes(option: NestOption, nest: NestSchedule, operand: TileOperand, loop: int) -> int:
    """Return the bytes of an input that an iteration of a loop reads."""
    _, spans = _iterations(option, nest.loops[: loop + 1])
    return prod(spans[axis] for axis in operand.axes) * operand.layout.tensor_bytes


def rows_ahead(option: NestOption, nest: NestSchedule, operand: TileOperand) -> tuple[int, int] | None:
    """Return depth and distance of hints for whole rows that loads read, or None if a loop over rows is inside.

    The distance is more than one for short rows. None if a register block has a loop over rows, or takes all.
    """
    sums = [axis.name for axis in option.axes if axis.is_reduction]
    rows = [axis for axis in operand.axes if axis in sums]
    loops = [n for n, loop in enumerate(nest.loops) if loop.axis in rows and loop.counts]
    if not operand.prefetching.is_swept or not loops or loops[-1] >= nest.hold:
        return None
    iteration_bytes = _iteration_bytes(option, nest, operand, loops[-1])
    return loops[-1] + 1, max(1, min(MOST_ITERATIONS, -(-operand.prefetching.ahead_bytes // iteration_bytes)))


def near_ahead(option: NestOption, nest: NestSchedule, operand: TileOperand) -> tuple[int, int] | None:
    """Return depth and distance of a second hint for the same rows, into the nearest cache, or None.

    Return None in three cases: an iteration of the loop along the rows is not a single register block, it
    reads less than a line of each row, or its issues share no vector. Out-of-order loads then run far enough
    ahead.
    """
    followed = rows_ahead(option, nest, operand)
    if followed is None or any(stage.operand == operand.name for stage in nest.stages):
        return None
    iterations, spans = _iterations(option, nest.loops[: nest.hold])
    along = [n for n in range(followed[0], nest.hold) if iterations[n] > 1]
    if len(along) != 1 or nest.loops[along[0]].axis != operand.layout.dense_axis:
        return None
    shared = prod(
        -(-spans[axis.name] // axis.tile)
        for axis in option.axes
        if axis.name not in operand.axes and not axis.is_reduction
    )
    if (
        shared < NEAR_SHARE
        or spans[operand.layout.dense_axis] * operand.layout.tensor_bytes < operand.prefetching.line_bytes
    ):
        return None
    return along[0] + 1, operand.prefetching.ahead_counts[0]


def loops_with_reload(option: NestOption, nest: NestSchedule, operand: TileOperand) -> list[int]:
    """Return the loops outside `hold` whose next iteration reads other elements of an input, outermost first."""
    iterations, _ = _iterations(option, nest.loops[: nest.hold])
    return [
        n
        for n, loop in enumerate(nest.loops[: nest.hold])
        if loop.axis in operand.axes and loop.counts and iterations[n] > 1
    ]


def _iterations(option: NestOption, loops: Sequence[LoopStep]) -> tuple[list[int], dict[str, int]]:
    """Return the iteration counts of loops, outermost first, and the extents that one innermost iteration covers."""
    spans = {axis.name: axis.extent for axis in option.axes}
    iterations: list[int] = []
    for loop in loops:
        iterations.append(-(-spans[loop.axis] // loop.step))
        spans[loop.axis] = min(spans[loop.axis], loop.step)
    return iterations, spans


# --- prefetching ----------------------------------------------------------------------------------------

# Prefetches as decisions: `nest0.prefetch.a = 2` prefetches the lines of a's next iteration to the second cache.
#
#     prefetch a ahead 1 into l2;         directly inside the innermost loop outside `hold` that a follows
#
# The search tries them for inputs that stream from memory, and for late pieces of rows if the machine states
# that hints save time (`fetching` decides the place of the hint). For other inputs a hint costs its own time
# and is assumed to save nothing: 39 such schedules were 0.91 to 1.02 times as fast. The search then tries only
# 0, no prefetch. A person may fix another value.


def prefetch_values(space: Choices) -> dict[str, tuple[int, ...]]:
    """Return the decisions with their possible values, or none if a fixed value is impossible."""
    return {name: _values(space, name, operand) for name, operand in _operands_by_name(space).items()}


def _operands_by_name(space: Choices) -> dict[str, TileOperand]:
    return {prefetch_of(space.statement, o.name): o for o in space.option.operands if o.prefetching.hints}


def _values(space: Choices, name: str, operand: TileOperand) -> tuple[int, ...]:
    pinned = space.fixed.get(name)
    if pinned is None:
        goes_on = any(True for _ in _reloads(space, operand))
        return tuple(sorted({0, prefetch_level(space.option, operand) if goes_on else 0}))
    most = len(operand.prefetching.hints) if operand.axes else 0
    return (pinned,) if 0 <= pinned <= most else ()


def prefetch_constraints(space: Choices) -> Iterator[DecisionClause]:
    """Yield the constraints on prefetches: there is a loop to be ahead of, and whole rows are prefetched.

    Hints for parts of rows would be late in a register block without a loop over them.
    """
    rows = sweeping_axis(space.option)
    for name, operand in _operands_by_name(space).items():
        parted = [axis for axis in space.axes_of(operand) if axis.name == operand.layout.dense_axis]
        if operand.prefetching.is_swept and rows is not None and parted:
            block = times(rows.tile, Decision(space.unroll(rows)))
            has_loop = Not(AtMost(Decision(space.block(rows)), block))
            facts = (has_loop, *(stays_whole(space.block(axis), axis.extent) for axis in parted))
            yield _asked_or(
                name, facts, "register blocks without a loop over rows ask for whole rows, not for parts"
            )
        yield _asked_or(
            name, tuple(_reloads(space, operand)), "no loop outside the sum moves on to other elements of it"
        )


def _asked_or(name: str, facts: Facts, why: str) -> DecisionClause:
    """Return the constraint that a prefetch requires one of these facts."""
    return DecisionClause(
        (Is(name, (0,)), *facts), "fix-crossing", lambda made: f"{name} = {made[name]} is impossible: {why}"
    )


def _reloads(space: Choices, operand: TileOperand) -> Iterator[Not]:
    """Yield, for each loop, the fact that its next iteration reads other elements of an input.

    These loops run over the register blocks of the input, over blocks of a sum, and from row to row of
    pieces.
    """
    for axis in space.axes_of(operand):
        if axis.is_reduction:
            yield Not(stays_whole(space.block(axis), axis.extent))
        else:
            yield Not(AtMost(Const(axis.extent), times(axis.tile, Decision(space.unroll(axis)))))
    if operand.prefetching.is_streamed and not in_rows(space.option, operand):
        yield from (fact for axis, fact in sums_going_on(space) if axis in operand.axes)


# --- loops ------------------------------------------------------------------------------------------------


def with_prefetches(nest: NestSchedule, space: Choices, made: Made) -> NestSchedule:
    """Return the nest with the prefetches that are decided."""
    found: list[Prefetch] = []
    for name, operand in _operands_by_name(space).items():
        if made.get(name, 0):
            cache, _ = operand.prefetching.hints[made[name] - 1]
            inside = pieces_ahead(space.option, nest, operand) or rows_ahead(space.option, nest, operand)
            around = loops_with_reload(space.option, nest, operand)
            if inside is not None:
                found.append(Prefetch(operand.name, *inside, cache))
                near = near_ahead(space.option, nest, operand) if made[name] > 1 else None
                if near is not None:
                    found.append(Prefetch(operand.name, *near, operand.prefetching.hints[0][0]))
            elif around:
                ahead = late_ahead(space.option, nest, operand, around[-1])
                found.append(Prefetch(operand.name, around[-1] + 1, ahead, cache))
    return replace(nest, prefetches=tuple(sorted(found, key=lambda p: p.depth)))


def prefetches_of(space: Choices, nest: NestSchedule) -> dict[str, int]:
    """Return the decisions about prefetches that a nest has. The outermost prefetch of an operand decides."""
    into = {prefetch.operand: prefetch.cache for prefetch in reversed(nest.prefetches)}
    found: dict[str, int] = {}
    for name, operand in _operands_by_name(space).items():
        caches = [cache for cache, _ in operand.prefetching.hints]
        cache = into.get(operand.name, "")
        found[name] = caches.index(cache) + 1 if cache in caches else 0
    return found
