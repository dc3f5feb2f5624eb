"""Machine descriptions: from YAML with language text to memories, links, units, instructions and costs.

Names are imported when they are first used. Detecting this computer's machine and loading a cached one need
neither the language nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isamap.machine.addressed_registers import with_addressed_registers
    from isamap.machine.chain import join_word, list_machines, machine_digest, split_word
    from isamap.machine.checks import check_machine, load_machine
    from isamap.machine.costs import cost_params, cost_value, names_in
    from isamap.machine.emit_nodes import (
        EmitArg,
        EmitArithmetic,
        EmitCall,
        EmitNothing,
        EmitSemantics,
        EmitSteps,
        EmitValue,
    )
    from isamap.machine.lengths import at_one_length, passed_when_run
    from isamap.machine.links import cached_bytes_per_ns, carried_ns, shared_link
    from isamap.machine.model import (
        ConfigurationState,
        LineHint,
        Link,
        Machine,
        MachineInstruction,
        Memory,
        bound_level,
        caches_from_nearest,
        count_between,
        home_of,
        is_late_product,
        line_bytes,
        line_hints,
        main_memories,
        memory_of_constants,
        private_memories,
        team_level,
        threads_of,
        unset_state,
    )
    from isamap.machine.parts import ANSWERS, PARTS
    from isamap.machine.processor import detect_features, detect_machine, missing_features

_HOMES = {
    "checks": ("check_machine", "load_machine"),
    "costs": ("cost_params", "cost_value", "names_in"),
    "processor": ("detect_features", "detect_machine", "missing_features"),
    "chain": ("join_word", "list_machines", "machine_digest", "split_word"),
    "links": ("cached_bytes_per_ns", "carried_ns", "shared_link"),
    "addressed_registers": ("with_addressed_registers",),
    "lengths": ("at_one_length", "passed_when_run"),
    "parts": ("ANSWERS", "PARTS"),
    "emit_nodes": (
        "EmitArg", "EmitArithmetic", "EmitCall", "EmitNothing", "EmitSemantics", "EmitSteps", "EmitValue",
    ),
    "model": (
        "LineHint", "Link", "Machine", "MachineInstruction", "Memory", "ConfigurationState", "bound_level",
        "caches_from_nearest", "count_between", "home_of", "is_late_product", "line_bytes", "line_hints",
        "main_memories", "memory_of_constants", "private_memories", "team_level", "threads_of", "unset_state",
    ),
}  # fmt: skip

__all__ = [
    "ANSWERS", "PARTS", "ConfigurationState", "EmitArg", "EmitArithmetic", "EmitCall", "EmitNothing",
    "EmitSemantics", "EmitSteps", "EmitValue", "LineHint", "Link", "Machine", "MachineInstruction", "Memory",
    "at_one_length", "bound_level", "cached_bytes_per_ns", "caches_from_nearest", "carried_ns", "check_machine",
    "cost_params", "cost_value", "count_between", "detect_features", "detect_machine", "home_of", "is_late_product",
    "join_word", "line_bytes", "line_hints", "list_machines", "load_machine", "machine_digest", "main_memories",
    "memory_of_constants", "missing_features", "names_in", "passed_when_run", "private_memories", "shared_link",
    "split_word", "team_level", "threads_of", "unset_state", "with_addressed_registers",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"isamap.machine.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
