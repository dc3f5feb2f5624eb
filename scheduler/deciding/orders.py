"""Loop orders: decisions between pairs of axes ("order.n.k is 1: n outside k"), and sequences of axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

from isamap.plan.cost import Assignment, Decision, times
from isamap.plan.problem import TileAxis
from isamap.scheduler.deciding.option_view import Choices, Pairs
from isamap.scheduler.translation.constraints import AtMost, Facts, Is, Not, is_met, stays_whole

# Limit of the search: up to this many axes all orders are tried; beyond, those that differ by the place of one axis.
MAX_PERMUTED = 4


def axes_in_order(axes: Sequence[TileAxis], pairs: Pairs, assignment: Assignment) -> list[TileAxis]:
    """Return the axes in their decided order, outermost first."""
    around = dict.fromkeys((axis.name for axis in axes), 0)
    for name, outer, inner in pairs:
        around[(inner if assignment[name] else outer).name] += 1
    return sorted(axes, key=lambda axis: around[axis.name])


def decisions_of(order: Sequence[TileAxis], pairs: Pairs) -> dict[str, int]:
    """Return the decisions between pairs of axes that give this order."""
    place = {axis.name: i for i, axis in enumerate(order)}
    return {name: int(place[outer.name] < place[inner.name]) for name, outer, inner in pairs}


def canonical(space: Choices, assignment: Assignment) -> dict[str, int]:
    """Return the assignment with loops of one iteration moved inside, in textual order, unless orders are fixed."""
    found = dict(assignment)
    for axes, pairs, sweep in (
        (space.axes, space.order_pairs(), False),
        (space.register_axes, space.sweep_pairs(), True),
    ):
        if not any(name in space.fixed for name, _, _ in pairs):
            single = [a for a in axes if is_met((runs_once(space, a, sweep=sweep),), assignment)]
            running = [a for a in axes_in_order(axes, pairs, assignment) if a not in single]
            found |= decisions_of([*running, *single], pairs)
    return found


def agrees(values: Assignment, fixed: Assignment) -> bool:
    """Return whether values agree with the fixed decisions."""
    return all(fixed.get(name, value) == value for name, value in values.items())


def first_order(axes: Sequence[TileAxis], pairs: Pairs, fixed: Assignment) -> dict[str, int] | None:
    """Return the nearest order of axes that the fixed decisions allow, or None if these form a cycle."""
    around: dict[str, set[str]] = {axis.name: set() for axis in axes}
    for name, outer, inner in pairs:
        if name in fixed:
            first, second = (outer, inner) if fixed[name] else (inner, outer)
            around[second.name].add(first.name)
    left, order = list(axes), list[TileAxis]()
    while left:
        placed = {axis.name for axis in order}
        free = [axis for axis in left if around[axis.name] <= placed]
        if not free:
            return None
        order.append(free[0])
        left.remove(free[0])
    return decisions_of(order, pairs)


def order_clauses(space: Choices) -> Iterator[Facts]:
    """Yield clauses: loops of one iteration are innermost in canonical order unless fixed, and orders are acyclic.

    Any other place of such a loop gives the same schedule.
    """
    for axes, pairs, sweep in (
        (space.axes, space.order_pairs(), False),
        (space.register_axes, space.sweep_pairs(), True),
    ):
        named = {(first.name, second.name): name for name, first, second in pairs}
        for a, b, c in combinations([axis.name for axis in axes], 3):
            for value in (0, 1):
                yield Is(named[a, b], (value,)), Is(named[b, c], (value,)), Is(named[a, c], (1 - value,))
        if not any(name in space.fixed for name in named.values()):
            once = {axis.name: runs_once(space, axis, sweep=sweep) for axis in axes}
            for name, first, second in pairs:
                yield Not(once[first.name]), once[second.name], Is(name, (0,))
                yield Not(once[second.name]), Is(name, (1,))


def runs_once(space: Choices, axis: TileAxis, *, sweep: bool) -> AtMost:
    """Return the fact that the loop over an axis' blocks, or that over its register blocks, runs once."""
    if sweep:
        return AtMost(Decision(space.block(axis)), times(axis.tile, Decision(space.unroll(axis))))
    return stays_whole(space.block(axis), axis.extent)


def other_orders(
    axes: Sequence[TileAxis], pairs: Pairs, assignment: Assignment, fixed: Assignment
) -> Iterator[dict[str, int]]:
    """Yield alternative orders: all orders of few axes, else those with one axis moved."""
    current = axes_in_order(axes, pairs, assignment)
    candidates: Iterable[Sequence[TileAxis]]
    candidates = permutations(axes) if len(axes) <= MAX_PERMUTED else _move_axes(current)
    for order in candidates:
        values = decisions_of(order, pairs)
        if agrees(values, fixed):
            yield values


def _move_axes(order: list[TileAxis]) -> Iterator[list[TileAxis]]:
    for i, axis in enumerate(order):
        rest = order[:i] + order[i + 1 :]
        for j in range(len(order)):
            if j != i:
                yield [*rest[:j], axis, *rest[j:]]
