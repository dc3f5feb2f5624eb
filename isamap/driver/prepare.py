"""A compilation made ready to run: natively, or as a plain-C model where this processor lacks something."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from isamap.codegen.packing import Packer, compile_packers
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.driver.compiling import Program, compile_program
from isamap.driver.request import Request
from isamap.machine import Machine, load_machine, missing_features
from isamap.source import Diagnostic, MissingTool

RanOn = Literal["native", "model"]


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

    @property
    def ran_on(self) -> RanOn:
        return "model" if self.compiled.model else "native"


def prepare(request: Request, watch: Callable[[str], None] = lambda _: None) -> Prepared:
    """The compiled program. Raises: IsamapError of every kind, MissingTool where there is no compiler."""
    if sys.platform != "linux":
        raise MissingTool(
            Diagnostic("platform-lacks-runner", f"programs are run on Linux; this is {sys.platform}")
        )
    machine = load_machine(request.machine)
    missing = missing_features(machine)
    if missing or machine.target.run != "native":
        request = replace(request, model=True)
    program = compile_program(request, watch)
    watch("build")
    emitted = program.compilation.emitted
    assert emitted is not None
    compiled = compile_library(emitted, machine, request.model)
    packers = compile_packers(emitted, machine, request.model)
    return Prepared(request, program, machine, compiled, missing, packers)
