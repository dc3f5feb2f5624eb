"""Normalise nests to the form that decisions would build.

    for m by 64 { for m by 14 { unroll n by 16 { unroll m by 1 { issue; } } } }       of 8 rows
    ->  for m by 8 { unroll m by 1 { unroll n by 16 { issue; } } }

A block of 14 rows is one of 8 where there are 8, a loop that runs once around another one over its axis is
none, and the order of unrolled loops changes neither what is loaded nor what is computed, only which tiles
wait in registers. So the model prices all of these alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import assert_never

from isamap.plan.loops import CountedLoop, LoopStep, ParallelLoop, UnrolledLoop
from isamap.plan.problem import NestOption
from isamap.plan.schedule import NestSchedule, spread_of
from isamap.scheduler.deciding.space import issues_along
from isamap.source.records import replace


def within(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the nest with blocks no larger than the axes of the option, and no loop that runs once around another.

    In which pieces rests are performed is left out.
    """
    extents = {axis.name: issues_along(axis) * axis.tile for axis in option.axes}
    loops = tuple(_clipped(loop, extents) for loop in nest.loops)
    return _without(replace(nest, loops=loops), _running_once(nest, loops, extents))


def normal_form(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the same without what no decision stands for, and without loops that run once: their place is free."""
    found = within(nest, option)
    extents = {axis.name: issues_along(axis) * axis.tile for axis in option.axes}
    once = [n for n, loop in enumerate(found.loops) if _takes_all(loop, extents)]
    found = _without(found, set(once) - _crossed(found))
    loops = _in_order(found.loops, option)
    return replace(found, loops=loops, fused=(), prefetches=(), pipeline=None)


def _clipped(loop: LoopStep, extents: Mapping[str, int]) -> LoopStep:
    """Return a loop whose block is no larger than its axis. Parts for threads stay: their size is decided."""
    step = min(loop.step, extents.get(loop.axis, loop.step))
    match loop:
        case ParallelLoop():
            return loop
        case CountedLoop():
            return CountedLoop(loop.axis, step)
        case UnrolledLoop():
            return UnrolledLoop(loop.axis, step)
        case _:
            assert_never(loop)


def _takes_all(loop: LoopStep, extents: Mapping[str, int]) -> bool:
    return loop.counts and loop.step >= extents.get(loop.axis, loop.step + 1)


def _running_once(nest: NestSchedule, loops: Sequence[LoopStep], extents: Mapping[str, int]) -> set[int]:
    """Return the loops that run once while another one of their axis stays, and unrolled ones of one issue."""
    found: set[int] = set()
    for number, loop in enumerate(loops):
        around = [o for o in loops[:number] if o.axis == loop.axis]
        inside = [o for o in loops[number + 1 :] if o.axis == loop.axis and o.counts]
        dealt = [o for o in around if o.is_dealt]
        is_single = loop.is_unrolled and bool(around) and around[-1].step <= loop.step
        if is_single or (_takes_all(loop, extents) and (inside or dealt)):
            found.add(number)
    return found - _crossed(nest)


def _crossed(nest: NestSchedule) -> set[int]:
    """Return the loops whose iterations a copy crosses: those directly around it, even where they run once."""
    return {stage.depth - 1 for stage in nest.stages if stage.ahead or spread_of(nest, stage.operand)}


def _without(nest: NestSchedule, dropped: Collection[int]) -> NestSchedule:
    """Return the nest without some of its loops."""

    def moved(depth: int) -> int:
        return depth - sum(number < depth for number in dropped)

    return replace(
        nest,
        loops=tuple(loop for number, loop in enumerate(nest.loops) if number not in dropped),
        stages=tuple(replace(stage, depth=moved(stage.depth)) for stage in nest.stages),
        hold=moved(nest.hold),
    )


def _in_order(loops: Sequence[LoopStep], option: NestOption) -> tuple[LoopStep, ...]:
    """Return the loops, unrolled ones that stand together by name: those of sums stay where they are."""
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    found: list[LoopStep] = []
    for is_block, group in groupby(loops, lambda loop: loop.is_unrolled and loop.axis not in sums):
        together = list(group)
        found += sorted(together, key=lambda loop: loop.axis) if is_block else together
    return tuple(found)
