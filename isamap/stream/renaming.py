"""Registers named in turn, where there are more than a program names: loads wait for no readers.

    load v0, mac v0, load v0, mac v0   ->   load v0, mac v0, load v1, mac v1

Instructions that share a word are performed in the order of words, so that a load can only come early into a
register that nothing reads meanwhile. Each one that a program names gets others in turn, as far as they go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isamap.ir import Instruction, Operand
from isamap.machine import Machine
from isamap.stream.command import Command, Register, bound_instruction, extents, integers

# A loop of the hardware has as many times the words then; four hide the latency of a load behind products.
MOST_IN_TURN = 4


def renamed(commands: Sequence[Command], machine: Machine) -> list[Command]:
    """The same commands with other registers. Each is written whole before it has a new name."""
    groups = _groups(commands, machine)
    turns = dict.fromkeys(groups, 0)
    found: list[Command] = []
    for command in commands:
        instruction = machine.instructions[command.instruction].instruction
        known = {r: groups[r][turns[r]] for _, r in command.operands if isinstance(r, Register)}
        written = [r for r in _written(command, instruction, machine) if len(groups[r]) > 1]
        for register in written:
            turns[register] = (turns[register] + 1) % len(groups[register])
        new = {r: groups[r][turns[r]] for r in written}
        roles = {o.name: o.role for o in instruction.operands}
        operands = tuple(
            (name, where)
            if not isinstance(where, Register)
            else (name, new.get(where, known[where]) if roles[name] == "out" else known[where])
            for name, where in command.operands
        )
        found.append(replace(command, operands=operands))
    return found


def _groups(commands: Sequence[Command], machine: Machine) -> dict[Register, tuple[Register, ...]]:
    """By register that commands name, those that take turns in its place, itself first."""
    named = {where for c in commands for _, where in c.operands if isinstance(where, Register)}
    viewed = {m.base for m in machine.memories.values()}
    found: dict[Register, tuple[Register, ...]] = {}
    for memory in sorted({r.memory for r in named}):
        own = sorted(r.number for r in named if r.memory == memory)
        count = (
            0 if memory in viewed or machine.memories[memory].base else machine.memories[memory].count or 0
        )
        free = [n for n in range(count) if n not in own]
        more = 1
        while more < MOST_IN_TURN and (2 * more - 1) * len(own) <= len(free):
            more *= 2
        for place, number in enumerate(own):
            others = free[place * (more - 1) : (place + 1) * (more - 1)]
            found[Register(memory, number)] = tuple(Register(memory, n) for n in (number, *others))
    return found


def _written(command: Command, instruction: Instruction, machine: Machine) -> list[Register]:
    """The registers that a command gives all that they hold."""
    bound = bound_instruction(instruction, integers(instruction, command.params))
    where = dict(command.operands)
    found: list[Register] = []
    for operand in bound.operands:
        register = where[operand.name]
        if operand.role == "out" and isinstance(register, Register) and _is_whole(operand, register, machine):
            found.append(register)
    return found


def _is_whole(operand: Operand, register: Register, machine: Machine) -> bool:
    elements = 1
    for extent in extents(operand):
        elements *= extent
    return elements * operand.dtype.size_bytes == machine.memories[register.memory].register_bytes
