"""Time the instructions of an operand load: all of them, those on one unit, those that read memory."""

from __future__ import annotations

from isamap.ir import Index
from isamap.match import Leaf, Location, Suppliers, Supply
from isamap.source import added


def supplied_ns(supply: Supply | Leaf | Location | None) -> float | None:
    """Return the time of an operand load; None where there is no load. Units: nanoseconds."""
    return None if supply is None else supply.cost_ns if isinstance(supply, Supply) else 0.0


def intervals_ns(supply: Supply | Leaf | Location | None, suppliers: Suppliers) -> float:
    """Return the time that an operand load keeps its units busy, whatever part of a register it fills."""
    if not isinstance(supply, Supply):
        return 0.0
    known = {n: v.value for n, v in supply.params if isinstance(v, Index) and v.value is not None}
    inside = added(intervals_ns(source, suppliers) for _, source in supply.inputs)
    return suppliers.interval_ns(supply.instruction, known) + inside


def unit_ns(supply: Supply | Leaf | Location | None, unit: str, suppliers: Suppliers) -> float:
    """Return how long the instructions of an operand load keep one unit busy. Units: nanoseconds."""
    if not isinstance(supply, Supply) or not supply.cost_ns:  # what is supplied once costs nothing
        return 0.0
    inside = added(unit_ns(source, unit, suppliers) for _, source in supply.inputs)
    cost, units = suppliers.machine.instructions[supply.instruction].cost, suppliers.machine.units
    if unit not in cost.occupied:
        return inside
    known = {n: v.value for n, v in supply.params if isinstance(v, Index) and v.value is not None}
    copies = max(1, units[cost.unit].count) / max(1, units[unit].count)
    return suppliers.interval_ns(supply.instruction, known) * copies + inside


def loading_ns(supply: Supply | Leaf | Location | None) -> float:
    """Return those that read memory. Units: nanoseconds."""
    if not isinstance(supply, Supply):
        return 0.0
    inside = [source for _, source in supply.inputs if isinstance(source, Supply)]
    return added(map(loading_ns, inside)) if inside else supply.cost_ns
