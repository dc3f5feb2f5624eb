"""Compute times of operand loads: of all instructions, of those on one unit, of those that read memory."""

from __future__ import annotations

from isamap.ir import Index
from isamap.machine import Machine, cost_params, cost_value
from isamap.match import Location, MoveSearch, OperandMove, Present
from isamap.source import add_up


def load_ns(load: OperandMove | Present | Location | None) -> float | None:
    """Return the time of an operand load, or None if there is no load. Units: nanoseconds."""
    return None if load is None else load.cost_ns if isinstance(load, OperandMove) else 0.0


def intervals_ns(load: OperandMove | Present | Location | None, search: MoveSearch) -> float:
    """Return the time for which an operand load occupies its units, even for partly filled registers."""
    if not isinstance(load, OperandMove):
        return 0.0
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    inside = add_up(intervals_ns(source, search) for _, source in load.inputs)
    return search.interval_ns(load.instruction, known) + inside


def unit_ns(load: OperandMove | Present | Location | None, unit: str, search: MoveSearch) -> float:
    """Return how long the instructions of an operand load occupy one unit. Units: nanoseconds."""
    if not isinstance(load, OperandMove) or not load.cost_ns:  # what is loaded once costs nothing
        return 0.0
    inside = add_up(unit_ns(source, unit, search) for _, source in load.inputs)
    cost, units = search.machine.instructions[load.instruction].cost, search.machine.units
    if unit not in cost.occupied:
        return inside
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    copies = max(1, units[cost.unit].count) / max(1, units[unit].count)
    return search.interval_ns(load.instruction, known) * copies + inside


def issued_pj(load: OperandMove | Present | Location | None, search: MoveSearch) -> float:
    """Return the energy of an operand load's instructions without memory accesses. Units: picojoules."""
    if not isinstance(load, OperandMove) or not load.cost_ns:  # what is loaded once costs nothing
        return 0.0
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    inside = add_up(issued_pj(source, search) for _, source in load.inputs)
    return search.energy_pj(load.instruction, known) + inside


def lane_wait(load: OperandMove | Present | Location | None, search: MoveSearch) -> tuple[str, float]:
    """Return the memory at which lanes wait for each other in an operand load, and how long. Units: nanoseconds."""
    if not isinstance(load, OperandMove) or not load.cost_ns:  # what is loaded once costs nothing
        return "", 0.0
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    places = [(name, at) for name, at in load.inputs if isinstance(at, Location)]
    places += [] if load.target is None else [(load.output, load.target)]
    memory, ns = search.lanes_ns(load.instruction, places, known)
    inside = [found for _, at in load.inputs if (found := lane_wait(at, search))[0]]
    return next((name for name, _ in [(memory, ns), *inside] if name), ""), ns + add_up(
        more for _, more in inside
    )


def loading_ns(load: OperandMove | Present | Location | None) -> float:
    """Return the time of the instructions that read memory. Units: nanoseconds."""
    if not isinstance(load, OperandMove):
        return 0.0
    inside = [source for _, source in load.inputs if isinstance(source, OperandMove)]
    return add_up(map(loading_ns, inside)) if inside else load.cost_ns


def issue_latency_ns(machine: Machine, name: str, busy_ns: float) -> float:
    """Return the latency of an instruction that occupies its unit for `busy_ns`. Units: nanoseconds."""
    item = machine.instructions[name]
    numbers = cost_params(item, machine, largest_params(machine, name))
    later_ns = cost_value(item.cost.latency_ns, numbers) - cost_value(item.cost.interval_ns, numbers)
    return later_ns + busy_ns


def largest_params(machine: Machine, name: str) -> dict[str, int]:
    """Return the largest allowed values of an instruction's parameters."""
    params = machine.instructions[name].instruction.params
    return {p.name: p.high.value for p in params if p.high and p.high.value}
