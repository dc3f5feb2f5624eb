"""How long banks of scratchpads are busy with what is moved and computed, all banks of a memory together.

    stream: i8[M, 32] of `spad`, whose banks give 32 bytes a cycle together: busy for M cycles

Bytes are taken to lie evenly in all banks. Where it errs: accesses at the same time that meet in one bank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from isamap.ir import Operand
from isamap.machine import Machine, MachineInstruction, cost_params
from isamap.machine.banks import banks_of


def bank_ns(machine: Machine, instruction: str, params: Mapping[str, int]) -> dict[str, float]:
    """By memory how long one issue keeps all its banks busy. Units: nanoseconds."""
    item = machine.instructions[instruction]
    numbers = cost_params(item, machine, params)
    return _busy(
        machine, item, lambda o: (1 + (o.role == "inout")) * prod(e.evaluate(numbers) for e in o.shape)
    )


def moved_bank_ns(machine: Machine, instruction: str, elements: int) -> dict[str, float]:
    """The same of an instruction that moves so many elements by as many issues as it takes."""
    return _busy(machine, machine.instructions[instruction], lambda _: elements)


def _busy(machine: Machine, item: MachineInstruction, touched: Callable[[Operand], int]) -> dict[str, float]:
    found = dict[str, float]()
    for operand in item.instruction.operands:
        banks = banks_of(machine.memories[operand.memory], machine.clock_ghz) if operand.memory else None
        if banks is not None:
            ns = touched(operand) * operand.dtype.size_bytes / banks.together_per_ns
            found[banks.memory] = found.get(banks.memory, 0.0) + ns
    return found
