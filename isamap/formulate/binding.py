"""Bind axes of an option to the level whose instances share one block, such as the warps of a block.

    mma 16x8x16, axes m by 16, n by 8      ->      itself, for blocks of one warp
                                                   m by 32, n by 16: 2 x 2 warps, `choose warp.m = 2, warp.n = 2`

Each instance issues the instruction for its own tile, so an issue of all of them covers a tile that is so many
times as long along the axes that are bound. Registers belong to an instance. Copies into the memory that they
share are made by all of them together, once for all. All costs are those that one instance sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import prod

from isamap.machine import Machine, bound_level, team_level
from isamap.plan.problem import Busy, Flow, NestOption, TileAxis, TileOperand, with_fields
from isamap.source.records import replace

Bound = Mapping[str, int]

MOST_BOUND_AXES = 2
"""Axes that the instances of a block are laid along: a third one reuses no operand more."""
ROUNDS, FEW = 2, 4
"""A block has at most so many times the instances that run at once, or so few: more share and hide hardly more."""


def bound_options(option: NestOption, machine: Machine) -> Iterator[NestOption]:
    """Yield an option for each way to bind axes, or only the option itself if no level of the machine binds axes."""
    level = team_level(machine)
    option = replace(option, shares_work=bound_level(machine) is None)
    if level is None:
        yield option
        return
    most = level.count or min(level.most or 1, max(FEW, ROUNDS * level.at_once))
    counts = [level.count] if level.count else [1 << n for n in range(1, most.bit_length()) if 1 << n <= most]
    axes = [axis for axis in option.axes if _may_bind(axis, option)]
    ways = [bound for count in counts for bound in _instance_counts(axes, count)]
    if level.count is None or not ways:  # one instance alone, while others are idle
        yield option
    for bound in ways:
        found = bound_option(option, bound, level.at_once)
        names = tuple((f"{level.name}.{axis}", instances) for axis, instances in bound.items())
        yield replace(found, choose=(*option.choose, *names))


def _may_bind(axis: TileAxis, option: NestOption) -> bool:
    """Return whether instances may have adjacent tiles along an axis."""
    windows = {name for o in option.operands for w in o.staging.windows for name in (w.along, w.tap)}
    return not axis.is_reduction and axis.name not in windows and option.carried is None


def _instance_counts(axes: list[TileAxis], count: int) -> Iterator[dict[str, int]]:
    """Yield numbers of instances along one or two axes, so that each instance has a tile."""
    issues = {axis.name: -(-axis.extent // axis.tile) for axis in axes}
    for axis in axes:
        if issues[axis.name] >= count > 1:
            yield {axis.name: count}
    for one, other in combinations(axes, MOST_BOUND_AXES):
        for along in (1 << n for n in range(1, count.bit_length() - 1)):
            if count % along == 0 and issues[one.name] >= along and issues[other.name] >= count // along:
                yield {one.name: along, other.name: count // along}


def bound_option(option: NestOption, bound: Bound, at_once: int) -> NestOption:
    """Return an option whose issues are those of all instances, `at_once` of which run at the same time."""
    count = prod(bound.values())
    waits = max(1.0, count / at_once)
    axes = tuple(replace(a, tile=a.tile * bound.get(a.name, 1)) for a in option.axes)
    fusions = tuple(replace(f, extra_ns=f.extra_ns * waits / count) for f in option.fusions)
    return replace(
        option,
        axes=axes,
        operands=tuple(_share_copies(o, bound, count, waits) for o in option.operands),
        interval_ns=option.interval_ns * waits,
        fusions=fusions,
        team=min(count, at_once),
        members=count,
    )


def _share_copies(operand: TileOperand, bound: Bound, count: int, waits: float) -> TileOperand:
    """Return an operand whose tiles belong to single instances, and whose copies all instances share."""
    own = prod(n for axis, n in bound.items() if axis in operand.axes)
    costs, staging = operand.costs, operand.staging
    return with_fields(
        operand,
        tile_elements=operand.tile_elements * own,
        direct_ns=None if costs.direct_ns is None else costs.direct_ns * waits,
        staged_ns=None if costs.staged_ns is None else costs.staged_ns * waits,
        direct_busy_ns=costs.direct_busy_ns * waits,
        staged_busy_ns=costs.staged_busy_ns * waits,
        lane_waits=tuple(
            (memory, ns * factor)
            for (memory, ns), factor in zip(costs.lane_waits, (waits, waits, waits / count), strict=True)
        ),
        pack_ns_per_element=staging.pack_ns_per_element * waits / count,
        moved_ns_per_element=staging.moved_ns_per_element * waits / count,
        flow=None if staging.flow is None else _shared_flow(staging.flow, waits / count, waits / own),
    )


def _shared_flow(flow: Flow, together: float, own: float) -> Flow:
    """Return the times of an operand: all instances copy `together`, and each loads its `own` tiles."""

    def times(busy: Busy, factor: float) -> Busy:
        return tuple((unit, ns * factor) for unit, ns in busy)

    return replace(
        flow,
        begun=times(flow.begun, together),
        finished=times(flow.finished, together),
        first_ns=flow.first_ns * together,
        loaded=times(flow.loaded, own),
        around=times(flow.around, own),
        between=times(flow.between, own),
        apart=times(flow.apart, own),
    )
