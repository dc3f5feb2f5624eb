"""Lower bounds on operand loads: the cheapest storage of each operand bounds all schedules of an option.

An operand is loaded from its tensor or from a buffer that was filled before: the bound takes the cheaper of
both, over all operands together. A copy that a separate unit may make costs only its exposed time. A tile is
loaded as rarely as the registers allow, given that the accumulators of a register block fit into them. Loops,
caches and waits cost nothing here. No schedule is priced below this bound
(tests/unit/test_scheduler_narrowing.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from isamap.plan.problem import NestOption, Problem, TileOperand
from isamap.scheduler.deciding.space import MAX_UNROLLED, issues_along
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class StoredOperand:
    """An operand in place or in a buffer: the load time of its tiles, and the number of copied elements.

    Units: nanoseconds.
    """

    operand: TileOperand
    moved_ns: float
    copied: int = 0


@dataclass(frozen=True, slots=True)
class StorageChoice:
    """A choice between reading in place and from a buffer, for every operand. Units: nanoseconds."""

    problem: Problem
    computing_ns: float
    operands: tuple[StoredOperand, ...]


def list_ways(problem: Problem, option: NestOption) -> Iterator[StorageChoice]:
    """Yield all storage choices for the listed operands of an option. The other operands cost nothing."""
    trips = {axis.name: issues_along(axis) for axis in option.axes}
    issues = prod(trips.values())
    most = _blocks(problem, option)
    found: list[list[StoredOperand]] = []
    for operand in option.operands:
        own = prod(trips[name] for name in operand.axes)
        tiles = own if operand.is_accumulator else max(own, issues / most)
        elements = prod(a.extent for a in option.axes if a.name in operand.axes)
        found.append(_load_times(operand, tiles, elements))
    for operands in product(*found):
        yield StorageChoice(problem, issues * option.interval_ns, operands)


def _load_times(operand: TileOperand, tiles: float, elements: int) -> list[StoredOperand]:
    """Return the load of an operand in place and that from a buffer, if their times are known."""
    found: list[StoredOperand] = []
    if operand.costs.direct_ns is not None:
        found.append(StoredOperand(operand, tiles * operand.costs.direct_ns))
    if operand.costs.staged_ns is not None:
        found.append(StoredOperand(operand, tiles * operand.costs.staged_ns, elements))
    return found or [StoredOperand(operand, 0.0)]


def _blocks(problem: Problem, option: NestOption) -> int:
    """Return how many issues can share an input's tile at most, with accumulators in registers."""
    registers, most = problem.registers_of(option), MAX_UNROLLED
    for operand in option.operands:
        for memory, each in operand.takes:
            if operand.is_accumulator and each and memory in registers:
                most = min(most, registers[memory] // each)
    return max(1, most)
