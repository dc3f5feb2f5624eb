"""Graphs on one core, on two as devices, and on two as threads of each kernel: predicted, and measured.

    python benchmarks/devices.py                           networks of small_graphs.py that have branches
    python benchmarks/devices.py swiglu_256 attention_64

Times are those of the clock, as two cores are at work: the least of all turns, which needs a quiet computer.
Results are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from small_graphs import NETWORKS

from isamap.graph.model_library import ModelOptions, compile_program_of
from isamap.onnx import CompiledModel, import_model

BRANCHED = ("swiglu_256", "attention_64", "attention_256", "transformer", "gru_2", "lstm_8", "towers")
CALLS = 10
"""Of a turn."""


def row(path: Path, given: argparse.Namespace) -> str:
    """Return a row of the table."""
    program = import_model(path).whole()
    one = ModelOptions(given.hw, "greedy", given.limit)
    ways = {"one": one, "devices": replace(one, devices=2), "threads": replace(one, threads=2)}
    libraries = {name: compile_program_of(program, how, runs=True) for name, how in ways.items()}
    models = {name: CompiledModel(made, 1 if name == "one" else 2) for name, made in libraries.items()}
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, (_, s) in models["one"].inputs.items()}
    expected = models["one"](inputs)
    for model in models.values():
        for name, found in model(inputs).items():
            np.testing.assert_allclose(found, expected[name], rtol=1e-3, atol=1e-5)
    calls = {name: model.bound(inputs) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(given.turns):
        for name, call in calls.items():
            call()
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - start) * 1e6)
    least = {name: min(each) for name, each in times.items()}
    dealt = libraries["devices"].dealt
    assert dealt is not None
    cells = (
        path.stem,
        str(len(dealt.program.steps)),
        str(sum(len(phase) > 1 for phase in dealt.phases)),
        f"{dealt.alone_ns / 1e3:.1f} / {dealt.plan.cost_ns / 1e3:.1f}",
        " / ".join(f"{least[name]:.1f}" for name in ways),
        *(f"{least['one'] / least[name]:.2f}" for name in ("devices", "threads")),
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row for each graph; `phases` are those of both devices."""
    parser = argparse.ArgumentParser(description="Graphs on one core and on two.")
    parser.add_argument("graphs", nargs="*", default=BRANCHED, help="networks of small_graphs.py")
    parser.add_argument("--hw", default="host")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=60)
    given = parser.parse_args()
    print("| graph | kernels | phases | predicted | one / devices / threads, µs | devices | threads |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.graphs:
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(NETWORKS[name]().SerializeToString())
            print(row(path, given))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
