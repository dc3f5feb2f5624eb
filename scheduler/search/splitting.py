"""Raise the lower bounds of register blocks by splitting one decision after the other: cuts for CP-SAT.

    register blocks            a box each, with its lower bound
    x stages of a, of b, ...   cut: bounds rise, and boxes that reach a known price are excluded
    x cache blocks of k, m, n  the lowest boxes continue first, some thousands at a time
    x pairs of loops           the rest are schedules below the price

A lower bound takes the least value of each part of a cost: a loop order that suits one operand, a cache block
that suits another. More decisions make the bound tighter. The least bound over all boxes of a register block
bounds its schedules, and becomes a constraint of the solver (docs/decisions/0023-splitting.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import inf

import numpy as np

from isamap.plan.cost.arrays import Numbers
from isamap.plan.problem import TileAxis
from isamap.scheduler.deciding.choices import Boxes, Choice, choices_of
from isamap.scheduler.deciding.orders import Pairs, axes_in_order, first_order
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.greedy import SAME, descend, moves
from isamap.scheduler.translation.constraints import Facts, Mask, may_be_met, names_in
from isamap.source.records import dataclass

# How many boxes an option is cut into at most, and how many are bounded at a time: more leave the caches.
MOST_BOXES = 1 << 20
AT_ONCE = 1 << 12
# In how many of the lowest boxes a better schedule is looked for when a decision is first made.
PROBED = 8

Made = Mapping[str, Numbers]


@dataclass(frozen=True, slots=True)
class RaisedBounds:
    """The lower bound for each register block, and the best schedule found meanwhile (None without one).

    No bound is above that schedule's cost. Units: `floors_ns` in nanoseconds.
    """

    floors_ns: tuple[float, ...]
    best: Candidate | None = None


def raised_floors(
    option: OpenOption,
    floors_ns: Sequence[float],
    price_ns: float,
    stop: float = inf,
    most: int | None = None,
    start: Candidate | None = None,
) -> RaisedBounds:
    """Return lower bounds of the option's register blocks, raised towards a known price. Units: nanoseconds.

    Given a schedule of the option to `start` from, cheaper ones are looked for in the lowest boxes. No more
    is cut from `stop` on the monotonic clock, or when there have been `most` boxes.
    """
    space, best = option.space, None
    choices, clauses = list(choices_of(space, option.register_blocks)), _clauses(space)
    probed = {level for level, one in enumerate(choices) if _is_size(space, one) or start is None}
    known = np.asarray(floors_ns, np.float64)
    found, count = np.full(len(known), np.inf), 0
    waiting = [(Boxes(np.arange(len(known)), {}, known), 0)]
    while waiting:
        boxes, level = waiting.pop()
        boxes = boxes.taken(boxes.floors < price_ns * (1 - SAME))
        if level == len(choices):
            boxes = boxes.taken(np.array([_is_schedule(space, made) for made in _each(boxes)], np.bool_))
        if (
            level == len(choices)
            or count >= (MOST_BOXES if most is None else most)
            or time.monotonic() > stop
        ):
            np.minimum.at(found, boxes.owner, boxes.floors)
            continue
        if not len(boxes.owner):
            continue
        boxes, others = _lowest_boxes(boxes, choices[level])
        parts = boxes.cut(choices[level])
        parts = parts.taken(_satisfying_boxes(clauses, parts.made, choices[level].names))
        if not len(parts.owner):
            waiting.append((others, level))
            continue
        parts, count = parts.bounded(option.cost, choices[level + 1 :]), count + len(parts.owner)
        if start is not None and level not in probed:
            probed.add(level)
            start = _probe_boxes(start, parts, stop)
            if start.cost_ns < price_ns * (1 - SAME):
                best, price_ns = start, start.cost_ns
        waiting += [(others, level), (parts, level + 1)]
    floors = np.maximum(np.minimum(found, price_ns), np.minimum(known, price_ns))
    return RaisedBounds(tuple(floors.tolist()), best)


def _probe_boxes(best: Candidate, boxes: Boxes, stop: float) -> Candidate:
    """Return a cheaper schedule from the lowest boxes, or `best`. Open decisions have the values of `best`."""
    option, found = best.option, best
    for made in _each(boxes.taken(np.argsort(boxes.floors, kind="stable")[:PROBED])):
        whole = {**best.assignment, **made}
        for sweep in (False, True):
            axes, pairs = _loops(option.space, sweep=sweep)
            kept = axes_in_order(axes, pairs, best.assignment)
            whole |= first_order(kept, pairs, {**option.space.fixed, **made}) or {}
        if _is_schedule(option.space, whole):
            found = min(found, candidate_of(option, whole), key=lambda candidate: candidate.cost_ns)
    return found if found is best else descend(found, moves, stop)


def _lowest_boxes(boxes: Boxes, choice: Choice) -> tuple[Boxes, Boxes]:
    """Return the lowest boxes, as many as the next cut can bound at once, and the other boxes."""
    order = np.argsort(boxes.floors, kind="stable")
    enough = np.searchsorted(
        np.cumsum(choice.counts[choice.kinds[boxes.owner[order]]]), AT_ONCE, side="right"
    )
    enough = max(1, int(enough))
    return boxes.taken(order[:enough]), boxes.taken(order[enough:])


def _is_size(space: Space, choice: Choice) -> bool:
    """Return whether a choice is about stages or cache blocks. Schedules are tried after all such choices."""
    stages = [space.stage(operand) for operand in space.option.operands]
    blocks = [space.block(axis) for axis in space.axes]
    return choice.names[0] in [*stages, *blocks]


def _clauses(space: Space) -> dict[str, list[Facts]]:
    """Return the constraints on decisions, by the decisions that they contain."""
    found: dict[str, list[Facts]] = {}
    for facts in space.rules.clauses():
        for name in {name for fact in facts for name in names_in(fact)}:
            found.setdefault(name, []).append(facts)
    return found


def _satisfying_boxes(clauses: Mapping[str, Sequence[Facts]], made: Made, names: Sequence[str]) -> Mask:
    """Return a mask of the boxes whose new decisions satisfy the constraints, together with the earlier ones."""
    points, count = {name: (values, values) for name, values in made.items()}, len(next(iter(made.values())))
    found = np.ones(count, np.bool_)
    for facts in dict.fromkeys(facts for name in names for facts in clauses.get(name, ())):
        if all(names_in(fact) <= made.keys() for fact in facts):
            found &= may_be_met(facts, points, count)
    return found


def _loops(space: Space, *, sweep: bool) -> tuple[Sequence[TileAxis], Pairs]:
    return (space.register_axes, space.sweep_pairs()) if sweep else (space.axes, space.order_pairs())


def _each(boxes: Boxes) -> Iterator[dict[str, int]]:
    for number in range(len(boxes.owner)):
        yield {name: int(values[number]) for name, values in boxes.made.items()}


def _is_schedule(space: Space, made: Mapping[str, int]) -> bool:
    """Return whether all decisions are made and compatible. A box may have open or incompatible ones."""
    orders = (first_order(*_loops(space, sweep=sweep), made) for sweep in (False, True))
    agrees = all(made.get(name, value) == value for name, value in space.fixed.items())
    return agrees and all(order is not None for order in orders) and space.is_feasible(made)
