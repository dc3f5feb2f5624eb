"""What crosses iterations, from decisions to loops and back: `nest0.ahead.b = 1` and `stage b ahead 1;`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from isamap.plan.schedule import NestSchedule, Spread, Stage, spread_of
from isamap.scheduler.crossing import Made, can_cross, crossing, is_crossed, name_of
from isamap.scheduler.prefetching import prefetches, prefetches_of

if TYPE_CHECKING:
    from isamap.scheduler.space import Space


def across_turns(nest: NestSchedule, space: Space, made: Made) -> NestSchedule:
    """The nest with what is decided to cross iterations; unchanged where that cannot be."""
    nest = replace(nest, prefetches=prefetches(nest, space, made))
    crossed = {o.name: o for o in crossing(space) if is_crossed(space, o, made)}
    if not crossed or not can_cross(space, made):
        return nest
    stages: list[Stage] = []
    spread: list[Spread] = []
    for stage in nest.stages:
        operand = crossed.get(stage.operand)
        if operand is None:
            stages.append(stage)
        elif operand.is_accumulator:
            stages.append(replace(stage, depth=_with_turns(nest, space)))
            spread.append(Spread(operand.name, _last_sum(nest)))
        else:
            stages.append(replace(stage, ahead=1))
    return replace(nest, stages=tuple(sorted(stages, key=lambda s: s.depth)), spread=tuple(spread))


def _with_turns(nest: NestSchedule, space: Space) -> int:
    """How many loops stand around a result whose iterations others cross: those inside run once."""
    left = {axis.name: axis.extent for axis in space.option.axes}
    depth = 0
    for number, loop in enumerate(nest.loops[: nest.hold]):
        if left[loop.axis] > loop.step:
            depth = number + 1
        left[loop.axis] = min(left[loop.axis], loop.step)
    return depth


def _last_sum(nest: NestSchedule) -> str:
    """The axis of the innermost loop over a sum while it is held."""
    return [loop.axis for loop in nest.loops[nest.hold :] if loop.counts][-1]


def crossings_of(space: Space, nest: NestSchedule) -> dict[str, int]:
    """The decisions that a nest stands for; more than one iteration ahead is none of them."""
    ahead = {stage.operand for stage in nest.stages if stage.ahead}
    found = {
        name_of(space, o): int(spread_of(nest, o.name) is not None if o.is_accumulator else o.name in ahead)
        for o in crossing(space)
    }
    return found | prefetches_of(space, nest)
