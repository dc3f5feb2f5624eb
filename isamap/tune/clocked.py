"""Time kernels of the language that are matched, scheduled and compiled like any other.

    Clocked.of("rows", "kernel rows() { … }", machine).problem  ->  the scheduling problem
    .compiled(chosen)                                           ->  a library
    .calls_ns(library, {"A": …}, 20, limit_s=60)                ->  the time of each call

It measures the packing time per element with copies as the planner would make them.

The kernels are texts of the language, so that they use the same moves as scheduling and lowering on this
machine: single elements, interleaved registers, or other instructions.

It measures the time to start a second thread with the thread pool of emitted programs.

Two parts wait for each other, so that each has its own thread. The time includes the wake-up of the second
thread, the meeting of both, and the notification of the caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.emit.c_build import pool_files
from isamap.emit.lanes import emit_code
from isamap.emit.timing_source import FIRST, sampler
from isamap.formulate.build import build_problem
from isamap.ir import Kernel, bind
from isamap.lower.passes import lower
from isamap.machine import Machine
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.schedule import Schedule
from isamap.run.child import ChildLimits
from isamap.run.clocking import Timed
from isamap.run.runner import RunProblem, run_program
from isamap.run.toolchain import Compiled, CompilerRefused, compile_library
from isamap.scheduler.answer import schedule
from isamap.source import Infeasible, NoMapping, Source, dataclass, replace
from isamap.source.numbers import Spread
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit
from isamap.tune.instruction_times import numbers
from isamap.tune.measured_parameters import PackingFigure

# What costs a calibration one figure, and not all that was measured before. A missing compiler is for all.
CANNOT = (NoMapping, Infeasible, RunProblem, CompilerRefused)


@dataclass(frozen=True, slots=True)
class ClockedKernel:
    """A kernel of fixed sizes on a machine."""

    kernel: Kernel
    machine: Machine
    problem: Problem

    @staticmethod
    def of(name: str, text: str, machine: Machine) -> ClockedKernel:
        """Return the kernel of a text. Raises: NoMapping if the machine cannot perform it."""
        kernel = make_guards_explicit(bind(parse_kernel(Source(name, text)), {}))
        return ClockedKernel(kernel, machine, build_problem(kernel, machine, {}))

    def compiled(self, chosen: Schedule) -> Compiled:
        """Return the library of a schedule. Raises: CompilerRefused, MissingTool."""
        return compile_library(
            emit_code(lower(self.kernel, self.machine, chosen, {}), self.machine), self.machine
        )

    def calls_ns(
        self, library: Compiled, arrays: Mapping[str, NDArray[Any]], calls: int, limit_s: float
    ) -> list[float]:
        """Return the times of some calls, which together take at most `limit_s`. Units: nanoseconds.

        Raises: RunProblem if they crash, take longer, or refuse their operands.
        """
        result = run_program(library, arrays, repeat=calls, limits=ChildLimits(limit_s))
        if not result.seconds:
            said = f"the emitted `{self.kernel.name}` returned: {result.meaning}"
            raise RunProblem.of("clocked-refused", said)
        return [1e9 * seconds for seconds in result.seconds]


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
    """A way to copy elements of a type, as a kernel's text."""

    way: str
    dtype: str
    text: str


def copies() -> Iterator[Copy]:
    """Yield all ways of copying, for every type."""
    for way, text in _WAYS.items():
        for dtype in _TYPES:
            body = text.format(t=dtype, m=ROWS, n=COLUMNS)
            kernel = f"kernel packed() {{ in X: {dtype}[{ROWS}, {COLUMNS}]; {body} }}"
            yield Copy(way, dtype, kernel)


def time_copy(copy: Copy, machine: Machine, rng: np.random.Generator) -> PackingFigure | None:
    """Return the copy time per element in ns, or None if no instruction copies this type.

    Raises: Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    try:
        clocked = ClockedKernel.of("packing", copy.text, machine)
    except NoMapping:
        return None
    library = clocked.compiled(schedule(in_whole_blocks(clocked.problem), heuristic="greedy"))
    x, y = clocked.kernel.operand("X"), clocked.kernel.operand("Y")
    shape = tuple(extent.value or 1 for extent in y.shape)
    data = numbers(x.dtype, ROWS * COLUMNS, rng).reshape(ROWS, COLUMNS)
    arrays = {"X": data, "Y": np.zeros(shape, y.dtype.numpy())}
    per_element = [ns / data.size for ns in clocked.calls_ns(library, arrays, CALLS, LIMIT_S)]
    return PackingFigure(copy.way, x.dtype.size_bytes, Spread.of(per_element))


def in_whole_blocks(problem: Problem) -> Problem:
    """Return the problem without mappings that have no whole block.

    Element by element, 64 blocks in a row took gcc 12 more than five minutes (fours of rows of bf16).
    """

    def whole(nest: NestProblem) -> NestProblem:
        kept = tuple(o for o in nest.options if all(axis.extent >= axis.tile for axis in o.axes))
        return replace(nest, options=kept or nest.options)

    return replace(problem, nests=tuple(map(whole, problem.nests)))


FUNCTION = "time_threads"

_BODY = """\
typedef struct { _Atomic int64_t arrived; } meeting;

static void meet(void *argument, int64_t part) {
  meeting *m = argument;
  (void)part;
  int64_t wanted = (atomic_fetch_add(&m->arrived, 1) / 2 + 1) * 2;
  for (int64_t look = 1; atomic_load(&m->arrived) < wanted; ++look)
    if (look % 10000 == 0) sched_yield();
}

void time_threads(unsigned char *const *data, const int64_t *numbers, int64_t trips) {
  (void)data; (void)numbers;
  static isamap_pool *pool;  /* made by the first call, which is not timed; it ends with the process */
  meeting both = {0};
  if (pool == NULL) pool = isamap_pool_create(2);
  if (pool == NULL) return;
  for (int64_t trip = 0; trip < trips; ++trip) pool->parallel_for(pool, 2, meet, &both);
}
"""


def has_two_processors() -> bool:
    """Return whether two threads of this process can run at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1


def thread_files(main: str) -> dict[str, str]:
    """Return the files of a library whose function runs two parts on two threads."""
    includes = ("isamap_pool.c", "sched.h", "stdatomic.h", "stdint.h", "time.h")
    lines = [f'#include "{h}"' if h.endswith(".c") else f"#include <{h}>" for h in includes]
    return {**pool_files(), main: "\n".join([*FIRST, *lines, "", sampler(), _BODY])}


def timed_threads(library: int) -> Timed:
    """Return the timed call of that function. One iteration starts two parts and waits for both."""
    return Timed(library, FUNCTION, (), (), 1.0)
