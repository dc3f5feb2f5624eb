"""Rows that stream through from memory once: the next turn's lines are asked for while this one computes.

    for n by 6 {                          B[n, k], whose rows of k follow each other, 39 MB of it
      prefetch b ahead 1 into l1;
      hold;
      for k by 16 { … }

No decision of the model, which prices bandwidth as if rows never began anew. For a processor that looks ahead
by itself each turn's rows are new streams, under way when half of a short row is over. Measured on Zen 5
(7680 x n x 2560, weights out of memory): bf16 1.4 to 1.5 times as fast, f32 1.45 times; what comes out of
caches is 0.85 times as fast, and is left alone. So is what is too much at once: this turn's rows and the next
one's have to fit into the cache before the last.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.plan.schedule import NestSchedule, Prefetch
from isamap.scheduler.candidates import Candidate
from isamap.scheduler.space import issues_along


def nest_of(problem: Problem, candidate: Candidate) -> NestSchedule:
    """The loops of a candidate, with prefetches of what streams through from beyond all caches.

    Where a person has decided about an operand's prefetch, that stands.
    """
    nest, option = candidate.nest(), candidate.option.space.option
    caches = [cache for cache in problem.caches if cache.name in problem.hinted]
    around = nest.loops[nest.hold - 1] if nest.hold else None
    if not caches or around is None or around.kind != "for":
        return nest
    staged = {stage.operand for stage in nest.stages}
    decided = candidate.option.space.fixed
    found = tuple(
        Prefetch(operand.name, nest.hold, 1, caches[0].name)
        for operand in option.operands
        if prefetch_of(nest.statement, operand.name) not in decided
        and operand.name not in staged
        and around.axis in operand.axes
        and _streams(problem, option, operand)
        and 2 * _turn_bytes(nest, option, operand) <= problem.caches[-2:][0].capacity_bytes
    )
    return replace(nest, prefetches=(*nest.prefetches, *found))


def _turn_bytes(nest: NestSchedule, option: NestOption, operand: TileOperand) -> int:
    """How much of an operand one turn reads of the loop that holds the tile: what is asked for at once."""
    spans = {axis.name: axis.extent for axis in option.axes}
    for loop in nest.loops[: nest.hold]:
        spans[loop.axis] = loop.step
    return prod(spans[axis] for axis in operand.axes) * operand.tensor_bytes


def _streams(problem: Problem, option: NestOption, operand: TileOperand) -> bool:
    """Whether rows of an input along a sum come from memory, and take longer than all issues."""
    lying = {axis.name: axis.is_reduction for axis in option.axes}
    if operand.is_accumulator or not operand.registers or not operand.in_rows or operand.subscripts:
        return False
    if not lying.get(operand.dense_axis, False):
        return False
    size = prod(axis.extent for axis in option.axes if axis.name in operand.axes) * operand.tensor_bytes
    if not problem.caches or size <= problem.caches[-1].capacity_bytes:
        return False
    issues_ns = prod(issues_along(axis) for axis in option.axes) * option.interval_ns
    return issues_ns < size / problem.memory_bandwidth_bytes_per_ns
