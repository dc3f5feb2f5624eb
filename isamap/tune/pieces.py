"""What beginning a long piece of a row takes that streams from memory, where nobody asks for it early.

    C[m, n] += A[m, k] * B[k, n], with 64 MiB of B and one row of A

A register block reads up to 2 KB of each row of B, and the next piece lies pages away. Some processors
follow a piece so long from its first lines on, and hints only cost; others begin anew for each. Both are
timed, with hints and without: what it takes longer without them, and what a hinted piece is stated to take,
is what beginning takes. What the model has of computing beside streams, and the hints' own time, differ a
little between the two as well, and are left in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np

from isamap.ir import F32
from isamap.machine import Machine
from isamap.machine.timings import StreamTimes
from isamap.plan.schedule import Schedule
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


def piece_figure(
    machine: Machine, sizes: Mapping[str, int], watch: Callable[[str], None], rng: np.random.Generator
) -> PieceFigure | Unmeasured | None:
    """The figure of the memory beyond all caches, or why its products say nothing; None: nothing streams.

    `sizes` are how many bytes of B lie in each memory that was measured. Raises: MissingTool.
    """

    def measure(memory: str, stated: StreamTimes, bytes_there: int) -> PieceFigure:
        n = bytes_there // (F32.size_bytes * ROWS)
        clocked = Clocked.of("pieces", _TEXT.format(n=n, k=ROWS), machine)
        chosen = {hinted: best_in_place(clocked.problem, False, hinted) for hinted in (False, True)}
        count = {hinted: ROWS * ceil(n / _columns(one, n)) for hinted, one in chosen.items()}
        took = _least(clocked, chosen, n, rng)
        start_ns = (took[False] - took[True] + stated.hinted_start_ns * count[True]) / count[False]
        # Of what a long piece takes, a shorter one takes its share.
        short = max(1.0, stated.long_bytes * count[False] / (F32.size_bytes * n * ROWS))
        return PieceFigure(memory, max(0.0, start_ns * short))

    return of_streams("long pieces that stream", machine, sizes, watch, measure)


def _columns(chosen: Schedule, n: int) -> int:
    """How many columns of B a register block reads."""
    (nest,) = chosen.nests
    swept = [loop.step for loop in nest.loops[: nest.hold] if loop.axis == "n"]
    return swept[-1] if swept else n


def _least(
    clocked: Clocked, chosen: dict[bool, Schedule], n: int, rng: np.random.Generator
) -> dict[bool, float]:
    """The least ns of a call, in turns. Raises: RunProblem, CompilerRefused, MissingTool."""
    arrays = {
        "A": numbers(F32, ROWS, rng).reshape(1, ROWS),
        "B": numbers(F32, ROWS * n, rng).reshape(ROWS, n),
        "C": np.zeros((1, n), np.float32),
    }
    libraries = {hinted: clocked.compiled(one) for hinted, one in chosen.items()}
    found: dict[bool, float] = {}
    for _ in range(TURNS):  # what else the computer does disturbs both alike
        for hinted, library in libraries.items():
            ns = min(clocked.calls_ns(library, arrays, CALLS, LIMIT_S))
            found[hinted] = min(ns, found.get(hinted, ns))
    return found
