"""Measure rows and pieces of rows that stream from memory, with and without prefetch hints.

    C[m, n] += A[m, k] * B[n, k], with 64 MiB of B, 4 rows of A and 16

Four products measure rows along a sum: those with 16 rows show the part of computing that is added, those
with 4 the remaining time of each row. If 16 rows take longer to compute than to load from memory, nothing
streams, and fewer rows are used. Pieces of rows, which lie across a sum, are measured in `row_starts`.

    C[m, n] += A[m, k] * B[k, n], with 64 MiB of B and one row of A

This product measures the start of a long piece: without hints, hinted, swept, and both. A register block
reads up to 2 KB of each row of B, and the next piece is pages away. Some processors follow such a piece
from its first lines on, and hints only cost. Others start anew for each. Without an inner loop, a block
reads a line or two of a few rows, and each of its loads continues with its row in the next block, for which
the next few rows may be hinted as well. All four are timed in alternation. The result is the measured time
minus the model's time without starts, divided by the number of starts; it includes the model's other
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from isamap.ir import F32
from isamap.machine import Machine
from isamap.machine.timings import StreamTimes
from isamap.plan.decisions import block_of, mapping_of, order_of, prefetch_of, stage_of, unroll_of
from isamap.plan.problem import NestOption, Problem, TileOperand, with_fields
from isamap.plan.schedule import Schedule
from isamap.run.toolchain import Compiled
from isamap.scheduler.answer import schedule
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.summing import SWEPT
from isamap.scheduler.effects.table import AnalyticModel
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.source import Infeasible, dataclass, replace
from isamap.tune.clocked import CANNOT, ClockedKernel
from isamap.tune.instruction_times import numbers
from isamap.tune.measured_parameters import PieceFigure, StreamFigure, Unmeasured

T = TypeVar("T")
K = 2048
FEW, MORE = 4, (16, 12, 8)  # rows of A; of more, the first with which B still streams
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
class ProductTime:
    """The measured time of a product, and its modelled traffic and computing time. Units: nanoseconds."""

    ns: float
    traffic_ns: float
    computing_ns: float


def stream_figure(
    machine: Machine, sizes: Mapping[str, int], watch: Callable[[str], None], rng: np.random.Generator
) -> StreamFigure | Unmeasured | None:
    """Return the parameters of streams beyond all caches, the reason for unknown ones, or None without streams.

    `sizes` are the bytes of B in each measured memory. Raises: MissingTool.
    """

    def measure(memory: str, stated: StreamTimes, bytes_there: int) -> StreamFigure:
        rows = bytes_there // (F32.size_bytes * K)
        return figure_of(memory, stated, rows, _measure_products(machine, rows, rng))

    return of_streams("rows that stream", machine, sizes, watch, measure)


def of_streams(
    what: str,
    machine: Machine,
    sizes: Mapping[str, int],
    watch: Callable[[str], None],
    measure: Callable[[str, StreamTimes, int], T],
) -> T | Unmeasured | None:
    """Return a measurement in the memory beyond all caches, the reason for its absence, or None without streams.

    Return None if the machine states no streams for any memory. Raises: MissingTool.
    """
    link = next((x for x in machine.links if x.streams is not None), None)
    if link is None or link.streams is None:
        return None
    watch(what)
    try:
        if link.source_memory not in sizes:
            said = f"it was not measured how fast {link.source_memory} is read"
            raise Infeasible.of("streams-of-nothing", said)
        return measure(link.source_memory, link.streams, min(sizes[link.source_memory], MOST_BYTES))
    except CANNOT as problem:
        why = problem.diagnostics[0].message
        watch(f"{what} are not measured: {why}")
        return Unmeasured(link.source_memory, why)


def figure_of(
    memory: str, stated: StreamTimes, rows: int, took: dict[tuple[int, bool], ProductTime]
) -> StreamFigure:
    """Return the parameters of streams, from the times of products with few and with many rows of A.

    Raises: Infeasible if more computing takes no longer by the model.
    """
    found: dict[bool, tuple[float, float]] = {}
    most = max(m for m, _ in took)
    for hinted in (False, True):
        few, many = took[FEW, hinted], took[most, hinted]
        added_ns = many.computing_ns - few.computing_ns
        if added_ns <= 0:
            raise Infeasible.of("streams-without-computing", "more rows take no longer by the model")
        factor = max(0.0, (many.ns - few.ns) / added_ns)
        left_ns = few.ns - stated.traffic_factor * few.traffic_ns - factor * few.computing_ns
        found[hinted] = (factor, max(0.0, left_ns / rows))
    (factor, start_ns), (hinted_factor, hinted_start_ns) = found[False], found[True]
    return StreamFigure(memory, factor, start_ns, hinted_factor, hinted_start_ns)


def _measure_products(
    machine: Machine, n: int, rng: np.random.Generator
) -> dict[tuple[int, bool], ProductTime]:
    """Return the least time of each product, measured in alternation.

    Raises: NoMapping, Infeasible, RunProblem, CompilerRefused, MissingTool.
    """
    programs: dict[tuple[int, bool], tuple[ClockedKernel, Compiled, ProductTime]] = {}
    arrays: dict[int, dict[str, NDArray[Any]]] = {}
    b = numbers(F32, n * K, rng).reshape(n, K)
    asked = {FEW: ClockedKernel.of("streams", _TEXT.format(m=FEW, n=n, k=K), machine)}
    best_in_place(asked[FEW].problem, True, False)  # where nothing reads them, that is the reason to tell
    for m in MORE:
        more = ClockedKernel.of("streams", _TEXT.format(m=m, n=n, k=K), machine)
        if _find_streamed(more.problem, True):
            asked[m] = more
            break
    else:
        rows = f"{MORE[-1]} rows take longer to compute than to come from memory"
        raise Infeasible.of("streams-none", rows)
    for m, clocked in asked.items():
        a = numbers(F32, m * K, rng).reshape(m, K)
        arrays[m] = {"A": a, "B": b, "C": np.zeros((m, n), np.float32)}
        for hinted in (False, True):
            chosen = best_in_place(clocked.problem, True, hinted)
            programs[m, hinted] = (clocked, clocked.compiled(chosen), _predict_times(clocked.problem, chosen))
    found: dict[tuple[int, bool], ProductTime] = {}
    for _ in range(TURNS):  # what else the computer does disturbs all of them alike
        for (m, hinted), (clocked, library, modelled) in programs.items():
            calls = max(2, ceil(LEAST_S / (1e-9 * max(1.0, modelled.ns))))
            ns = min(clocked.calls_ns(library, arrays[m], calls, LIMIT_S))
            if (m, hinted) not in found or ns < found[m, hinted].ns:
                found[m, hinted] = ProductTime(ns, modelled.traffic_ns, modelled.computing_ns)
    return found


def best_in_place(
    problem: Problem, along_sum: bool, hinted: bool, fixed: Mapping[str, int] | None = None
) -> Schedule:
    """Return the best schedule that streams B in place: rows along the sum, or pieces across it.

    `fixed` are other decisions. Raises: Infeasible if there is none.
    """
    best: Schedule | None = None
    for number, b in _find_streamed(problem, along_sum):
        asked = 0 if not hinted else 1 if along_sum else len(b.prefetching.hints)
        in_place = {mapping_of(0): number, stage_of(0, b.name): 0, prefetch_of(0, b.name): asked}
        with suppress(Infeasible):
            found = schedule(problem, heuristic="greedy", fixed={**in_place, **(fixed or {})})
            if best is None or (found.cost_ns or 0.0) < (best.cost_ns or 0.0):
                best = found
    if best is None:
        raise Infeasible.of("streams-not-in-place", _why_none(problem, along_sum))
    return best


def _why_none(problem: Problem, along_sum: bool) -> str:
    """Return why no schedule streams B in place."""
    read = [b for _, b in _in_place(problem, along_sum)]
    if not read:
        return f"no mapping reads {'rows along the sum' if along_sum else 'pieces of rows'} in place"
    if not any(b.prefetching.is_streamed for b in read):
        return "a cache holds them, or they take longer to compute than to load"
    return (
        "no schedule reads them in place"
        if any(b.prefetching.hints for b in read)
        else "no hints exist for them"
    )


def _find_streamed(problem: Problem, along_sum: bool) -> list[tuple[int, TileOperand]]:
    """Return the options, by number, that stream B in place and can have hints for it."""
    return [
        (number, b)
        for number, b in _in_place(problem, along_sum)
        if b.prefetching.is_streamed and b.prefetching.hints
    ]


def _in_place(problem: Problem, along_sum: bool) -> list[tuple[int, TileOperand]]:
    """Return the options, by number, that read B in place: rows along the sum, or pieces across it."""
    return [
        (number, b)
        for number, option in enumerate(problem.nests[0].options)
        for b in option.operands
        if b.tensor == "B" and b.costs.direct_ns is not None and in_rows(option, b) == along_sum
    ]


def _predict_times(problem: Problem, chosen: Schedule) -> ProductTime:
    (time,) = where_time_goes(chosen, problem, AnalyticModel())
    assert time is not None
    assert time.total_ns > 0
    sums = time.sums()
    traffic_ns = [0.0, *(ns for name, ns in sums.items() if name.startswith("from "))][-1]
    return ProductTime(time.total_ns, traffic_ns, sums["issues"] + sums["operand loads"])


ROWS = 2048  # of B
CALLS, PIECE_TURNS = 6, 5
_PIECES = """
kernel pieces() {{
  in A: f32[1, {k}]; in B: f32[{k}, {n}]; inout C: f32[1, {n}];
  for m in 1, n in {n}, k in {k} {{ C[m, n] += A[m, k] * B[k, n]; }}
}}
"""
_SWEEP = {unroll_of(0, "k"): SWEPT, block_of(0, "k"): SWEPT, unroll_of(0, "n"): 1, order_of(0, "n", "k"): 0}


def piece_figure(
    machine: Machine, sizes: Mapping[str, int], watch: Callable[[str], None], rng: np.random.Generator
) -> PieceFigure | Unmeasured | None:
    """Return the parameters of long pieces beyond all caches, the reason for unknown ones, or None without streams.

    `sizes` are the bytes of B in each measured memory. Raises: MissingTool.
    """

    def measure(memory: str, stated: StreamTimes, bytes_there: int) -> PieceFigure:
        n = bytes_there // (F32.size_bytes * ROWS)
        clocked = ClockedKernel.of("pieces", _PIECES.format(n=n, k=ROWS), machine)
        chosen = _schedule_each(clocked.problem)
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
    """Return the problem for a machine on which the start of a row takes no time."""
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
    return replace(
        option, operands=tuple(with_fields(o, is_swept=o.prefetching.is_streamed) for o in option.operands)
    )


def _schedule_each(problem: Problem) -> dict[str, Schedule]:
    """Return a schedule for each way to read B. Raises: Infeasible if none reads it in place, or none with hints."""
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
    """Return the number of columns of B in a register block."""
    (nest,) = chosen.nests
    swept = [loop.step for loop in nest.loops[: nest.hold] if loop.axis == "n"]
    return swept[-1] if swept else n


def _least(
    clocked: ClockedKernel, chosen: Mapping[str, Schedule], n: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the least time of a call in ns, for schedules in alternation. Raises: RunProblem, CompilerRefused."""
    arrays = {
        "A": numbers(F32, ROWS, rng).reshape(1, ROWS),
        "B": numbers(F32, ROWS * n, rng).reshape(ROWS, n),
        "C": np.zeros((1, n), np.float32),
    }
    libraries = {way: clocked.compiled(one) for way, one in chosen.items()}
    found: dict[str, float] = {}
    for _ in range(PIECE_TURNS):  # what else the computer does disturbs all alike
        for way, library in libraries.items():
            ns = min(clocked.calls_ns(library, arrays, CALLS, LIMIT_S))
            found[way] = min(ns, found.get(way, ns))
    return found
