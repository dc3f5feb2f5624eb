"""What no schedule of an option undercuts by the analytic model, in some tens of microseconds.

    issues one after another, or bringing the inputs, whichever takes longer
    + a tenth of bringing the inputs + sums in and out of registers + one copy of what is staged

An input comes from its tensor, or from a buffer that was filled before: the cheaper of both, over all inputs
together. Copies that a unit of its own may make cost nothing. No tile is brought more rarely than registers
allow: what a register block has of accumulators fits into them. Loops, caches and waiting cost nothing here.
`expression` is never below, under whatever decisions: tests/unit/test_scheduler_narrowing.py tries.
"""

from __future__ import annotations

from itertools import product
from math import prod

from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.scheduler.space import MAX_UNROLLED, issues_along
from isamap.source import added

# Sums of floats in another order may differ by this.
ROUNDED = 1 - 1e-9


def least_ns(problem: Problem, option: NestOption, leak: float) -> float:
    """What the analytic cost of an option is never below. Units: nanoseconds.

    `leak` is the share of hidden time that shows. Operands that are not listed cost nothing.
    """
    trips = {axis.name: issues_along(axis) for axis in option.axes}
    issues = prod(trips.values())
    most = _blocks(problem, option)
    ways: list[list[tuple[float, float]]] = []
    held_ns = 0.0
    for operand in option.operands:
        own = prod(trips[name] for name in operand.axes)
        brought = own if operand.is_accumulator else max(own, issues / most)
        elements = prod(a.extent for a in option.axes if a.name in operand.axes)
        found = _ways(operand, brought, elements * _copy_ns(operand, leak))
        if operand.is_accumulator:
            held_ns += min((moved + once for moved, once in found), default=0.0)
        else:
            ways.append(found)
    compute_ns = issues * option.interval_ns
    shown = [
        max(compute_ns, supply) + leak * supply + added(once for _, once in chosen)
        for chosen in product(*ways)
        for supply in [added(moved for moved, _ in chosen)]
    ]
    # Behind rows that loads follow out of memory, accumulators show by the same share; what streams is not
    # known of outlines yet.
    streams = problem.memory_streams
    held_ns *= leak if streams is not None and streams.swept_start_ns is not None else 1.0
    return (min(shown, default=0.0) + held_ns) * ROUNDED


def _copy_ns(operand: TileOperand, leak: float) -> float:
    """What copying an element shows at least, sums both ways: of what a unit moves by itself, a share."""
    at_once = (2 if operand.is_accumulator else 1) * operand.pack_ns_per_element
    if not operand.mover:
        return at_once
    before = max(0.0, at_once - operand.moved_ns_per_element) if operand.is_accumulator else 0.0
    return min(at_once, before + leak * operand.moved_ns_per_element)


def _ways(operand: TileOperand, tiles: float, copied_ns: float) -> list[tuple[float, float]]:
    """What bringing so many tiles takes, and what a copy before takes: in place, from a buffer."""
    found: list[tuple[float, float]] = []
    if operand.direct_ns is not None:
        found.append((tiles * operand.direct_ns, 0.0))
    if operand.staged_ns is not None:
        found.append((tiles * operand.staged_ns, copied_ns))
    return found


def _blocks(problem: Problem, option: NestOption) -> int:
    """At most so many issues share a tile of an input: accumulators of a block fit into registers."""
    registers, most = dict(problem.registers), MAX_UNROLLED
    for operand in option.operands:
        if operand.is_accumulator and operand.registers and operand.memory in registers:
            most = min(most, registers[operand.memory] // operand.registers)
    return max(1, most)
