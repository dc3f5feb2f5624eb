"""Files of words, performed by our own reading of them and compared with the kernel that they are of."""

from __future__ import annotations

from isamap.driver.encoded_programs import program_kernel, verify_program
from isamap.machine import Machine
from isamap.source import Source
from isamap.stream.program_file import read_program


def check_own_reading(data: bytes, source: Source, machine: Machine) -> None:
    """What our own reading of a file computes is what the kernel says."""
    program = read_program(data, "a program")
    case = verify_program(program, machine, program_kernel(program, source), "random")
    assert case.ok, case.problems
