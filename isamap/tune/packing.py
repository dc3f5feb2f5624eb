"""What packing takes for each element: copies as the planner would make them, compiled and timed.

The kernels are texts of the language, so that the ways are those that scheduling and lowering would take on
this machine: one element after the other, registers that are interleaved, or whatever else moves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isamap.codegen.spread import Spread
from isamap.machine import Machine
from isamap.scheduler.answer import schedule
from isamap.source import NoMapping
from isamap.tune.clocked import Clocked
from isamap.tune.figures import PackingFigure
from isamap.tune.instructions import numbers

ROWS, COLUMNS = 128, 512
CALLS = 200
LIMIT_S = 20  # of all calls

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
    text: str


def copies() -> Iterator[Copy]:
    """Every way for every type."""
    for way, text in _WAYS.items():
        for dtype in _TYPES:
            body = text.format(t=dtype, m=ROWS, n=COLUMNS)
            kernel = f"kernel packed() {{ in X: {dtype}[{ROWS}, {COLUMNS}]; {body} }}"
            yield Copy(way, dtype, kernel)


def time_copy(copy: Copy, machine: Machine, rng: np.random.Generator) -> PackingFigure | None:
    """The ns for each element; None where the machine has nothing that copies this type.

    Raises: Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    try:
        clocked = Clocked.of("packing", copy.text, machine)
    except NoMapping:
        return None
    library = clocked.compiled(schedule(clocked.problem, heuristic="greedy"))
    x, y = clocked.kernel.operand("X"), clocked.kernel.operand("Y")
    shape = tuple(extent.value or 1 for extent in y.shape)
    data = numbers(x.dtype, ROWS * COLUMNS, rng).reshape(ROWS, COLUMNS)
    arrays = {"X": data, "Y": np.zeros(shape, y.dtype.numpy())}
    per_element = [ns / data.size for ns in clocked.calls_ns(library, arrays, CALLS, LIMIT_S)]
    return PackingFigure(copy.way, x.dtype.size_bytes, Spread.of(per_element))
