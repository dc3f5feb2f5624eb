"""What rows along a sum take that stream from memory, with and without hints about the next ones.

    C[m, n] += A[m, k] * B[n, k], with 64 MiB of B, 4 rows of A and 16

Four products say it: those of 16 rows what computing adds, those of 4 what is left beside it for each row.
Pieces of rows, which lie across a sum, are measured with all others (`rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

import numpy as np

from isamap.codegen.c import emit_c
from isamap.codegen.child import Limits
from isamap.codegen.runner import RunProblem, run_program
from isamap.codegen.toolchain import Compiled, compile_library
from isamap.ir import F32, bind
from isamap.lower.lower import lower
from isamap.machine import Machine
from isamap.machine.timings import StreamTimes
from isamap.plan.build import build_problem
from isamap.plan.decisions import mapping_of, prefetch_of, stage_of
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.analytic import AnalyticModel
from isamap.scheduler.answer import schedule
from isamap.scheduler.fetching import in_rows
from isamap.scheduler.shares import where_time_goes
from isamap.source import Diagnostic, Infeasible, NoMapping, Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit
from isamap.tune.instructions import numbers
from isamap.tune.profile import StreamFigure

K = 2048
FEW, MANY = 4, 16  # rows of A
MOST_BYTES = 64 << 20
LEAST_S, TURNS = 0.05, 6  # of calls in a turn
LIMIT_S = 60  # of a turn
_TEXT = """
kernel streams() {{
  in A: f32[{m}, {k}]; in B: f32[{n}, {k}]; inout C: f32[{m}, {n}];
  for m in {m}, n in {n}, k in {k} {{ C[m, n] += A[m, k] * B[n, k]; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Took:
    """What a product took, and by the model its traffic and what it computes. Units: nanoseconds."""

    ns: float
    traffic_ns: float
    computing_ns: float


def stream_figure(
    machine: Machine, size_bytes: int, watch: Callable[[str], None], rng: np.random.Generator
) -> StreamFigure | None:
    """The figure of the memory beyond all caches; None where no mapping reads rows of B along the sum as they
    stream, or nothing can be hinted of them.

    Raises: CompilerRefused, MissingTool.
    """
    link = next((x for x in machine.links if x.streams is not None), None)
    n = min(size_bytes, MOST_BYTES) // (F32.size_bytes * K)
    if link is None or link.streams is None or not n:
        return None
    watch("rows that stream")
    with suppress(NoMapping, Infeasible, RunProblem):
        return figure_of(link.source_memory, link.streams, n, _measured(machine, n, rng))
    return None


def figure_of(
    memory: str, stated: StreamTimes, rows: int, took: dict[tuple[int, bool], Took]
) -> StreamFigure:
    """What the times of products say, by rows of A and whether rows of B are hinted.

    Raises: Infeasible where more computing takes no longer by the model.
    """
    found: dict[bool, tuple[float, float]] = {}
    for hinted in (False, True):
        few, many = took[FEW, hinted], took[MANY, hinted]
        added_ns = many.computing_ns - few.computing_ns
        if added_ns <= 0:
            raise Infeasible(Diagnostic("streams-without-computing", "more rows take no longer by the model"))
        factor = max(0.0, (many.ns - few.ns) / added_ns)
        left_ns = few.ns - stated.traffic_factor * few.traffic_ns - factor * few.computing_ns
        found[hinted] = (factor, max(0.0, left_ns / rows))
    (factor, start_ns), (hinted_factor, hinted_start_ns) = found[False], found[True]
    return StreamFigure(memory, factor, start_ns, hinted_factor, hinted_start_ns)


def _measured(machine: Machine, n: int, rng: np.random.Generator) -> dict[tuple[int, bool], Took]:
    """The least time of each product, in turns.

    Raises: NoMapping, Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    programs: dict[tuple[int, bool], tuple[Compiled, Took]] = {}
    for m in (FEW, MANY):
        kernel = make_guards_explicit(bind(parse_kernel(Source("streams", _TEXT.format(m=m, n=n, k=K))), {}))
        problem = build_problem(kernel, machine, {})
        for hinted in (False, True):
            chosen = _chosen(problem, hinted)
            compiled = compile_library(emit_c(lower(kernel, machine, chosen, {}), machine), machine)
            programs[m, hinted] = (compiled, _modelled(problem, chosen))
    b = numbers(F32, n * K, rng).reshape(n, K)
    found: dict[tuple[int, bool], Took] = {}
    for _ in range(TURNS):  # what else the computer does disturbs all of them alike
        for (m, hinted), (compiled, modelled) in programs.items():
            arrays = {
                "A": numbers(F32, m * K, rng).reshape(m, K),
                "B": b,
                "C": np.zeros((m, n), np.float32),
            }
            calls = max(2, ceil(LEAST_S / (1e-9 * max(1.0, modelled.ns))))
            result = run_program(compiled, arrays, repeat=calls, limits=Limits(LIMIT_S))
            if not result.seconds:
                raise RunProblem(Diagnostic("streams-refused", f"the emitted `streams`: {result.meaning}"))
            ns = 1e9 * min(result.seconds)
            if (m, hinted) not in found or ns < found[m, hinted].ns:
                found[m, hinted] = Took(ns, modelled.traffic_ns, modelled.computing_ns)
    return found


def _chosen(problem: Problem, hinted: bool) -> Schedule:
    """The best schedule that reads rows of B in place along the sum as they stream, hinted or not.

    Raises: Infeasible where there is none.
    """
    best: Schedule | None = None
    for number, option in enumerate(problem.nests[0].options):
        b = next((o for o in option.operands if o.tensor == "B"), None)
        if b is None or not (b.streams and b.hints and in_rows(option, b)) or b.direct_ns is None:
            continue
        fixed = {mapping_of(0): number, stage_of(0, b.name): 0, prefetch_of(0, b.name): int(hinted)}
        with suppress(Infeasible):
            found = schedule(problem, heuristic="greedy", fixed=fixed)
            if best is None or (found.cost_ns or 0.0) < (best.cost_ns or 0.0):
                best = found
    if best is None:
        raise Infeasible(Diagnostic("streams-in-no-rows", "no mapping reads rows that stream along a sum"))
    return best


def _modelled(problem: Problem, chosen: Schedule) -> Took:
    (time,) = where_time_goes(chosen, problem, AnalyticModel())
    assert time is not None
    assert time.total_ns > 0
    sums = time.sums()
    traffic_ns = [0.0, *(ns for name, ns in sums.items() if name.startswith("from "))][-1]
    return Took(time.total_ns, traffic_ns, sums["issues"] + sums["supply"])
