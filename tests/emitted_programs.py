"""Emitted programs run on drawn arrays, and held against the interpreter of their kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isamap.driver.pipeline import Compilation
from isamap.emit.c import EmittedC, emit_c
from isamap.ir import bind, interpret
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel


def check_emitted(made: Compilation, kernel: Source, sizes: Mapping[str, int]) -> None:
    """What the C of a compilation computes is what the kernel says."""
    assert made.program
    assert made.machine
    rng = np.random.default_rng(1)
    bound = bind(parse_kernel(kernel), sizes)
    arrays = {
        o.name: rng.integers(-100, 100, tuple(s.value or 1 for s in o.shape)).astype(o.dtype.numpy())
        for o in bound.operands
        if o.role != "temp"
    }
    emitted = made.emitted if isinstance(made.emitted, EmittedC) else emit_c(made.program, made.machine)
    library = compile_library(emitted, made.machine)
    result = run_program(library, arrays, {}, guard=True)
    assert result.status == 0, result.meaning
    for name, values in interpret(bound, arrays, {}).items():
        assert np.array_equal(result.arrays[name], values)
