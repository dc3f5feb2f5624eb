"""Price the results that leave a scratchpad after all computation."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from isamap.plan.cost import Cases, Const, Cost, Decision, times, total
from isamap.plan.problem import Flow, TileOperand
from isamap.scheduler.deciding.software_pipelining import crossing, name_of
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.effects.parted_sums import longest_ns


def last_results(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the times of stores behind the last sum that do not overlap the computing of its last tiles."""
    option = tiling.space.option
    tile_ns = _taken_out_ns(tiling, operand, flow)
    yield from _late_results(tiling, operand, flow)
    block = [Decision(tiling.space.unroll(a)) for a in tiling.space.register_axes if a.name in operand.axes]
    yield Const(min(tile_ns, option.interval_ns))
    yield times(max(0.0, tile_ns - option.interval_ns), *block)


def left_by_sums(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the same behind sums that wait for each other: those of one copy count the last ones as well, where
    taking them out and beginning them anew takes longer than what is computed.
    """
    option, space = tiling.space.option, tiling.space
    whole = total(last_results(tiling, operand, flow))
    if (flow.first_ns + longest_ns(flow.begun)) / tiles_of(tiling, operand) <= option.interval_ns:
        yield whole
        return
    late = total(_late_results(tiling, operand, flow))
    yield Cases(name_of(space, operand), ((0, late), (1, whole))) if operand in crossing(space) else late


def _late_results(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield how much later the last tile is computed than its issue ends, and is there than its unit is free."""
    option, space = tiling.space.option, tiling.space
    yield Const(max(0.0, flow.latency_ns - _taken_out_ns(tiling, operand, flow)))
    late = Const(max(0.0, option.latency_ns - option.interval_ns))  # of one copy, it counts for each block
    if operand in crossing(space):
        yield Cases(name_of(space, operand), ((0, Const(0)), (1, late)))


def _taken_out_ns(tiling: Tiling, operand: TileOperand, flow: Flow) -> float:
    """Return how long a tile is taken out; by the unit that computes, it is among what sums wait for."""
    others = tuple((unit, ns) for unit, ns in flow.finished if unit != tiling.space.option.unit)
    return longest_ns(others) / tiles_of(tiling, operand)


def tiles_of(tiling: Tiling, operand: TileOperand) -> int:
    """Return how many tiles of an operand there are."""
    return prod(issues_along(axis) for axis in tiling.space.option.axes if axis.name in operand.axes)
