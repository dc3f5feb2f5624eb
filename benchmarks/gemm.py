"""A GEMM compiled by isamap beside the installed libraries and the peak of its instruction, in one run.

    python benchmarks/gemm.py gemm_f32 --hw x86-avx512 -D M=1024 N=1024 K=1024

One thread. Contenders take turns, in another order each round; data are random and not zero; minimum, median
and the median of the paired ratios are printed. Nothing is asserted: the figures are for people.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from isamap.bench.campaign import mapped_tile, measure_peak
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.run.fills import make_arrays
from isamap.run.in_process import InProcess
from isamap.run.toolchain import compile_library
from isamap.source import IsamapError, Source

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    """Compile, take turns, report. Libraries read their threads when they start, hence the restart."""
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    options = _options()
    sizes = {n: int(v) for n, v in (word.split("=") for word in options.D)}
    path = kernel_path(options.kernel)
    made = compile_kernel(Request(Source(path.name, path.read_text()), options.hw, sizes))
    assert made.machine
    assert isinstance(made.emitted, EmittedC)
    assert made.canonical
    assert made.schedule
    compiled = compile_library(made.emitted, made.machine)
    arrays = make_arrays(made.kernel, "random")
    ours = InProcess(compiled)
    contenders: dict[str, Callable[[], object]] = {"isamap": lambda: ours(arrays)}
    contenders |= _libraries(arrays)
    tile = mapped_tile(made)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    peaks: list[float] = []
    for _ in range(options.rounds):
        order = list(contenders)
        random.shuffle(order)
        for name in order:
            times[name].append(_seconds(contenders[name]))
        peaks.append(measure_peak(tile, made.machine, rounds=3))
    operations = 2 * sizes["M"] * sizes.get("N", 1) * sizes["K"]
    _report(times, operations, peaks, tile.mapping.ident, compiled.compiler.version)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernel")
    parser.add_argument("--hw", default="x86-avx512")
    parser.add_argument("-D", nargs="+", default=["M=1024", "N=1024", "K=1024"])
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


def _libraries(arrays: dict[str, np.ndarray]) -> dict[str, Callable[[], object]]:
    """Contenders that compute the same product and are installed."""
    a, b, c = arrays["A"], arrays["B"], arrays["C"].copy()
    found: dict[str, Callable[[], object]] = {}
    if a.dtype == b.dtype == c.dtype and a.dtype in (np.float32, np.float64) and a.shape[1] == b.shape[0]:
        found["numpy"] = lambda: np.matmul(a, b, out=c)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    kinds = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
    if a.dtype == b.dtype == c.dtype and a.dtype.name in kinds and a.shape[1] == b.shape[0]:
        ta, tb, tc = (torch.from_numpy(x.astype(np.float32)).to(kinds[a.dtype.name]) for x in (a, b, c))
        found["torch"] = lambda: torch.addmm(tc, ta, tb, out=tc)
    elif a.dtype == b.dtype == np.int8 and a.shape[1] == b.shape[0]:
        ia, ib = torch.from_numpy(a), torch.from_numpy(b)
        found["torch"] = lambda: torch._int_mm(ia, ib)
    return found


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _report(
    times: dict[str, list[float]], operations: int, peaks: list[float], mapping: str, compiler: str
) -> None:
    peak = max(peaks)
    print(f"mapping   {mapping}")
    print(f"compiler  {compiler}")
    print(f"peak      {peak:8.1f} GOP/s of that instruction (median {statistics.median(peaks):.1f})")
    for name, seconds in times.items():
        fast, middle = min(seconds), statistics.median(seconds)
        ratio = statistics.median(s / o for s, o in zip(seconds, times["isamap"], strict=True))
        share = operations / middle / 1e9 / peak
        print(
            f"{name:9} min {fast * 1e3:9.3f} ms  median {middle * 1e3:9.3f} ms  "
            f"{operations / middle / 1e9:8.1f} GOP/s  {share:6.1%} of peak  {ratio:5.2f} x isamap's time"
        )


if __name__ == "__main__":
    try:
        main()
    except IsamapError as problem:
        sys.exit(problem.render())
