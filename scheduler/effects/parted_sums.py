"""Price partial sums that do not all fit into registers: they move to a scratchpad and back.

for k by 6:  for m by 5:  load 5 tiles of sums, add 6 products to each, store them
             in the last part of the sum, they are finished and stored instead
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.plan.cost import Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import Busy, Flow
from isamap.scheduler.deciding.tiling import Tiling
from isamap.source import add_up

# Sums of so many parts at most go out and come back once less than that: the share that this is.
AGAIN = ((1, 0.0), (2, 1 / 2), (3, 2 / 3), (4, 3 / 4), (6, 5 / 6), (9, 8 / 9))


def between_parts(tiling: Tiling, flow: Flow, unit: str) -> Cost:
    """Return how long a unit is busy with sums that leave registers and come back, for each part that is summed."""
    between, apart = unit_ns(flow.between, unit), unit_ns(flow.apart, unit)
    if not between and not apart:
        return Const(0)
    parts = parts_of(tiling)
    again: Cost = parts
    for most, share in reversed(AGAIN):
        again = Threshold(parts, most, times(share, parts) if share else Const(0), again)
    return total([times(between, again), Threshold(parts, 1, Const(0), Const(apart))])


def in_parts(tiling: Tiling, flow: Flow, computing: Cost, filling: Mapping[str, Cost]) -> Cost:
    """Return the time of the computation if registers hold only some of the partial sums at once; 0 if they hold all.

    Initial values are loaded before, and the sums are finished while the last part is computed, one register
    block after the other. Meanwhile the units that store them also do part of their `filling` of inputs. The
    partial sums of a single block are stored and reloaded before its next part.
    """
    if not flow.between:
        return Const(0)
    space = tiling.space
    parts = parts_of(tiling)
    before: Cost = computing
    last = {unit: Const(unit_ns(flow.finished, unit)) for unit, _ in flow.finished}
    ends: dict[str, Cost] = dict(last)
    for most, share in reversed(AGAIN):
        before = Threshold(parts, most, times(share, computing) if share else Const(0), before)
        for unit, ns in last.items():
            ends[unit] = Threshold(parts, most, total([ns, times(1 - share, filling[unit])]), ends[unit])
    blocks = [tiling.steps[axis.name] for axis in space.register_axes]
    finished = largest([*ends.values(), times(flow.latency_ns, *blocks)])
    alone = times(*(tiling.iterations[axis.name] for axis in space.register_axes))
    again = times(flow.again_ns + space.option.latency_ns, parts, *blocks)
    waits = largest([total([before, finished]), Threshold(alone, 1, total([computing, again]), Const(0))])
    return Threshold(parts, 1, Const(0), total([Const(longest_ns(flow.apart)), waits]))


def parts_of(tiling: Tiling) -> Cost:
    """Return how many parts sums are computed in."""
    return times(*(tiling.blocks[axis.name] for axis in tiling.space.axes if axis.is_reduction))


def longest_ns(busy: Busy) -> float:
    """Return how long the busiest unit is."""
    return max((ns for _, ns in busy), default=0.0)


def unit_ns(busy: Busy, unit: str) -> float:
    """Return how long one unit is busy."""
    return add_up(ns for name, ns in busy if name == unit)
