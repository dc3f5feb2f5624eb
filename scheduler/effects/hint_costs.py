"""Price prefetch hints for later iterations of an input, and choose costs by whether there are hints."""

from __future__ import annotations

from math import inf, prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, largest, times, total
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.scheduler.deciding.fetching import prefetch_level
from isamap.scheduler.deciding.tiling import Tiling


def hint_time(tiling: Tiling, operand: TileOperand, problem: Problem, whole_bytes: int) -> Cost:
    """Return the time of an operand's hints, one per line. Outer loops repeat hints for data that is then near.

    If pieces of rows are already in caches, their hints execute nevertheless.
    """
    if not operand.prefetching.hints:
        return Const(0)
    hinted = (
        _late_bytes(tiling, operand, problem, whole_bytes)
        if operand.prefetching.is_late
        else Const(whole_bytes)
    )
    branches = ((n + 1, times(ns, hinted)) for n, (_, ns) in enumerate(operand.prefetching.hints))
    return Cases(prefetch_of(tiling.space.statement, operand.name), ((0, Const(0)), *branches))


def _late_bytes(tiling: Tiling, operand: TileOperand, problem: Problem, whole_bytes: int) -> Cost:
    """Return the bytes for which there are hints, for pieces of an input's rows.

    Each piece counts as a line at least. Blocks of other axes, or their register blocks, repeat the hints if
    they pass over all pieces.
    """
    space, along = tiling.space, operand.layout.dense_axis
    if along not in tiling.steps:
        return Const(whole_bytes)
    extents = {axis.name: axis.extent for axis in space.option.axes}
    rows = prod(extents[name] for name in operand.axes if name != along)
    lines = times(rows * problem.caches[-1].line_bytes, tiling.steps[along])
    again = [tiling.blocks[axis.name] for axis in space.register_axes if axis.name not in operand.axes]
    for name, first, second in space.sweep_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if inner.name == along and outer.name not in operand.axes:
                branches = ((value, tiling.iterations[outer.name]), (1 - value, Const(1)))
                again.append(Cases(name, tuple(sorted(branches, key=lambda branch: branch[0]))))
    return times(largest([Const(whole_bytes), lines]), *again)


def by_asking(tiling: Tiling, operand: TileOperand, late: Cost, early: Cost) -> Cost:
    """Return `early` if an input is prefetched and prefetching is searched, else `late`."""
    if not prefetch_level(tiling.space.option, operand):
        return late
    others = [(n + 1, early) for n in range(len(operand.prefetching.hints))]
    return Cases(prefetch_of(tiling.space.statement, operand.name), ((0, late), *others))


# --- hinted pieces that arrive in time ------------------------------------------------------------------

# Decide whether hinted pieces of rows arrive before their use: whether enough is computed meanwhile.
#
#     for n by 48 {
#       prefetch b ahead 2 into l2;     48 columns of 64 rows of B[k, n], two iterations later
#       for m by 8 { hold; … }          the computation on 48 columns: the time that their lines may take
#
# If the register blocks of other axes are outside that loop instead, or a block of such an axis is narrow,
# each iteration computes little, and lines arrive as late as without hints. The same is true if that loop has
# few iterations, since no earlier iteration hints at the pieces of the first ones
# (docs/decisions/0024-prefetch-hints.md).

# Limit of the search: blocks of fewer iterations than the first of these are priced as if their pieces had no
# hints, others as if they had no more iterations than one of these.
ENOUGH_ITERATIONS = (4, 8, 16, 32)


def if_in_time(tiling: Tiling, operand: TileOperand, bandwidth: float, late: Cost, early: Cost) -> Cost:
    """Return `early` if hints load an input's pieces in time, else `late`.

    `early` must not exceed `late`, so that costs grow with their decisions. Units: `bandwidth` of the memory
    that has the pieces, in bytes per nanosecond.
    """
    others = [axis for axis in tiling.space.register_axes if axis.name not in operand.axes]
    never = by_asking(tiling, operand, late, largest([early, late]))
    longest = max(others, key=lambda axis: axis.extent, default=None)
    if longest is None:
        return never
    needed = _issues_for_lines(tiling.space.option, operand, bandwidth)
    blocks = longest.extent / longest.tile / needed
    if blocks < 1:
        return never
    in_time = early
    for name, first, second in tiling.space.sweep_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if inner.name == operand.layout.dense_axis and outer in others:
                # Register blocks of one axis go through all pieces before those of the next begin.
                apart = Threshold(tiling.iterations[outer.name], 1, in_time, largest([in_time, late]))
                branches = ((value, apart), (1 - value, in_time))
                in_time = Cases(name, tuple(sorted(branches, key=lambda branch: branch[0])))
    in_time = Threshold(tiling.blocks[longest.name], int(blocks), in_time, largest([in_time, late]))
    return by_asking(tiling, operand, late, _if_many_iterations(tiling, operand, in_time, late))


def _if_many_iterations(tiling: Tiling, operand: TileOperand, many: Cost, few: Cost) -> Cost:
    """Return `many`, with a share of `few` for the first iterations of each block along an input's rows."""
    axis = next((axis for axis in tiling.space.axes if axis.name == operand.layout.dense_axis), None)
    if axis is None:
        return many  # rows of one register block: hints are about later rows
    step, blocks = tiling.step[axis.name], tiling.blocks[axis.name]
    first = operand.prefetching.ahead_counts[
        1
    ]  # iterations, which come after none that could hint at their pieces
    worse = largest([total([many, times(first / ENOUGH_ITERATIONS[0], few)]), few])
    found: Cost = worse
    for iterations in ENOUGH_ITERATIONS:
        shown = total([many, times(first / iterations, few)])
        found = Threshold(times(iterations, step, blocks), axis.extent, shown, found)
    only = Threshold(times(ENOUGH_ITERATIONS[0], step), axis.extent, many, worse)
    return Threshold(blocks, 1, only, found)


def _issues_for_lines(option: NestOption, operand: TileOperand, bandwidth: float) -> float:
    """Return the issues on each tile of an operand that take as long as the load of its lines."""
    tile = prod(axis.tile for axis in option.axes if axis.name in operand.axes)
    return tile * operand.layout.tensor_bytes / bandwidth / option.interval_ns if option.interval_ns else inf
