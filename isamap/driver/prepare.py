"""A compilation made ready to run: natively, under an emulator, or as a plain-C model of its instructions.

The model is for a processor that lacks something where no emulator is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from isamap.codegen.child import Emulator
from isamap.codegen.packed_arguments import Packer, compile_packers
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.driver.compiling import Program, compile_program
from isamap.driver.request import Request
from isamap.machine import Machine, load_machine, missing_features
from isamap.source import Diagnostic, MissingTool

RanOn = Literal["native", "emulator", "model"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program with its library, and those that pack what it takes packed.

    `missing` are the features that made it a model.
    """

    request: Request
    program: Program
    machine: Machine
    compiled: Compiled
    missing: tuple[str, ...]
    packers: tuple[Packer, ...] = ()
    emulator: Emulator | None = None

    @property
    def ran_on(self) -> RanOn:
        if self.compiled.model:
            return "model"
        return "native" if self.emulator is None else "emulator"


def prepare(
    request: Request, watch: Callable[[str], None] = lambda _: None, emulator: Emulator | None = None
) -> Prepared:
    """The compiled program, made for this processor or for the one that an emulator is said to have.

    Raises: IsamapError of every kind, MissingTool where there is no compiler.
    """
    if sys.platform != "linux":
        raise MissingTool(
            Diagnostic("platform-lacks-runner", f"programs are run on Linux; this is {sys.platform}")
        )
    machine = load_machine(request.machine)
    missing = missing_features(machine) if emulator is None else ()
    if is_model(machine, missing, emulator):
        request = replace(request, model=True)
    program = compile_program(request, watch)
    watch("build")
    emitted = program.compilation.emitted
    assert emitted is not None
    compiled = compile_library(emitted, machine, request.model)
    packers = compile_packers(emitted, machine, request.model)
    return Prepared(request, program, machine, compiled, missing, packers, emulator)


def is_model(machine: Machine, missing: tuple[str, ...], emulator: Emulator | None) -> bool:
    """Whether only a plain-C model of a machine can run, on a processor that misses such features."""
    if machine.target.run == "emulator":
        return emulator is None
    return bool(missing) or machine.target.run != "native"
