"""Kernels of the language by the clock: matched, scheduled and compiled like any other, then called.

Clocked.of("rows", "kernel rows() { … }", machine).problem  ->  what there is to decide
.compiled(chosen)                                           ->  a library
.calls_ns(library, {"A": …}, 20, limit_s=60)                ->  what each call took
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from isamap.codegen.c import emit_c
from isamap.codegen.child import Limits
from isamap.codegen.runner import RunProblem, run_program
from isamap.codegen.toolchain import Compiled, CompilerRefused, compile_library
from isamap.ir import Kernel, bind
from isamap.lower.lower import lower
from isamap.machine import Machine
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.posing.build import build_problem
from isamap.source import Diagnostic, Infeasible, NoMapping, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

# What costs a calibration one figure, and not all that was measured before. A missing compiler is for all.
CANNOT = (NoMapping, Infeasible, RunProblem, CompilerRefused)


@dataclass(frozen=True, slots=True)
class Clocked:
    """A kernel of fixed sizes on a machine."""

    kernel: Kernel
    machine: Machine
    problem: Problem

    @staticmethod
    def of(name: str, text: str, machine: Machine) -> Clocked:
        """The kernel of a text. Raises: NoMapping where the machine performs it in no way."""
        kernel = make_guards_explicit(bind(parse_kernel(Source(name, text)), {}))
        return Clocked(kernel, machine, build_problem(kernel, machine, {}))

    def compiled(self, chosen: Schedule) -> Compiled:
        """The library of a schedule. Raises: CompilerRefused, MissingTool."""
        return compile_library(
            emit_c(lower(self.kernel, self.machine, chosen, {}), self.machine), self.machine
        )

    def calls_ns(
        self, library: Compiled, arrays: Mapping[str, NDArray[Any]], calls: int, limit_s: float
    ) -> list[float]:
        """What each of some calls took; together they may take `limit_s`.

        Raises: RunProblem where they crash, take longer, or refuse their operands.
        """
        result = run_program(library, arrays, repeat=calls, limits=Limits(limit_s))
        if not result.seconds:
            said = f"the emitted `{self.kernel.name}` returned: {result.meaning}"
            raise RunProblem(Diagnostic("clocked-refused", said))
        return [1e9 * seconds for seconds in result.seconds]
