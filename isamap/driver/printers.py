"""Print lowered programs. `--emit` selects a printer, which the pipeline does not name.

    emit_artifact(program, machine)                 gemm.c, gemm.h
    emit_artifact(program, machine, "program")      gemm-vta.program, its encoded instructions

A printer is a function and a line in the table. It is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from isamap.lower.program import LoweredProgram
from isamap.machine import Machine


class Artifact(Protocol):
    """The printed form of a lowered program."""

    @property
    def name(self) -> str:
        """The name of the program, which prefixes the names of its files."""
        ...

    def files(self) -> Mapping[str, str | bytes]:
        """Return the content of each file by its name."""
        ...


def _print_c(program: LoweredProgram, machine: Machine, model: bool) -> Artifact:
    from isamap.emit.lanes import emit_code

    return emit_code(program, machine, model=model)


def _print_commands(program: LoweredProgram, machine: Machine, _model: bool) -> Artifact:
    from isamap.emit.c import emit_commands

    return emit_commands(program, machine)


def _print_encoded(program: LoweredProgram, machine: Machine, _model: bool) -> Artifact:
    from isamap.stream.assemble import assemble

    return assemble(program, machine)


def _print_kernels(program: LoweredProgram, machine: Machine, _model: bool) -> Artifact:
    from isamap.emit.lanes import print_kernels

    return print_kernels(program, machine)


PRINTERS: Mapping[str, Callable[[LoweredProgram, Machine, bool], Artifact]] = {
    "code": _print_c,
    "program": _print_encoded,
    "commands": _print_commands,
    "kernels": _print_kernels,
}
"""The printer of a program for each value of `--emit`."""


def emit_artifact(
    program: LoweredProgram, machine: Machine, kind: str = "code", *, model: bool = False
) -> Artifact:
    """Return the artifact of a printer. With `model`, C contains the plain-C model of each instruction.

    Raises: UsageProblem for an instruction that the printer cannot express.
    """
    return PRINTERS[kind](program, machine, model)
