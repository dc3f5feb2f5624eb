"""A compiler for the same products, beside isamap in one run: IREE.

    pip install iree-base-compiler iree-base-runtime
    python benchmarks/peers.py > benchmarks/results/DATE-peers.txt

Both compile C + A x B in f32 for this processor and one thread, isamap by its cost model alone; data lie
where each wants them before the clock starts. They take turns in another order each round: processor time,
the median, and the median over rounds of how much longer IREE takes, with the interval that holds it with
95 %. Two things speak for isamap and are no merit of its code: IREE's call comes from Python (some
microseconds: short products are not asked for), and it gives a new array where isamap adds in place.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from statistics import median
from typing import Any

import numpy as np
from alternate import Array, program, source, turns

from isamap.bench.statistics import Ratio, geometric_mean, ratio
from isamap.machine import detect_machine
from isamap.suites.shapes import Product, read_suite

SHAPES = 12
LEAST, MOST = 1e7, 2e9  # operations
ROUNDS = 15
TOLERANCE = 1e-4
PACKAGES = ("iree-base-compiler", "iree-base-runtime")


def main() -> None:
    """Prints a line per product and the geometric mean."""
    machine = detect_machine()
    print(", ".join(f"{p} {version(p)}" for p in PACKAGES), f"beside isamap on {machine}")
    print(f"{'M x N x K':16}  {'isamap us':>10}  {'IREE us':>10}  times as long")
    found = [_row(shape, machine) for shape in shapes()]
    print(f"geometric mean over {len(found)} products: {geometric_mean(r.value for r in found):.2f}")


def shapes() -> list[Product]:
    """Products as they are stored row by row, evenly over their number of operations."""
    found = {
        (s.m, s.n, s.k): s
        for s in read_suite("deepbench-gemm")
        if isinstance(s, Product) and not (s.x_transposed or s.w_transposed) and LEAST <= s.flops <= MOST
    }
    ordered = sorted(found.values(), key=lambda s: (s.flops, s.m, s.n))
    return [ordered[i * (len(ordered) - 1) // (SHAPES - 1)] for i in range(SHAPES)]


def _row(shape: Product, machine: str) -> Ratio:
    """How they compare; every result is checked first."""
    sizes = {"M": shape.m, "N": shape.n, "K": shape.k}
    own, arrays, _ = program(source("gemm_f32"), machine, sizes, sizes)
    before = arrays["C"].copy()
    expected = before + arrays["A"] @ arrays["B"]
    other, result = _iree(arrays["A"], arrays["B"], before)
    _check("IREE", result(), expected)
    own()
    _check("isamap", arrays["C"], expected)
    arrays["C"][:] = before
    times = turns({"isamap": own, "iree": other}, ROUNDS)
    found = ratio(times["isamap"], times["iree"])
    medians = "  ".join(f"{median(times[name]) * 1e6:10.1f}" for name in ("isamap", "iree"))
    name = f"{shape.m}x{shape.n}x{shape.k}"
    print(f"{name:16}  {medians}  {found.value:.2f} ({found.low:.2f}..{found.high:.2f})", flush=True)
    return found


def _check(name: str, result: Array, expected: Array) -> None:
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    assert error < TOLERANCE, f"{name} is wrong by {error}"


def _iree(a: Array, b: Array, c: Array) -> tuple[Callable[[], object], Callable[[], Array]]:
    """One call of IREE's code, and what came out of the last one."""
    compiler: Any = import_module("iree.compiler")
    runtime: Any = import_module("iree.runtime")
    kinds = [f"tensor<{'x'.join(map(str, x.shape))}xf32>" for x in (a, b, c)]
    text = (
        f"func.func @main(%a: {kinds[0]}, %b: {kinds[1]}, %c: {kinds[2]}) -> {kinds[2]} {{\n"
        f"  %0 = linalg.matmul ins(%a, %b : {kinds[0]}, {kinds[1]}) outs(%c : {kinds[2]}) -> {kinds[2]}\n"
        f"  return %0 : {kinds[2]}\n}}\n"
    )
    extra = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
    code = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=extra)
    config = runtime.Config("local-sync")  # one thread: the caller's
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    given = [runtime.asdevicearray(config.device, x) for x in (a, b, c)]
    return (lambda: module.main(*given)), (lambda: module.main(*given).to_host())


if __name__ == "__main__":
    main()
