"""Price overlap inefficiency: the exposed part of work that should be hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.plan.cost import Cost, times
from isamap.plan.problem import Problem
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.effects.least import Way
from isamap.scheduler.effects.levels import Misses
from isamap.scheduler.effects.register_loads import least_loads, shown_hints


def leaks(tiling: Tiling, hidden: Cost, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield the exposed parts of hidden time, of hints and of traffic. Inputs expose less, as they are prefetched."""
    model = problem.model
    yield times(model.leak_factor, hidden)
    operands = tiling.space.option.operands
    yield from (shown_hints(tiling, o, problem) for o in operands if not o.is_accumulator)
    for level in missed:
        for operand, cost in zip(operands, level.costs, strict=True):
            yield times(model.leak_factor if operand.is_accumulator else model.stream_leak_factor, cost)


def least_leak(way: Way) -> float:
    """Return the exposed part of the operand loads' time."""
    return way.problem.model.leak_factor * least_loads(way)
