"""A lowered program as a file's content: arrays laid out, loops unrolled, each command encoded."""

from __future__ import annotations

from itertools import islice

from isamap.lower.program import LoweredProgram
from isamap.machine import Machine
from isamap.source import Diagnostic, UsageProblem
from isamap.stream.layout import lay_out, memory_sizes
from isamap.stream.program_file import ProgramFile
from isamap.stream.unroll import MOST_COMMANDS, unroll
from isamap.stream.words import encode


def assemble(
    program: LoweredProgram, machine: Machine, most: int = MOST_COMMANDS, first: int | None = None
) -> ProgramFile:
    """The program in words, or its `first` instructions. Raises: UsageProblem for what words do not say."""
    if machine.program is None:
        raise UsageProblem(
            Diagnostic(
                "no-encoding",
                f"{machine.name} does not say how its instructions are words",
                help="give it `program: {word_bits: …}` and each instruction an `encoding`, or take another",
            )
        )
    arrays = lay_out(program, machine)
    words = list(machine.program.begin)
    count = 0
    for command in islice(unroll(program, machine, arrays, most), first):
        words += encode(command, machine.instructions[command.instruction])
        count += 1
    return ProgramFile(
        program.kernel.name,
        machine.name,
        machine.digest,
        dict(program.sizes),
        machine.program.word_bits,
        count,
        memory_sizes(machine, arrays),
        tuple(arrays.values()),
        tuple(words),
    )
