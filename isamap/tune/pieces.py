"""What beginning a long piece of a row takes that streams from memory: unasked, hinted, swept, and both.

    C[m, n] += A[m, k] * B[k, n], with 64 MiB of B and one row of A

A register block reads up to 2 KB of each row of B, and the next piece lies pages away. Some processors
follow a piece so long from its first lines on, and hints only cost; others begin anew for each. Without a
loop inside, a block reads a line or two of a few rows, and each of its loads goes on with its row in the
next block, for which the next few rows may be hinted as well. All are timed, in turns: what each takes longer
than the model has it without beginnings, shared among what it begins, is what beginning takes. What else the
model errs by is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

import numpy as np

from isamap.ir import F32
from isamap.machine import Machine
from isamap.machine.timings import StreamTimes
from isamap.plan.decisions import block_of, order_of, unroll_of
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.analytic import AnalyticModel
from isamap.scheduler.shares import where_time_goes
from isamap.scheduler.summing import SWEPT
from isamap.source import Infeasible
from isamap.tune.clocked import Clocked
from isamap.tune.figures import PieceFigure, Unmeasured
from isamap.tune.instructions import numbers
from isamap.tune.streams import best_in_place, of_streams

ROWS = 2048  # of B
CALLS, TURNS = 6, 5
LIMIT_S = 60  # of a turn
_TEXT = """
kernel pieces() {{
  in A: f32[1, {k}]; in B: f32[{k}, {n}]; inout C: f32[1, {n}];
  for m in 1, n in {n}, k in {k} {{ C[m, n] += A[m, k] * B[k, n]; }}
}}
"""
_SWEEP = {unroll_of(0, "k"): SWEPT, block_of(0, "k"): SWEPT, unroll_of(0, "n"): 1, order_of(0, "n", "k"): 0}


def piece_figure(
    machine: Machine, sizes: Mapping[str, int], watch: Callable[[str], None], rng: np.random.Generator
) -> PieceFigure | Unmeasured | None:
    """The figure of the memory beyond all caches, or why its products say nothing; None: nothing streams.

    `sizes` are how many bytes of B lie in each memory that was measured. Raises: MissingTool.
    """

    def measure(memory: str, stated: StreamTimes, bytes_there: int) -> PieceFigure:
        n = bytes_there // (F32.size_bytes * ROWS)
        clocked = Clocked.of("pieces", _TEXT.format(n=n, k=ROWS), machine)
        chosen = _chosen(clocked.problem)
        took = _least(clocked, chosen, n, rng)
        bare = without_beginnings(clocked.problem)
        start_ns: dict[str, float] = {}
        for way, one in chosen.items():
            (time,) = where_time_goes(one, bare, AnalyticModel())
            assert time is not None
            pieces = 1 if "swept" in way else ceil(n / _columns(one, n))
            # Of what a long piece takes, a shorter one takes its share.
            short = max(1.0, stated.long_bytes * pieces / (F32.size_bytes * n))
            start_ns[way] = max(0.0, (took[way] - time.total_ns) / (ROWS * pieces) * short)
        swept, both = (start_ns.get(way) for way in ("swept", "hinted, swept"))
        return PieceFigure(memory, start_ns["unasked"], start_ns["hinted"], swept, both)

    return of_streams("long pieces that stream", machine, sizes, watch, measure)


def without_beginnings(problem: Problem) -> Problem:
    """The problem on a machine where beginning a row or a piece of one takes nothing."""
    stated = problem.memory_streams
    assert stated is not None
    streams = replace(
        stated, row_start_ns=0.0, hinted_start_ns=0.0, long_start_ns=0.0, hinted_long_start_ns=0.0,
        swept_start_ns=0.0, hinted_swept_start_ns=0.0, hinted_row_start_ns=0.0,
    )  # fmt: skip
    rows = replace(problem.memory_rows, start_ns=0.0, short_start_ns=0.0, late_line_ns=0.0)
    nests = tuple(
        replace(nest, options=tuple(_with_sweeps(option) for option in nest.options))
        for nest in problem.nests
    )
    return replace(problem, nests=nests, memory_streams=streams, memory_rows=rows)


def _with_sweeps(option: NestOption) -> NestOption:
    return replace(option, operands=tuple(replace(o, swept=o.streams) for o in option.operands))


def _chosen(problem: Problem) -> dict[str, Schedule]:
    """The schedule of each way of reading B. Raises: Infeasible where none reads it in place, or hinted."""
    found: dict[str, Schedule] = {
        "unasked": best_in_place(problem, False, False),
        "hinted": best_in_place(problem, False, True),
    }
    try:
        found["swept"] = best_in_place(problem, False, False, _SWEEP)
        found["hinted, swept"] = best_in_place(problem, False, True, _SWEEP)
    except Infeasible:  # of instructions that take several steps of a sum, a block may not fit
        return found
    return found


def _columns(chosen: Schedule, n: int) -> int:
    """How many columns of B a register block reads."""
    (nest,) = chosen.nests
    swept = [loop.step for loop in nest.loops[: nest.hold] if loop.axis == "n"]
    return swept[-1] if swept else n


def _least(
    clocked: Clocked, chosen: Mapping[str, Schedule], n: int, rng: np.random.Generator
) -> dict[str, float]:
    """The least ns of a call, in turns. Raises: RunProblem, CompilerRefused, MissingTool."""
    arrays = {
        "A": numbers(F32, ROWS, rng).reshape(1, ROWS),
        "B": numbers(F32, ROWS * n, rng).reshape(ROWS, n),
        "C": np.zeros((1, n), np.float32),
    }
    libraries = {way: clocked.compiled(one) for way, one in chosen.items()}
    found: dict[str, float] = {}
    for _ in range(TURNS):  # what else the computer does disturbs all alike
        for way, library in libraries.items():
            ns = min(clocked.calls_ns(library, arrays, CALLS, LIMIT_S))
            found[way] = min(ns, found.get(way, ns))
    return found
