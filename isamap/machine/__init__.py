"""Machine descriptions: from YAML with language text to memories, links, units, instructions and costs."""

from isamap.machine.costs import cost_value
from isamap.machine.detect import detect_features, detect_machine, missing_features
from isamap.machine.load import list_machines, load_machine, machine_digest
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

__all__ = [
    "Cost",
    "Emission",
    "EmitArg",
    "EmitCall",
    "EmitNothing",
    "EmitSemantics",
    "Link",
    "Machine",
    "MachineInstruction",
    "Memory",
    "State",
    "Target",
    "Unit",
    "cost_value",
    "detect_features",
    "detect_machine",
    "list_machines",
    "load_machine",
    "machine_digest",
    "missing_features",
]
