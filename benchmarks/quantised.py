"""Time products with quantised weights and those of ggml, in alternation on one thread.

    python benchmarks/quantised.py                rows 1, 16 and 128 of 4096 x 4096, all formats

Needs `ggml` for Python (the package `ggml-python`, built on this processor). Activations are f32 for ggml, which
quantises them in each call. isamap's kernels take them quantised: a line of numpy outside of the measurement.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import isamap
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.syntax import parse_kernel

WIDTH, ROUNDS = 4096, 15
FORMATS = {
    "gemm_q4_0": ("GGML_TYPE_Q4_0", 32, 0.5 + 4 / 32),
    "gemm_q4_k": ("GGML_TYPE_Q4_K", 256, 0.5 + 2 / 32 + 8 / 256),
    "gemm_q8_0": ("GGML_TYPE_Q8_0", 32, 1 + 4 / 32),
}
"""By kernel: ggml's type, the weights of a block, and the bytes of a weight in isamap's layout, with its scales."""


def our_call(name: str, rows: int) -> Callable[[], object]:
    """Return the product by isamap's kernel."""
    sizes, rng = {"M": rows, "N": WIDTH // 64, "G": WIDTH // FORMATS[name][1]}, np.random.default_rng(0)
    kernel = isamap.compile(name, "host", sizes, heuristic="greedy")
    path = kernel_path(name)
    declared = bind(parse_kernel(Source(path.name, path.read_text(encoding="utf-8"))), sizes)
    arrays: dict[str, Any] = {}
    for operand in declared.operands:
        shape, dtype = tuple(size.value or 0 for size in operand.shape), operand.dtype
        if operand.role != "temp":
            drawn = rng.random(shape) if dtype.is_float else rng.integers(max(dtype.low, -127), 128, shape)
            arrays[operand.name] = drawn.astype(dtype.numpy())
    return lambda: kernel({}, **arrays)


def their_call(name: str, rows: int) -> Callable[[], None]:
    """Return the product by ggml, in a context of its own."""
    import ggml

    g: Any = ggml
    kind = getattr(g, FORMATS[name][0])
    context = g.ggml_init(g.ggml_init_params(mem_size=1 << 29, mem_buffer=None, no_alloc=False))
    w = g.ggml_new_tensor_2d(context, kind, WIDTH, WIDTH)
    x = g.ggml_new_tensor_2d(context, g.GGML_TYPE_F32, WIDTH, rows)
    rng = np.random.default_rng(0)
    given = rng.standard_normal((WIDTH, WIDTH), np.float32)
    floats = ctypes.POINTER(ctypes.c_float)
    g.ggml_quantize_chunk(kind, given.ctypes.data_as(floats), g.ggml_get_data(w), 0, WIDTH, WIDTH, None)
    taken = rng.standard_normal((rows, WIDTH), np.float32)
    ctypes.memmove(g.ggml_get_data(x), taken.ctypes.data, taken.nbytes)
    graph = g.ggml_new_graph(context)
    g.ggml_build_forward_expand(graph, g.ggml_mul_mat(context, w, x))
    return lambda: g.ggml_graph_compute_with_ctx(context, graph, 1)


def time_us(call: Callable[[], object]) -> float:
    """Return the processor time of one call in microseconds."""
    start = time.process_time_ns()
    call()
    return (time.process_time_ns() - start) / 1e3


def main() -> None:
    """Print the least and the median time of each, their ratio, and lower bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    print("kernel     rows    isamap us   (median)      ggml us   (median)   ratio  GB/s of weights  GMAC/s")
    for name, (_, _, weight_bytes) in FORMATS.items():
        for rows in asked.rows:
            calls = our_call(name, rows), their_call(name, rows)
            for call in calls:
                call()
            times = [[time_us(call) for call in calls] for _ in range(asked.rounds)]
            ours, theirs = zip(*times, strict=True)
            size = WIDTH * WIDTH * weight_bytes
            least = min(ours)
            print(
                f"{name:9} {rows:5} {least:12.0f} {median(ours):10.0f} {min(theirs):12.0f} {median(theirs):10.0f}"
                f" {min(theirs) / least:7.2f} {size / least / 1e3:16.1f} {rows * WIDTH * WIDTH / least / 1e3:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
