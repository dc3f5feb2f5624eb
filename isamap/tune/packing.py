"""What packing takes for each element: copies as the planner would make them, compiled and timed.

The kernels are texts of the language, so that the ways are those that scheduling and lowering would take on
this machine: one element after the other, registers that are interleaved, or whatever else moves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isamap.codegen.c import emit_c
from isamap.codegen.child import Limits
from isamap.codegen.runner import run_program
from isamap.codegen.spread import Spread
from isamap.codegen.toolchain import compile_library
from isamap.ir import bind
from isamap.lower.lower import lower
from isamap.machine import Machine
from isamap.plan.build import build_problem
from isamap.scheduler.answer import schedule
from isamap.source import NoMapping, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit
from isamap.tune.instructions import numbers
from isamap.tune.profile import PackingFigure

ROWS, COLUMNS = 128, 512
CALLS = 200

_INTERLEAVED = (
    "out Y: {t}[{m} / GROUP, {n}, GROUP]; "
    "for i in {m} / GROUP, j in {n}, p in GROUP {{ Y[i, j, p] = X[GROUP*i + p, j]; }}"
)
_WAYS = {
    "rows": "out Y: {t}[{m}, {n}]; for i in {m}, j in {n} {{ Y[i, j] = X[i, j]; }}",
    "transposed": "out Y: {t}[{n}, {m}]; for i in {m}, j in {n} {{ Y[j, i] = X[i, j]; }}",
    "pairs of rows": _INTERLEAVED.replace("GROUP", "2"),
    "fours of rows": _INTERLEAVED.replace("GROUP", "4"),
}
_TYPES = ("f32", "bf16", "i8")


@dataclass(frozen=True, slots=True)
class Copy:
    """A way of copying elements of a type, as a kernel's text."""

    way: str
    dtype: str
    source: Source


def copies() -> Iterator[Copy]:
    """Every way for every type."""
    for way, text in _WAYS.items():
        for dtype in _TYPES:
            body = text.format(t=dtype, m=ROWS, n=COLUMNS)
            kernel = f"kernel packed() {{ in X: {dtype}[{ROWS}, {COLUMNS}]; {body} }}"
            yield Copy(way, dtype, Source("packing", kernel))


def time_copy(copy: Copy, machine: Machine, rng: np.random.Generator) -> PackingFigure | None:
    """The ns for each element; None where the machine has nothing that copies this type.

    Raises: RunProblem, CompilerRefused, MissingTool.
    """
    kernel = make_guards_explicit(bind(parse_kernel(copy.source), {}))
    try:
        problem = build_problem(kernel, machine, {})
    except NoMapping:
        return None
    chosen = schedule(problem, heuristic="greedy")
    emitted = emit_c(lower(kernel, machine, chosen, {}), machine)
    x, y = kernel.operand("X"), kernel.operand("Y")
    shape = tuple(extent.value or 1 for extent in y.shape)
    data = numbers(x.dtype, ROWS * COLUMNS, rng).reshape(ROWS, COLUMNS)
    arrays = {"X": data, "Y": np.zeros(shape, y.dtype.numpy())}
    result = run_program(compile_library(emitted, machine), arrays, repeat=CALLS, limits=Limits(20))
    per_element = [1e9 * seconds / data.size for seconds in result.seconds]
    return PackingFigure(copy.way, x.dtype.size_bytes, Spread.of(per_element))
