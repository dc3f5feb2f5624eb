"""What `--tune` adds: the winner of the measured schedules beside the cost model's first choice.

    python benchmarks/tuning.py [--tune 8] [--shapes 12] [--machine NAME…] > tuning.txt

Products of DeepBench, spread over its sizes. The winner is found with `--tune`; both are then compiled once
more and take turns in rounds of their own, so that no winner is judged by the rounds that it was chosen in.
Processor time of one thread; "gain" is how many times longer the first choice takes, the median over rounds,
with the interval that holds it with 95 %; 1 where the first choice won. `seconds` is what tuning took.
"""

from __future__ import annotations

import argparse
import mmap
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import numpy as np
from alternate import Array, prepared_call, program, source, turns

from isamap.bench.paired_timing import Ratio, geometric_mean
from isamap.bench.paired_timing import ratio as paired
from isamap.driver.inputs import find_profile
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.plan.text import print_schedule
from isamap.source import Source
from isamap.suites.shapes import BatchedProduct, read_suite

KERNELS = {"x86-avx512": "gemm_f32", "x86-avx512-bf16": "gemm_bf16"}
SHAPES = 12
LEAST, MOST = 2e6, 2e9  # operations: from 20 µs to 20 ms
ROUNDS = 21


def main() -> None:
    """Tune, compile both, take turns, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shapes", type=int, default=SHAPES)
    options.add_argument("--tune", type=int, default=8)
    options.add_argument("--machine", nargs="*", default=list(KERNELS))
    options.add_argument("--profile", default="default")
    words = options.parse_args()
    print(f"{'machine':15}  {'M x N x K':16}  {'first us':>9}  {'place':>5}  {'gain':>22}  seconds")
    for machine in words.machine:
        gains = [_row(machine, shape, words.tune, words.profile) for shape in shapes(words.shapes)]
        faster, slower = sum(gain.low > 1 for gain in gains), sum(gain.high < 1 for gain in gains)
        said = f"geometric mean {geometric_mean(g.value for g in gains):.3f} over {len(gains)} products"
        print(f"{machine}: {said}; whole interval above 1: {faster}, below: {slower}", flush=True)


def shapes(count: int) -> list[BatchedProduct]:
    """Products as they are stored row by row, evenly over their number of operations."""
    found = {
        (s.m, s.n, s.k): s
        for s in read_suite("deepbench-gemm")
        if isinstance(s, BatchedProduct)
        and not (s.x_transposed or s.w_transposed)
        and LEAST <= s.flops <= MOST
    }
    ordered = sorted(found.values(), key=lambda s: (s.flops, s.m, s.n))
    return [ordered[i * (len(ordered) - 1) // (count - 1)] for i in range(count)]


def _row(machine: str, shape: BatchedProduct, count: int, profile: str) -> Ratio:
    kernel = source(KERNELS[machine])
    sizes = {"M": shape.m, "N": shape.n, "K": shape.k}
    plain = Request(kernel, machine, sizes, profile=find_profile(profile, machine))
    started = time.monotonic()
    made = compile_kernel(replace(plain, tune=count, cache=False))
    took = time.monotonic() - started
    assert made.schedule is not None
    place = int(str(made.origin["place"]))
    arrays = {name: _small_pages(array) for name, array in program(kernel, machine, sizes, sizes)[1].items()}
    first = _call(plain, arrays)
    if place == 1:
        gain, middle = Ratio(1.0, 1.0, 1.0), median(turns({"first": first}, 5)["first"])
    else:
        text = Source("winner.schedule", print_schedule(made.schedule))
        best = _call(replace(plain, schedule=text), arrays)
        times = turns({"first": first, "best": best}, ROUNDS)
        gain, middle = paired(times["best"], times["first"]), median(times["first"])
    shown = f"{gain.value:.3f} ({gain.low:.3f}..{gain.high:.3f})" if place > 1 else "1"
    name = f"{shape.m}x{shape.n}x{shape.k}"
    print(f"{machine:15}  {name:16}  {middle * 1e6:9.1f}  {place:5}  {shown:>22}  {took:7.1f}", flush=True)
    return gain


def _call(request: Request, arrays: Mapping[str, Array]) -> Callable[[], object]:
    return prepared_call(prepare(request).compiled, arrays, {})


def _small_pages(array: Array) -> Array:
    """Return a copy on pages of the usual size, as malloc gives them and as schedules are measured.

    numpy asks for huge pages where arrays are large; which schedule is the fastest may depend on that.
    """
    memory = mmap.mmap(-1, array.nbytes)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    copy = np.ndarray(array.shape, array.dtype, memory)
    copy[...] = array
    return copy


if __name__ == "__main__":
    main()
