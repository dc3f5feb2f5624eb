"""What it takes to bring inputs into registers, and the hints about what is brought later."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Const, Cost, times
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.effects.least import Way
from isamap.scheduler.following import if_followed, if_in_sequence
from isamap.scheduler.prefetching import hinting
from isamap.scheduler.space import issues_along
from isamap.scheduler.tiling import Tiling, by_stage, whole_bytes
from isamap.source import added


def loads(tiling: Tiling, operand: TileOperand) -> Cost:
    """Loads of an input's tiles: each once per register block that uses it."""
    own = prod(issues_along(axis) for axis in tiling.space.option.axes if axis.name in operand.axes)
    others = [tiling.steps[axis.name] for axis in tiling.space.axes if axis.name not in operand.axes]
    return by_stage(
        tiling.space,
        operand,
        times(own, operand.direct_ns or 0.0, *others),
        times(own, operand.staged_ns or 0.0, *others),
    )


def least_supply(way: Way) -> float:
    """All tiles of inputs, as rarely as registers allow."""
    return added(brought.moved_ns for brought in way.operands if not brought.operand.is_accumulator)


def hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Hints about what an input's later iterations read."""
    return hinting(tiling, operand, problem, whole_bytes(tiling.space, operand)[0])


def shown_hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Hints about what streams or is late show, but not beside loads that follow rows and wait for memory
    anyway, nor about whole rows in sequence that are read in place.
    """
    if not (operand.streams or operand.late):
        return Const(0)
    all_ = hints(tiling, operand, problem)
    in_place = if_in_sequence(tiling, operand, Const(0), all_)
    return if_followed(tiling, problem, Const(0), by_stage(tiling.space, operand, in_place, all_))
