"""What hints cost that name an operand's lines to a cache ahead of their use."""

from __future__ import annotations

from dataclasses import replace

from isamap.machine import Machine, cost_params, cost_value, line_hints
from isamap.plan.problem import TileOperand


def with_hints(operand: TileOperand, machine: Machine) -> TileOperand:
    """An input with the caches that the machine has hints for, where its turns read boxes of one array."""
    if operand.is_accumulator or operand.registers == 0 or not operand.in_rows or operand.packed:
        return operand
    found: list[tuple[str, float]] = []
    for cache, hint in sorted(line_hints(machine).items()):
        count = max(1, machine.units[hint.item.cost.unit].count)
        found.append(
            (
                cache,
                cost_value(hint.item.cost.interval_ns, cost_params(hint.item, machine, {}))
                / count
                / hint.line_bytes,
            )
        )
    return replace(operand, hints=tuple(found))
