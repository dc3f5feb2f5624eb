"""Convert a lowered program to a file: lay out arrays, unroll loops, assign tokens, encode commands."""

from __future__ import annotations

from itertools import islice

from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, home_of
from isamap.machine.encodings import ProgramFormat
from isamap.source import UsageProblem
from isamap.stream.encoding import encode_all, encode_end, rename_registers
from isamap.stream.memory_layout import ALIGNMENT, align_up, end_of, lay_out, memory_sizes
from isamap.stream.program_file import ProgramFile
from isamap.stream.tables import lay_out_tables, places_in
from isamap.stream.tokens import assign_tokens
from isamap.stream.unroll import MOST_COMMANDS, unroll


def require_encoding(machine: Machine) -> ProgramFormat:
    """Return the encoding of a machine's programs. Raises: UsageProblem if no description has one."""
    if machine.program is None:
        raise UsageProblem.of(
            "no-encoding",
            f"{machine.name} does not describe the encoding of its instructions",
            help="give it `program: {word_bits: …}` and each instruction an `encoding`, or take another",
        )
    return machine.program


def assemble(
    program: LoweredProgram, machine: Machine, most: int = MOST_COMMANDS, first: int | None = None
) -> ProgramFile:
    """Return the program as encoded instructions, or only the `first` ones. Raises: UsageProblem."""
    encoding = require_encoding(machine)
    arrays, main = lay_out(program, machine), home_of(machine)
    unrolled = list(islice(unroll(program, machine, arrays, most), first))
    commands, last = assign_tokens(rename_registers(unrolled, machine), machine)
    tables = lay_out_tables(commands, machine, main, end_of(arrays, main))
    places = places_in(tables)
    words = [*encoding.begin, *encode_all(commands, machine, places), *encode_end(last, machine)]
    ends = (align_up(t.offset + t.size_bytes, ALIGNMENT) for t in tables)
    return ProgramFile(
        program.kernel.name,
        machine.name,
        machine.digest,
        dict(program.sizes),
        encoding.word_bits,
        len(commands),
        memory_sizes(machine, arrays, max((end_of(arrays, main), *ends))),
        tuple(arrays.values()),
        tuple(words),
        tables,
    )
