"""Units that have their registers to themselves: copies go through others, by other units, meanwhile.

tdpbf16ps on `tile`, in `tmm`       nothing else computes in `tmm`, and bf16 goes into `zmm` as well: True
fma_zmm_f32 on `fma`, in `zmm`      `shuffle` and `alu` compute in `zmm`, too: False
"""

from __future__ import annotations

from functools import lru_cache

from isamap.ir import DType
from isamap.machine import Machine, MachineInstruction
from isamap.match import Tile


def copied_beside(tile: Tile, dtype: DType, machine: Machine) -> bool:
    """Whether elements are copied by other units than the one that sums, through other registers."""
    return _copies_beside(tile.mapping.instruction, dtype, machine)


@lru_cache(maxsize=4096)
def _copies_beside(instruction: str, dtype: DType, machine: Machine) -> bool:
    own = machine.instructions[instruction]
    files = _registers(own, machine)
    others = [item for item in machine.instructions.values() if item.cost.unit != own.cost.unit]
    alone = all(_reaches_memory(item, machine) for item in others if files & _registers(item, machine))
    return alone and bool(files) and any(_loads(item, dtype, machine) - files for item in others)


def _loads(item: MachineInstruction, dtype: DType, machine: Machine) -> frozenset[str]:
    """Registers into which an instruction brings elements of a type out of memory; none of others."""
    read = [o for o in item.instruction.operands if o.role == "in" and o.dtype == dtype]
    is_load = any(o.memory is not None and o.memory not in _files(machine) for o in read)
    return _registers(item, machine) if is_load else frozenset()


def _reaches_memory(item: MachineInstruction, machine: Machine) -> bool:
    """Whether an instruction loads or stores; the others compute."""
    memories = [o.memory for o in item.instruction.operands]
    return any(memory is not None and memory not in _files(machine) for memory in memories)


def _registers(item: MachineInstruction, machine: Machine) -> frozenset[str]:
    """The register files of an instruction's operands."""
    files = _files(machine)
    return frozenset(files[o.memory] for o in item.instruction.operands if o.memory in files)


@lru_cache(maxsize=32)
def _files(machine: Machine) -> dict[str, str]:
    """The register memories of a machine, each with the one that it is a view of."""
    found: dict[str, str] = {}
    for name, memory in machine.memories.items():
        if memory.kind == "registers":
            base = memory
            while base.base is not None:
                base = machine.memories[base.base]
            found[name] = base.name
    return found
