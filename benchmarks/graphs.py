"""Graphs without fusion, by the greedy rule, and as CP-SAT parts them: predicted, and measured in turns.

    python benchmarks/graphs.py                                    the networks of small_graphs.py
    python benchmarks/graphs.py vad.onnx -D batch=1 -D sequence=576 --constant sr=16000

Times are processor time of the calling thread, the least of all turns, and results are compared. Two plans
that are the same program are measured once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from models import drawn, in_turns, pairs
from small_graphs import NETWORKS

from isamap.graph.graph_file import constants_of
from isamap.graph.model_library import ModelOptions, compile_program_of, partition_of
from isamap.graph.partition import METHODS
from isamap.onnx import CompiledModel, import_model

REPEATS = 20
"""Calls between two looks at the clock."""


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    """Several calls as one."""

    def calls() -> None:
        for _ in range(REPEATS):
            call()

    return calls


def row(path: Path, given: argparse.Namespace) -> tuple[str, float, float]:
    """Return a row of the table, and how much longer no fusion and the greedy rule take."""
    constants = constants_of(pairs(given.constant))
    sizes = {name: int(size) for name, size in pairs(given.sizes).items()}
    how = ModelOptions(given.hw, "greedy", given.limit)
    cpsat = partition_of("cpsat", how)
    started = time.process_time()
    programs: dict[str, Any] = {}
    for method in reversed(METHODS):
        part = cpsat if method == "cpsat" else partition_of(method, how)
        part.prices.known = cpsat.prices.known
        programs[method] = import_model(path, sizes=sizes, constants=constants, fuse=part).whole()
    spent = time.process_time() - started
    made = {m: CompiledModel(compile_program_of(p, how, runs=True)) for m, p in programs.items()}
    rng = np.random.default_rng(0)
    inputs = {n: drawn(rng, dtype, shape) for n, (dtype, shape) in made["none"].inputs.items()}
    found = {m: model(inputs) for m, model in made.items()}
    for one in found.values():
        for mine, expected in zip(one.values(), found["none"].values(), strict=True):
            assert np.allclose(
                mine, expected, rtol=1e-3, atol=1e-4 * max(1e-6, float(np.abs(expected).max()))
            ), path
    same = programs["greedy"].steps == programs["cpsat"].steps
    calls = {m: repeated(model.bound(inputs)) for m, model in made.items() if m != "greedy" or not same}
    times = {m: min(each) * 1e3 / REPEATS for m, each in in_turns(calls, given.turns).items()}
    times.setdefault("greedy", times["cpsat"])
    parted = cpsat.parted
    assert parted is not None
    plans = {"none": parted.none, "greedy": parted.greedy, "cpsat": parted.plan}
    cells = (
        path.stem,
        str(len(parted.problem.nodes)),
        " / ".join(str(len(p.order)) for p in plans.values()),
        " / ".join(f"{p.cost_ns / 1e3:.1f}" for p in plans.values()),
        f"{100 * parted.plan.gap:.1f}",
        " / ".join(f"{times[m]:.1f}" for m in plans),
        f"{times['none'] / times['cpsat']:.2f}",
        f"{times['greedy'] / times['cpsat']:.2f}" + (" (same)" if same else ""),
        " / ".join(f"{p.peak_bytes / 1024:.0f}" for p in plans.values()),
        f"{spent:.0f}",
    )
    return f"| {' | '.join(cells)} |", times["none"] / times["cpsat"], times["greedy"] / times["cpsat"]


def main() -> None:
    """Print a row for each graph, and the geometric means."""
    parser = argparse.ArgumentParser(description="Graphs parted by three rules, in alternation.")
    parser.add_argument(
        "models", nargs="*", default=list(NETWORKS), help="files, or networks of small_graphs.py"
    )
    parser.add_argument("-D", dest="sizes", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--hw", default="host")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=40)
    given = parser.parse_args()
    print("none / greedy / cpsat: kernels, predicted and measured µs, KiB that live at one time")
    print(
        "| graph | nodes | kernels | predicted | gap % | measured | none ÷ cpsat | greedy ÷ cpsat | KiB | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    ratios: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for word in given.models:
            path = Path(word)
            if word in NETWORKS:
                path = Path(folder) / f"{word}.onnx"
                path.write_bytes(NETWORKS[word]().SerializeToString())
            line, *ratio = row(path, given)
            ratios.append((ratio[0], ratio[1]))
            print(line)
            sys.stdout.flush()
    means = [prod(r[n] for r in ratios) ** (1 / len(ratios)) for n in (0, 1)]
    print(f"geometric means: none ÷ cpsat {means[0]:.2f}, greedy ÷ cpsat {means[1]:.2f}")


if __name__ == "__main__":
    main()
