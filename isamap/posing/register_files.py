"""Registers that are parts or groups of others: what one of them takes of the file that it lies on.

POWER10's accumulators are groups of four vector registers: `ger` with eight of them leaves no register of 32
for its inputs. Where all operands of a mapping name registers of one size, their number alone counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isamap.machine import Machine
from isamap.plan.problem import TileOperand


def sharing_files(operands: Sequence[TileOperand], machine: Machine) -> tuple[TileOperand, ...]:
    """The operands; those that share a file of registers under different names say what they take of it."""
    names = {operand.memory for operand in operands if operand.registers}
    files = {name: _file_of(name, machine) for name in names}
    return tuple(
        replace(operand, over=tuple((file, operand.registers * each) for file, each in files[operand.memory]))
        if operand.registers and _is_shared(operand.memory, names, files)
        else operand
        for operand in operands
    )


_Files = dict[str, list[tuple[str, int]]]


def _is_shared(name: str, names: set[str], files: _Files) -> bool:
    """Whether another operand's registers are, or lie on, those that these lie on."""
    mine = {file for file, _ in files[name]}
    return any(other != name and mine & {other, *(file for file, _ in files[other])} for other in names)


def _file_of(name: str, machine: Machine) -> list[tuple[str, int]]:
    """The memory that a view lies on, and how many registers of it one takes; none where one register holds
    several, or where sizes are not stated.
    """
    memory = machine.memories.get(name)
    if memory is None or memory.kind != "registers" or memory.base is None:
        return []
    base = machine.memories[memory.base]
    while base.base is not None:
        base = machine.memories[base.base]
    known = memory.count, base.count, memory.register_bytes, base.register_bytes
    if None in known or (memory.count or 0) > (base.count or 0):
        return []
    return [(base.name, -(-(memory.register_bytes or 0) // (base.register_bytes or 1)))]
