"""Price prefetch hints for later iterations of an input, and select costs by whether hints are given."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Cases, Const, Cost, largest, times
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.fetching import prefetch_level
from isamap.scheduler.deciding.tiling import Tiling


def hinting(tiling: Tiling, operand: TileOperand, problem: Problem, whole_bytes: int) -> Cost:
    """Return the time of an operand's hints, one for each line: outer loops hint again at data that is then near.

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
    """Return the number of bytes that the hints about pieces of an input's rows name.

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
    """Return one of two costs, after whether an input is asked for early if that is searched."""
    if not prefetch_level(tiling.space.option, operand):
        return late
    others = [(n + 1, early) for n in range(len(operand.prefetching.hints))]
    return Cases(prefetch_of(tiling.space.statement, operand.name), ((0, late), *others))
