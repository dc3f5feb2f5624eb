"""How long scheduling takes as problems grow: in axes, in levels of cache, in mappings to choose from.

python benchmarks/scheduling_growth.py --output scheduling-growth.txt

Each row changes one number of the same problem: a contraction of two arrays on vectors of 16 with 32
registers and three levels of cache. `greedy` and `solver` are seconds of wall clock, processor time in
brackets, that of the solver's process not counted; the solver starts from what greedy found.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from plan_problems import LOOPS, MEMORY_ROWS, TLB, tile_operand  # noqa: E402 - the path has to be set first

from isamap.machine.timings import RowTimes  # noqa: E402 - as above
from isamap.plan.problem import (  # noqa: E402 - as above
    Cache,
    NestOption,
    NestProblem,
    Problem,
    TileAxis,
    TileOperand,
    with_fields,
)
from isamap.scheduler import schedule  # noqa: E402 - as above

LIMIT_S = 10.0
ELEMENTS = 1 << 27  # of iterations, dealt to the axes
LEVELS = (
    Cache("l1", 48 << 10, 400.0, 12, line_bytes=64),
    Cache("l2", 1 << 20, 170.0, 16, line_bytes=64, rows=RowTimes(0.7)),
    Cache("l3", 32 << 20, 60.0, 16, line_bytes=64, rows=RowTimes(2.0, again_ns=12.0)),
    Cache("l4", 256 << 20, 30.0, 16, line_bytes=64, rows=RowTimes(2.0)),
)
FAR = replace(MEMORY_ROWS, again_ns=12.0)
ROLES = ("m", "n", "k")  # rows, columns, summed: further axes take turns


def main() -> None:
    """A line per problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--most-mappings", type=int, default=100)
    options = parser.parse_args()
    head = (
        f"{'axes':>5} {'levels':>6} {'mappings':>8} {'greedy s':>14} {'solver s':>14} {'gap':>8} greedy/best"
    )
    lines = [f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, limit {LIMIT_S:g} s", head]
    print("\n".join(lines), flush=True)
    schedule(contraction(3, 3, 1))  # imports, and the solver's process
    for axes, levels, mappings in _rows(options.most_mappings):
        lines.append(_line(axes, levels, mappings))
        print(lines[-1], flush=True)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rows(most: int) -> Iterator[tuple[int, int, int]]:
    yield from ((axes, 3, 1) for axes in range(2, 9))
    yield from ((3, levels, 1) for levels in range(1, 5))
    yield from ((5, levels, 1) for levels in range(1, 5))
    yield from ((3, 3, mappings) for mappings in (1, 3, 10, 30, 100) if mappings <= most)
    yield from ((6, 3, mappings) for mappings in (1, 3, 10, 30, 100) if mappings <= most)


def contraction(axes: int, levels: int, mappings: int) -> Problem:
    """C[m…, n…] += A[m…, k…] · B[k…, n…] with so many axes in all, by so many instructions that differ."""
    extent = round(ELEMENTS ** (1 / axes))
    named = [(f"{ROLES[i % 3]}{i // 3}", ROLES[i % 3]) for i in range(axes)]
    if axes == 2:
        named = [("m0", "m"), ("k0", "k")]
    options = tuple(_option(named, extent, 16 >> (number % 3), number) for number in range(mappings))
    sizes = tuple(sorted((name, extent) for name, _ in named))
    registers = (("zmm", 32),)
    nests = (NestProblem(0, options),)
    made = Problem("k", "m", sizes, nests, registers, LEVELS[:levels], 20.0, memory_rows=FAR)
    return replace(made, tlb=TLB, loops=LOOPS)


def _option(named: list[tuple[str, str]], extent: int, vector: int, number: int) -> NestOption:
    """Return an instruction on vectors along one axis; each further one is slower, or runs along another."""
    along = [name for name, role in named if role in ("n", "m")]
    lanes = along[::-1][number // 3 % len(along)]
    axes = tuple(TileAxis(name, extent, vector if name == lanes else 1, role == "k") for name, role in named)
    operands: list[TileOperand] = []
    for name, tensor, roles in (("a", "A", "mk"), ("b", "B", "kn"), ("c", "C", "mn")):
        own = tuple(axis for axis, role in named if role in roles)
        tile = vector if lanes in own else 1
        is_held = name == "c"
        direct = 0.42 if is_held else 0.14
        operand = tile_operand(name, tensor, own, "zmm", tile, direct, direct, is_accumulator=is_held)
        if own:
            operand = with_fields(operand, dense_axis=own[-1], pitch_bytes=4 * extent)
        operands.append(operand)
    slower = 1 + 0.02 * (number // 9)
    return NestOption(f"fma{number}", (), axes, tuple(operands), 0.14 * slower, 1.1)


def _line(axes: int, levels: int, mappings: int) -> str:
    problem = contraction(axes, levels, mappings)
    start = _clocks()
    first = schedule(problem, heuristic="greedy")
    middle = _clocks()
    found = schedule(problem, limit_s=LIMIT_S)
    end = _clocks()
    assert first.cost_ns is not None
    assert found.cost_ns is not None
    assert found.gap is not None
    times = [f"{b[0] - a[0]:.2f} ({b[1] - a[1]:.2f})" for a, b in ((start, middle), (middle, end))]
    ratio = first.cost_ns / found.cost_ns
    return (
        f"{axes:5} {levels:6} {mappings:8} {times[0]:>14} {times[1]:>14} {100 * found.gap:6.2f} % "
        f"{ratio:11.3f} {found.status}"
    )


def _clocks() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
