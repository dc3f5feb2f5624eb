"""Prefetches as decisions: `nest0.prefetch.a = 2` prefetches the lines of a's next iteration to the second cache.

    prefetch a ahead 1 into l2;         directly inside the innermost loop outside `hold` that a follows

The search tries them for inputs that stream from memory, and for late pieces of rows if the machine states
that hints save time (`fetching` decides the place of the hint). For other inputs a hint costs its own time
and is assumed to save nothing: 39 such schedules were 0.91 to 1.02 times as fast. The search then tries only
0, no prefetch. A person may fix another value.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.cost import Const, Decision, times
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import TileOperand
from isamap.plan.schedule import NestSchedule, Prefetch
from isamap.scheduler.deciding.fetching import (
    in_rows,
    late_ahead,
    loops_with_reload,
    near_ahead,
    pieces_ahead,
    prefetch_level,
    rows_ahead,
)
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.deciding.sums import sums_going_on, sweeping_axis
from isamap.scheduler.translation.constraints import AtMost, DecisionClause, Facts, Is, Not, stays_whole
from isamap.source.records import replace


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
