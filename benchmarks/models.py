"""Models of ONNX by isamap and by onnxruntime, in alternation: least and median times of a call, one thread.

    python benchmarks/models.py                                  MobileNetV2 and ResNet-50, random weights
    python benchmarks/models.py det.onnx -D x_0=1 -D x_2=320 -D x_3=320
    python benchmarks/models.py vad.onnx -D batch=1 -D sequence=576 --constant sr=16000

Results are compared with onnxruntime's. Times are processor time of the calling thread, so that other
programs count only by what they take of the caches. Compiling is the processor time of all processes.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from convnets import NETWORKS, saved

from isamap.graph.graph_file import constants_of
from isamap.ir import DTYPES
from isamap.onnx import compile_model

CALLS = 5  # of a turn


def spent_s() -> float:
    """Processor time of this process and of those that have ended under it."""
    uses = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def theirs(path: Path, constants: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return a call of onnxruntime by one thread."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, {**constants, **inputs})


def in_turns(calls: Mapping[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Milliseconds of each call by contender; the first one changes each turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns):
        for name in sorted(calls, reverse=bool(turn % 2)):
            calls[name]()  # brings back what others took from the caches
            for _ in range(CALLS):
                start = time.thread_time()
                calls[name]()
                times[name].append((time.thread_time() - start) * 1e3)
    return times


def drawn(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Any:
    """Return an input: normal numbers, or whole ones below 100, where they may be indices."""
    known = DTYPES[dtype].numpy()
    whole = np.issubdtype(known, np.integer)
    return (rng.integers(0, 100, shape) if whole else rng.standard_normal(shape)).astype(known)


def row(path: Path, given: argparse.Namespace) -> str:
    """Return a row of the table."""
    constants = constants_of(pairs(given.constant))
    sizes = {name: int(size) for name, size in pairs(given.sizes).items()}
    start = spent_s()
    ours = compile_model(path, given.hw, sizes=sizes, constants=constants, heuristic=given.heuristic)
    compiled_s = spent_s() - start
    other = theirs(path, {name: np.asarray(array) for name, array in constants.items()})
    rng = np.random.default_rng(0)
    inputs = {name: drawn(rng, dtype, shape) for name, (dtype, shape) in ours.inputs.items()}
    found = ours(inputs)
    apart = max(
        float(np.abs(mine - expected).max() / max(1e-30, np.abs(expected).max()))
        for mine, expected in zip(found.values(), other(inputs), strict=True)
    )
    times = in_turns({"ours": lambda: ours(inputs), "theirs": lambda: other(inputs)}, given.turns)
    least = {name: min(each) for name, each in times.items()}
    middle = {name: median(each) for name, each in times.items()}
    cells = (
        path.stem,
        str(ours.library.kernels),
        f"{compiled_s:.1f}",
        f"{apart:.1e}",
        *(f"{least[name]:.3f} / {middle[name]:.3f}" for name in ("ours", "theirs")),
        f"{least['theirs'] / least['ours']:.2f} / {middle['theirs'] / middle['ours']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def pairs(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE as a mapping."""
    return dict(word.split("=", 1) for word in words)


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description="Models of ONNX beside onnxruntime, in alternation.")
    parser.add_argument("models", nargs="*", default=list(NETWORKS), help="files, or networks of convnets.py")
    parser.add_argument("-D", dest="sizes", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--hw", default="host")
    parser.add_argument("--heuristic", default="cpsat")
    parser.add_argument("--turns", type=int, default=20)
    given = parser.parse_args()
    print("| model | kernels | compiled, s | largest difference | isamap, ms | onnxruntime, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for word in given.models:
            path = Path(word) if word not in NETWORKS else saved([word], Path(folder))[0]
            print(row(path, given))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
