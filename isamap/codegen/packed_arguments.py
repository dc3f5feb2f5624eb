"""Packing before a run: the programs that pack, compiled, and the arrays that a program then takes.

{"A": a, "B": b, "C": c}  ->  {"A": a, "B_packed": the bytes of B in their layout, "C": c}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.codegen.c import EmittedC
from isamap.codegen.c_interface import STATUSES
from isamap.codegen.child import Emulator, Limits, RunProblem
from isamap.codegen.fills import zeros_at_line
from isamap.codegen.runner import InProcess, run_program
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.lower.program import Header, Tensor
from isamap.machine import Machine
from isamap.source import Diagnostic, UsageProblem

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Packer:
    """A program that packs one input: from the kernel's `source` to the program's argument `target`."""

    source: str
    target: Tensor
    compiled: Compiled

    def symbols(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Those of the run-time sizes that it is given."""
        return {name: sizes[name] for name, _, _ in self.compiled.interface.symbols}


def compile_packers(emitted: EmittedC, machine: Machine, model: bool = False) -> tuple[Packer, ...]:
    """The programs that pack what a program takes packed. Raises: as `compile_library`."""
    found: list[Packer] = []
    for pack in emitted.packs:
        target = next(t for t in pack.interface.tensors if t.header is not None)
        source = target.header.source if isinstance(target.header, Header) else target.name
        found.append(Packer(source, target, compile_library(pack, machine, model)))
    return tuple(found)


def packed_arrays(
    packers: tuple[Packer, ...],
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    *,
    guard: bool = False,
    threads: int = 1,
    limits: Limits | None = None,
    emulator: Emulator | None = None,
) -> dict[str, Array]:
    """The arrays with inputs replaced by what packs them, which runs in a child.

    Raises: as `run_program`, and where it writes between rows; UsageProblem when it refuses its arguments.
    """
    found = dict(arrays)
    for packer in packers:
        given = {packer.source: found.pop(packer.source)}
        symbols = packer.symbols(sizes)
        done = run_program(
            packer.compiled, given, symbols, guard=guard, threads=threads, limits=limits, emulator=emulator
        )
        refuse_status(packer.compiled.interface.name, done.status)
        if done.written_between:
            said = f"`{packer.compiled.interface.name}` writes between the rows of `{packer.source}`"
            raise RunProblem(Diagnostic("result-wrong", said))
        found[packer.target.name] = done.arrays[packer.target.name]
    return found


def pack_in_process(packer: Packer, array: Array, sizes: Mapping[str, int], threads: int = 1) -> Array:
    """An input packed in this process, where the machine's description is trusted.

    The result begins at a cache line. Raises: UsageProblem when the array does not fit.
    """
    symbols = packer.symbols(sizes)
    bound = {**dict(packer.compiled.interface.sizes), **symbols}
    count, dtype = int(packer.target.shape[0].evaluate(bound)), packer.target.dtype.numpy()
    packed = zeros_at_line(count, np.dtype(dtype))
    run = InProcess(packer.compiled, threads)
    refuse_status(
        packer.compiled.interface.name, run({packer.source: array, packer.target.name: packed}, symbols)
    )
    return packed


def refuse_status(name: str, status: int) -> None:
    """Nothing for a call that was done. Raises: UsageProblem for another."""
    if status != 0:
        meaning = STATUSES[status][1] if 0 < status < len(STATUSES) else f"status {status}"
        raise UsageProblem(Diagnostic("program-refused", f"`{name}` refused its arguments: {meaning}"))
