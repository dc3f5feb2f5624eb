"""Floors of register blocks raised by splitting what is not decided, again and again where they are lowest.

A floor takes the least that each part of a cost can be: a loop order that suits one operand, a cache block
that suits another. With a decision cut into two halves, each half has a floor of its own, and the lower of
both is a floor of the whole. For the lowest boxes all cuts are tried at once, and the best one is kept. Some
schedules out of the very lowest are priced: a better one closes all boxes above it. What no half undercuts is
proven, whatever else is decided, and the solver need not look there (docs/decisions/0023-splitting.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from isamap.plan.cutting import Parts, cut_bounds
from isamap.scheduler.boxes import Boxes, Domains, Floats, Queue, domains_of, ordered
from isamap.scheduler.candidates import Candidate, OpenOption, decided
from isamap.scheduler.floors import costs_of
from isamap.scheduler.greedy import SAME, descend, moves
from isamap.scheduler.points import points

# How often boxes are cut, and so many at a time: some 10 ms each.
ROUNDS = 100
AT_ONCE = 512
# Of how many of the lowest boxes schedules are looked at in each round.
PROBED = 8
# What the higher half of a cut counts beside the lower one.
PULL = 0.01


@dataclass(frozen=True, slots=True)
class Raised:
    """What no schedule with each register block undercuts, and the best schedule met on the way, if any.

    No floor is above that schedule's cost. Units: `floors_ns` in nanoseconds.
    """

    floors_ns: tuple[float, ...]
    best: Candidate | None = None


def raised_floors(
    option: OpenOption,
    floors_ns: Sequence[float],
    price_ns: float,
    stop: float = inf,
    rounds: int | None = None,
) -> Raised:
    """Floors of the option's register blocks, at most a price that is known, and a schedule below that.

    No more is looked for from `stop` on the monotonic clock, and after `ROUNDS` rounds unless others are
    asked for. Units: nanoseconds.
    """
    domains, parts = domains_of(option.space, option.register_blocks), Parts.of(option.cost)
    known = np.asarray(floors_ns, np.float64)
    owner = np.flatnonzero(known < price_ns)
    best: Candidate | None = None
    queue = Queue()
    queue.add(Boxes(owner, np.zeros_like(domains.last[owner]), domains.last[owner], known[owner]), price_ns)
    for _ in range(ROUNDS if rounds is None else rounds):
        if time.monotonic() > stop or queue.least_ns() >= price_ns * (1 - SAME):
            break
        boxes = queue.lowest(AT_ONCE, price_ns * (1 - SAME))
        found = _probed(option, domains, boxes, price_ns, stop)
        if found is not None:
            best, price_ns = found, found.cost_ns
        left = boxes.taken(np.flatnonzero(boxes.can_be_cut() & (boxes.floors < price_ns)))
        if len(left.owner):
            queue.add(ordered(option.space, domains, _halves(parts, domains, left)), price_ns)
    known[owner] = price_ns
    for box in queue.waiting:
        known[box.owner] = min(known[box.owner], box.floor)
    return Raised(tuple(np.minimum(known, price_ns).tolist()), best)


def _probed(
    option: OpenOption, domains: Domains, boxes: Boxes, price_ns: float, stop: float
) -> Candidate | None:
    """A schedule below the price out of the first boxes, or of one that holds no other."""
    looked_at = ~boxes.can_be_cut()
    looked_at[:PROBED] = True
    numbers = np.flatnonzero(looked_at).tolist()
    inside = [made for number in numbers for made in points(option.space, domains.ends(boxes, number))]
    best: Candidate | None = None
    for made, cost_ns in zip(inside, costs_of(option.cost, {}, inside) if inside else (), strict=True):
        if cost_ns < min(price_ns, best.cost_ns if best else inf) * (1 - SAME):
            best = decided(option, made)
    return None if best is None else descend(best, moves, stop)


def _halves(parts: Parts, domains: Domains, boxes: Boxes) -> Boxes:
    """Each box cut along the decision whose lower half is highest: all first halves, then all second ones."""
    ends = {name: domains.box(n, boxes.owner, boxes.low, boxes.high) for n, name in enumerate(domains.names)}
    middle = (boxes.low + boxes.high) // 2
    lower = Boxes(boxes.owner, boxes.low, middle, boxes.floors)
    upper = Boxes(boxes.owner, np.minimum(middle + 1, boxes.high), boxes.high, boxes.floors)
    cuts: dict[str, tuple[Floats, Floats]] = {}
    is_open = boxes.high > boxes.low
    for n, name in enumerate(domains.names):
        if is_open[:, n].any():
            pairs = zip(*(domains.box(n, b.owner, b.low, b.high) for b in (lower, upper)), strict=True)
            least, most = (np.stack(both) for both in pairs)
            cuts[name] = least, most
    floors = np.full((2, len(domains.names), len(boxes.owner)), -np.inf)
    for name, found in cut_bounds(parts, ends, cuts).items():
        floors[:, domains.names.index(name)] = found
    # Where no cut raises both halves, one that raises the other one most.
    worth = floors.min(axis=0) + PULL * floors.max(axis=0)
    best = np.where(is_open.T, worth, -np.inf).argmax(axis=0)
    chosen = np.arange(len(best), dtype=np.int64)
    highs, lows = boxes.high.copy(), boxes.low.copy()
    highs[chosen, best] = lower.high[chosen, best]
    lows[chosen, best] = upper.low[chosen, best]
    return Boxes(
        np.tile(boxes.owner, 2),
        np.concatenate([boxes.low, lows]),
        np.concatenate([highs, boxes.high]),
        np.maximum(np.tile(boxes.floors, 2), floors[:, best, chosen].reshape(-1)),
    )
