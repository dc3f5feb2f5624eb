"""List a program as text, decoded from its words, with one line for each instruction.

3  mvin    x=A+0 z=a_tiles0+0 R=16 C=16   # dram[0x40] rows 40 apart, spad[0x0] rows 16 apart
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from isamap.ir import Instruction
from isamap.machine import Machine
from isamap.machine.encodings import free_axes
from isamap.stream.command import Address, Command, Register
from isamap.stream.encoding import END, Run, decode_end, runs_of
from isamap.stream.memory_layout import StreamArray
from isamap.stream.program_file import ProgramFile
from isamap.stream.tables import contents_of

MOST_TEXT = 44
"""Longer lines do not move the comments of all others."""


def list_program(program: ProgramFile, machine: Machine) -> str:
    """Return the listing of a program. Raises: VerificationFailed if a word is not an instruction."""
    runs, placed = runs_of(program.words, machine, contents_of(program.tables))
    sizes = ", ".join(f"{name} = {value}" for name, value in program.sizes.items())
    head = [
        f"# isamap listing: {program.kernel} on {program.machine}, {sizes}",
        f"# {len(placed)} instructions in {len(program.words)} words of {program.word_bits} bits",
        *(f"# {name}: {size} bytes" for name, size in program.memories.items()),
        *(f"# {_describe_array(array)}" for array in program.arrays),
        *(
            f"# {t.name}: {len(t.entries)} entries of {t.entry_bits} bits at {t.memory}[{t.offset:#x}]"
            for t in program.tables
        ),
    ]
    begun = len(machine.program.begin) if machine.program is not None else 0
    rows = [("0", "begin", " ".join(_hex(w, program.word_bits) for w in program.words[:begun]), "")]
    if runs is None:
        rows += [(str(one.at), *_show_command(one.command, program.arrays, machine)) for one in placed]
    for run in runs or ():
        rows += _run_rows(run, program.arrays, machine)
    rows = rows[0 if begun else 1 :]
    if (end := decode_end(program.words, machine)) is not None:
        rows.append((str(end.at), END, " ".join(_tokens(end.command)), ""))
    at, name, text = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    text = min(text, MOST_TEXT)
    lines = [f"{row[0]:>{at}}  {row[1]:{name}}  {row[2]:{text}}  {row[3]}".rstrip() for row in rows]
    return "\n".join((*head, "", *lines)) + "\n"


def _describe_array(array: StreamArray) -> str:
    shape = ", ".join(map(str, array.shape))
    return f"{array.name}: {array.role} {array.dtype.name}[{shape}] at {array.memory}[{array.offset:#x}]"


def _hex(word: int, bits: int) -> str:
    return f"{word:0{-(-bits // 4)}x}"


_Row = tuple[str, str, str, str]
"""The number of a word, an instruction, its operands, and a comment."""


def _run_rows(run: Run, arrays: Sequence[StreamArray], machine: Machine) -> list[_Row]:
    """Return the rows of bundle words. `|` marks instructions in the same word as the row above."""
    rows: list[_Row] = []
    looped = run.trips > 1
    if looped:
        rows.append((str(run.at - 1), "loop", f"{run.trips} times {len(run.body)} words", ""))
    for at, commands in enumerate(run.body, run.at):
        for number, one in enumerate(commands):
            name, text, comment = _show_command(one.command, arrays, machine, dict(one.steps))
            rows.append(("|" if number else str(at), "  " * looped + name, text, comment))
    return rows


def _show_command(
    command: Command,
    arrays: Sequence[StreamArray],
    machine: Machine,
    steps: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, str, str]:
    """Return a command as text: its name, its operands and parameters, and its addresses as a comment."""
    instruction = machine.instructions[command.instruction].instruction
    words: list[str] = []
    places: list[str] = []
    for name, where in command.operands:
        match where:
            case Register(memory, number):
                words.append(f"{name}={memory}{number}")
            case Address(memory, address, strides):
                words.append(f"{name}={_name_place(where, arrays)}")
                free = free_axes(instruction.operand(name))
                shown = [strides[axis] for axis in free] if len(free) > 1 else strides[:-1][:1]
                apart = f" by {', '.join(map(str, shown))}" if shown else ""
                apart += f" step {steps[name]}" if name in steps else ""
                places.append(f"{name} {memory}[{address:#x}]{apart}")
    words += [f"{name}={_value(name, value, instruction)}" for name, value in command.params]
    words += _tokens(command)
    return command.instruction, " ".join(words), f"# {', '.join(places)}" if places else ""


def _tokens(command: Command) -> list[str]:
    """Return text about the tokens that a command waits for, and those that it pushes when it is done."""
    signs = {"pop": "<", "push": ">"}
    return [f"{signs[kind]}{unit}" for kind, unit in sorted(command.tokens)]


def _name_place(place: Address, arrays: Sequence[StreamArray]) -> str:
    for array in arrays:
        inside = place.address - array.offset
        if array.memory == place.memory and 0 <= inside < array.size_bytes:
            return f"{array.name}+{inside}"
    return f"{place.memory}+{place.address}"


def _value(name: str, value: int, instruction: Instruction) -> str:
    return str(value) if instruction.param(name).dtype is None else hex(value)
