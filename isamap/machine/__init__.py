"""Machine descriptions: from YAML with language text to memories, links, units, instructions and costs.

Names are imported when they are first used: detecting this computer's machine, and checking one that was
checked before, need neither the language nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isamap.machine.checks import MachineSummary, check_machine
    from isamap.machine.cost_values import cost_params, cost_value
    from isamap.machine.detect import detect_features, detect_machine, missing_features
    from isamap.machine.graph import caches_from_nearest, line_bytes, memory_graph
    from isamap.machine.held import held_between
    from isamap.machine.hints import LineHint, line_hints
    from isamap.machine.listing import list_machines, machine_digest
    from isamap.machine.load import load_machine
    from isamap.machine.model import (
        Cost,
        Emission,
        EmitArg,
        EmitCall,
        EmitNothing,
        EmitSemantics,
        Link,
        Machine,
        MachineInstruction,
        Memory,
        State,
        Target,
        Unit,
    )

_HOMES = {
    "checks": ("MachineSummary", "check_machine"),
    "cost_values": ("cost_params", "cost_value"),
    "detect": ("detect_features", "detect_machine", "missing_features"),
    "graph": ("caches_from_nearest", "line_bytes", "memory_graph"),
    "held": ("held_between",),
    "hints": ("LineHint", "line_hints"),
    "listing": ("list_machines", "machine_digest"),
    "load": ("load_machine",),
    "model": (
        "Cost", "Emission", "EmitArg", "EmitCall", "EmitNothing", "EmitSemantics", "Link", "Machine",
        "MachineInstruction", "Memory", "State", "Target", "Unit",
    ),
}  # fmt: skip

__all__ = [
    "Cost",
    "Emission",
    "EmitArg",
    "EmitCall",
    "EmitNothing",
    "EmitSemantics",
    "LineHint",
    "Link",
    "Machine",
    "MachineInstruction",
    "MachineSummary",
    "Memory",
    "State",
    "Target",
    "Unit",
    "caches_from_nearest",
    "check_machine",
    "cost_params",
    "cost_value",
    "detect_features",
    "detect_machine",
    "held_between",
    "line_bytes",
    "line_hints",
    "list_machines",
    "load_machine",
    "machine_digest",
    "memory_graph",
    "missing_features",
]


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"isamap.machine.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
