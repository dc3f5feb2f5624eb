"""Weights packed before, beside weights as they are: isamap's and torch's, in alternation in one run.

    python benchmarks/packed.py [MACHINE] [THREADS]

Row-major C[M, N] = A[M, K] * B[K, N]; B is what is packed. Contenders take turns, in another order each
round, after a call that is not timed. A ratio is the median of the rounds' ratios, above 1 where isamap's
packed weights are faster; the interval holds half of them. Without torch isamap is compared with itself only.
On one thread time is what it has spent on a processor, so that other programs on it do not count.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from isamap.driver.api import machine_of
from isamap.driver.inputs import find_profile
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.run.in_process import InProcess
from isamap.run.runner import pack_in_process
from isamap.source import Source

ROUNDS = 41
LEAST_S = 0.01  # a turn repeats a contender until it has run so long
SIZES = ((128, 1760, 1760), (4, 7680, 2560), (700, 5124, 2048))
TYPES = ("f32", "bf16")
THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
CLOCK = time.process_time if THREADS == 1 else time.perf_counter
Run = Callable[[], object]


def main() -> None:
    """Measure, print."""
    hw = machine_of(sys.argv[1] if len(sys.argv) > 1 else "host")
    print(f"{hw}, {THREADS} threads; ratios of isamap packed to the others, GOP/s in medians")
    for dtype in TYPES:
        for m, n, k in SIZES:
            contenders = {
                **isamap_runs(hw, dtype, (m, n, k)),
                **torch_runs(dtype, (m, n, k)),
            }
            compare(f"{dtype} {m}x{n}x{k}", contenders, 2 * m * n * k)


def kernel(dtype: str) -> Source:
    """Return the product; C is only written."""
    widened = [f"f32({read})" if dtype != "f32" else read for read in ("A[m, k]", "B[k, n]")]
    accumulate = "" if dtype == "f32" else " accumulate f32"
    return Source(
        "product.ir",
        f"kernel product(M, N, K) {{ in A: {dtype}[M, K]; in B: {dtype}[K, N];"
        f" out C: {dtype}[M, N]{accumulate}; for m in M, n in N {{ C[m, n] = 0; }}"
        f" for m in M, n in N, k in K {{ C[m, n] += {widened[0]} * {widened[1]}; }} }}",
    )


def isamap_runs(hw: str, dtype: str, sizes: tuple[int, int, int]) -> dict[str, Run]:
    """Return the emitted code with and without packed weights."""
    rng = np.random.default_rng(1)
    m, n, k = sizes
    found: dict[str, Run] = {}
    for name, packed in (("packed", ("B",)), ("plain", ())):
        named = {"M": m, "N": n, "K": k}
        profile = find_profile("default", hw)
        prepared = prepare(Request(kernel(dtype), hw, named, packed=packed, threads=THREADS, profile=profile))
        kind = prepared.program.compilation.kernel.operand("A").dtype.numpy()
        a, b = ((rng.random(shape) - 0.5).astype(kind) for shape in ((m, k), (k, n)))
        arrays: dict[str, Any] = {"A": a, "B": b, "C": np.zeros((m, n), kind)}
        for packer in prepared.packers:
            arrays[packer.target.name] = pack_in_process(packer, arrays.pop(packer.source), {})
        found[f"isamap {name}"] = _called(InProcess(prepared.compiled, THREADS), arrays)
    return found


def _called(run: InProcess, arrays: dict[str, Any]) -> Run:
    def call() -> None:
        status = run(arrays)
        assert status == 0

    return call


def torch_runs(dtype: str, sizes: tuple[int, int, int]) -> dict[str, Run]:
    """torch's products with weights that oneDNN has packed, and as they are; none without torch."""
    if find_spec("torch") is None:
        return {}
    torch: Any = import_module("torch")
    torch.set_num_threads(THREADS)
    m, n, k = sizes
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    a, b = (torch.rand(shape).sub(0.5).to(kind) for shape in ((m, k), (k, n)))
    c = torch.zeros((m, n), dtype=kind)
    weight = torch.ops.mkldnn._reorder_linear_weight(b.t(), m)

    def packed() -> object:
        with torch.inference_mode():
            return torch.ops.mkldnn._linear_pointwise(a, weight, None, "none", [], "")

    def plain() -> object:
        with torch.inference_mode():
            return torch.mm(a, b, out=c)

    return {"torch packed": packed, "torch plain": plain}


def compare(label: str, contenders: dict[str, Run], operations: int) -> None:
    """Rounds of all contenders; one line each."""
    calls = {name: max(1, int(LEAST_S / timed(run, 3))) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        order = list(contenders)
        random.shuffle(order)
        for name in order:
            contenders[name]()
            times[name].append(timed(contenders[name], calls[name]))
    ours, *others = contenders
    rate = {name: operations / statistics.median(found) / 1e9 for name, found in times.items()}
    best = {name: operations / min(found) / 1e9 for name, found in times.items()}
    print(f"{label:20} {ours} {rate[ours]:.0f} (best {best[ours]:.0f})")
    for name in others:
        ratios = [theirs / own for theirs, own in zip(times[name], times[ours], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{'':20} {name} {rate[name]:.0f} (best {best[name]:.0f}): {middle:.2f} ({low:.2f}..{high:.2f})"
        )


def timed(run: Run, calls: int) -> float:
    """Seconds of one of so many calls."""
    started = CLOCK()
    for _ in range(calls):
        run()
    return (CLOCK() - started) / calls


if __name__ == "__main__":
    main()
