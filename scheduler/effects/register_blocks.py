"""Price register blocks one by one: the sums, loads and latency of one block do not hide in another's.

A whole block of 9 x 3 sums has 12 loads for 27 sums. The remainder block at the end of an axis, 9 x 1, has
10 loads for 9 sums: its loads bound it, even if loads bound no other block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from isamap.machine.timings import LoopTimes
from isamap.plan.cost import CeilDiv, Const, Cost, Decision, OverBlocks, Threshold, largest, times, total
from isamap.plan.problem import NestOption, TileOperand
from isamap.scheduler.deciding.space import Space, issues_along
from isamap.scheduler.deciding.sums import summed_axis
from isamap.scheduler.deciding.tiling import Tiling, by_stage


def block_sums(space: Space, loops: LoopTimes) -> Cost:
    """Return, over all register blocks, the longest of each block's sums, loads and dependence chains."""
    option = space.option
    return over_blocks(space, times(summing_issues(option), largest(_parts_of_sums(space, loops))))


def _parts_of_sums(space: Space, loops: LoopTimes) -> list[Cost]:
    """Return the time of a register block for one step of all reduction axes."""
    option = space.option
    inputs = [operand for operand in option.operands if not operand.is_accumulator]
    chain = option.latency_ns if any(axis.is_reduction for axis in space.axes) else 0.0
    issues = times(option.interval_ns, *_unroll_factors(space, [axis.name for axis in space.register_axes]))
    return [
        total([issues, *(_busy(space, operand) for operand in inputs)]),
        Const(chain),
        total(_loads(space, operand, loops) for operand in inputs),
    ]


def _loads(space: Space, operand: TileOperand, loops: LoopTimes) -> Cost:
    tiles = _unroll_factors(space, operand.axes)
    direct = total([times(operand.costs.direct_ns or 0.0, *tiles), _addresses(space, operand, loops)])
    return by_stage(space, operand, direct, times(operand.costs.staged_ns or 0.0, *tiles))


def _busy(space: Space, operand: TileOperand) -> Cost:
    """Return how long an operand's loads occupy the computing unit."""
    if not operand.costs.direct_busy_ns and not operand.costs.staged_busy_ns:
        return Const(0)
    tiles = _unroll_factors(space, operand.axes)
    direct, staged = times(operand.costs.direct_busy_ns, *tiles), times(operand.costs.staged_busy_ns, *tiles)
    return by_stage(space, operand, direct, staged)


def _addresses(space: Space, operand: TileOperand, loops: LoopTimes) -> Cost:
    """Return the time to compute row addresses of an in-place operand if registers cannot hold all of them.

    Nothing if it is known how far apart rows lie: then they are part of the loads.
    """
    if (
        not (operand.layout.dense_axis and operand.layout.pitch_bytes)
        or operand.layout.subscripts
        or not loops.address_ns
    ):
        return Const(0)
    if not any(axis.is_open for axis in space.axes if axis.name == operand.layout.dense_axis):
        return Const(0)
    rows = times(
        *_unroll_factors(space, [name for name in operand.axes if name != operand.layout.dense_axis])
    )
    made = times(loops.address_ns, rows)
    return Const(0) if isinstance(rows, Const) else Threshold(rows, 1, Const(0), made)


def _unroll_factors(space: Space, names: Sequence[str]) -> list[Cost]:
    return [Decision(space.unroll(axis)) for axis in space.register_axes if axis.name in names]


def summing_issues(option: NestOption) -> int:
    """Return the number of issues that one sum takes."""
    return prod(issues_along(axis) for axis in option.axes if axis.is_reduction)


def loops_ns(space: Space, loops: LoopTimes) -> Cost:
    """Return the overhead of all loops down to the innermost one, and the cost of unrolling its body.

    Latency of dependent sums hides part of the loop counting that unrolling saves. Compilers add moves
    between registers, and long unrolled bodies are fetched and decoded anew. On Zen 5 with gcc 12, bodies of
    one to four sums gain 1 to 4 % when unrolled four times, longer ones lose 1 to 4 %, and a few gain 2 %.
    """
    axis, issues = summed_axis(space.option), summing_issues(space.option)
    if axis is None:
        return over_blocks(space, Const(loops.turn_ns * issues))
    factor, own = Decision(space.unroll(axis)), issues_along(axis)
    iterations = times(loops.turn_ns * (issues // own), CeilDiv(Const(own), factor))
    body = times(
        loops.unrolled_issue_ns * issues, *_unroll_factors(space, [a.name for a in space.register_axes])
    )
    unrolled = total([Const(loops.unrolled_ns * issues), body])
    return over_blocks(space, total([iterations, Threshold(factor, 1, Const(0), unrolled)]))


def chains(tiling: Tiling) -> Cost:
    """Return the time in which sums wait for their own previous results."""
    if not any(axis.is_reduction for axis in tiling.space.axes):
        return Const(0)
    return times(tiling.space.option.latency_ns, *(tiling.steps[axis.name] for axis in tiling.space.axes))


def over_blocks(space: Space, body: Cost) -> Cost:
    """Return the cost of a body times the number of register blocks."""
    axes = tuple((space.unroll(axis), issues_along(axis)) for axis in space.register_axes)
    return OverBlocks(axes, body) if axes else body
