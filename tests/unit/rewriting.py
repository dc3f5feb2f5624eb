"""Kernels given as text or by name, and what their rewrites are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.driver.formulation import Questions, choose_form
from isamap.driver.request import Request, complete_sizes
from isamap.driver.stages import Clock
from isamap.ir import Kernel, bind, print_routine
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite, rewrites

Array = NDArray[Any]


def kernel(operands: str, loops: str, params: str = "", word: str = "kernel") -> Kernel:
    return parse_kernel(Source("kernel.ir", f"{word} k({params}) {{ {operands} {loops} }}"))


def shipped(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def chosen_form(request: Request, routine: Kernel) -> Rewrite:
    """Return the form that a request compiles of a kernel, every problem built anew."""
    machine, sizes = load_machine(request.machine), complete_sizes(routine, request.sizes)
    asked = Questions(replace(request, cache=False), machine, sizes, Clock())
    return choose_form(request, routine, machine, sizes, asked.problem, asked.clock)


def steps(routine: Kernel, word: str) -> list[tuple[str, ...]]:
    """Return the steps of all rewrites that contain one of a name."""
    return [r.steps for r in rewrites(routine) if any(s.startswith(word) for s in r.steps)]


def text_after(routine: Kernel, word: str) -> str:
    """Return the first rewrite that contains a step of a name, printed."""
    found = next(r for r in rewrites(routine) if any(s.startswith(word) for s in r.steps))
    return print_routine(found.kernel)


def inputs(routine: Kernel, sizes: dict[str, int]) -> dict[str, Array]:
    """Arrays of small integers."""
    rng = np.random.default_rng(7)
    return {
        o.name: rng.integers(
            0 if o.dtype.kind == "uint" else -2, 3, [int(e.evaluate({})) for e in o.shape]
        ).astype(o.dtype.numpy())
        for o in bind(routine, sizes).operands
        if o.role in ("in", "inout")
    }
