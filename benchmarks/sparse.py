"""DeepBench's 24 sparse products for servers, beside scipy and MKL: ratios of processor time, one thread.

    python benchmarks/sparse.py [--rows 0,7,12] [--rounds 5]

The rows (`deepbench_sparse.csv`) are facts of DeepBench, github.com/baidu-research/DeepBench, Apache-2.0.
Patterns are random, values normal, f32. Contenders take turns; each row is checked against scipy first. MKL
is given its hints and is optimised before the clock, ours its format: compressed rows where B has many
columns, slices of few rows (filled up with zeros) with 16-bit columns where it has one to four. Every call
of ours checks its indices, on the clock.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import os
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

os.environ["MKL_THREADING_LAYER"] = "SEQUENTIAL"  # asked for before the library is loaded

import numpy as np

import isamap
from isamap.bench.libraries import mkl_library
from isamap.kernels import kernel_path

sparse: Any = import_module("scipy.sparse")  # which is not typed
Matrix = Any
Array = Any
Call = Callable[[], object]

FEW = 4
"""Columns of B: for so few, or fewer, the rows of A are interleaved."""
SLICES = {1: (12, "host"), 2: (4, "generic-c"), 4: (4, "generic-c")}
"""Rows of a slice, and the machine, by columns of B; the schedules for vectors of 16 waste most of them."""

GENERAL, NO_TRANSPOSE, ROW_MAJOR = 20, 10, 101  # of MKL's mkl_spblas.h


class Description(ctypes.Structure):
    """`struct matrix_descr` of MKL."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


def main() -> None:
    """Measures the rows that are asked for, and prints each."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rows", default="", help="positions from 0; all by default")
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    with (Path(__file__).parent / "deepbench_sparse.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chosen = [int(r) for r in given.rows.split(",")] if given.rows else range(len(rows))
    print("row      m     n     k  zeros    isamap       MKL     scipy  over the faster")
    ratios = [measured(number, rows[number], given.rounds) for number in chosen]
    print(f"geometric mean over the faster of both: {geometric_mean(ratios):.2f}")


def measured(number: int, row: dict[str, str], rounds: int) -> float:
    """How much longer the faster library takes than isamap, by medians."""
    m, n, k, zeros = int(row["m"]), int(row["n"]), int(row["k"]), float(row["sparsity"])
    rng = np.random.default_rng(number)
    a: Matrix = sparse.random(m, k, 1 - zeros, format="csr", dtype=np.float32, random_state=number)
    a.sort_indices()
    b = rng.normal(size=(k, n)).astype(np.float32)
    result, theirs = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    ours = by_slices(a, b, result) if n <= FEW else by_rows(a, b, result)
    calls: dict[str, Call] = {"isamap": ours, "mkl": by_mkl(a, b, theirs), "scipy": lambda: a @ b}
    wanted: Array = a @ b
    ours()
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds if n > FEW else 10 * rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            times[name].append(time.thread_time() - start)
    took = {name: median(found) for name, found in times.items()}
    ratio = min(took["mkl"], took["scipy"]) / took["isamap"]
    shown = " ".join(f"{1e3 * took[name]:9.2f}" for name in calls)
    print(f"{number:3d} {m:6d} {n:5d} {k:5d}   {zeros:.2f} {shown}  {ratio:.2f}", flush=True)
    return ratio


def by_rows(a: Matrix, b: Array, c: Array) -> Call:
    """The product of compressed rows."""
    sizes = {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1], "NNZ": a.nnz}
    arrays = {"row": a.indptr.astype(np.int32), "col": a.indices.astype(np.int32), "val": a.data}
    return isamap.compile("csr_f32", "host", sizes).bind(**arrays, B=b, C=c)


def by_slices(a: Matrix, b: Array, c: Array) -> Call:
    """The product of slices of interleaved rows, with columns in 16 bits."""
    rows, machine = SLICES[b.shape[1]]
    row: Array = a.indptr.astype(np.int64)
    lengths: Array = np.diff(row)
    ends = np.cumsum(lengths.reshape(-1, rows).max(axis=1))
    starts: Array = np.concatenate([[0], ends]).astype(np.int32)
    steps = int(starts[-1])
    columns, values = np.zeros((steps, rows), np.uint16), np.zeros((steps, rows), np.float32)
    of_row: Array = np.repeat(range(a.shape[0]), lengths)
    at: Array = starts[of_row // rows] + np.arange(int(a.nnz), dtype=np.int64) - row[of_row]
    columns[at, of_row % rows], values[at, of_row % rows] = a.indices, a.data
    text = kernel_path("sell_f32").read_text(encoding="utf-8").replace("col: i32", "col: u16")
    sizes = {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1], "P": steps, "R": rows}
    arrays = {"slice": starts, "col": columns.reshape(-1), "val": values}
    return isamap.compile(text, machine, sizes).bind(**arrays, B=b, C=c)


def by_mkl(a: Matrix, b: Array, c: Array) -> Call:
    """MKL's product, with its hints given and the matrix optimised."""
    library, handle, n = mkl_library(), ctypes.c_void_p(), b.shape[1]
    start, columns = a.indptr.astype(np.int32), a.indices.astype(np.int32)
    first, last = start.ctypes.data, start.ctypes.data + 4
    arrays = [ctypes.c_void_p(p) for p in (first, last, columns.ctypes.data, a.data.ctypes.data)]
    made = library.mkl_sparse_s_create_csr(ctypes.byref(handle), 0, *a.shape, *arrays)
    assert made == 0, "MKL takes the matrix"
    description, one, zero = Description(GENERAL, 0, 0), ctypes.c_float(1), ctypes.c_float(0)
    if n == 1:
        library.mkl_sparse_set_mv_hint(handle, NO_TRANSPOSE, description, 1000)
    else:
        library.mkl_sparse_set_mm_hint(handle, NO_TRANSPOSE, description, ROW_MAJOR, n, 1000)
    library.mkl_sparse_optimize(handle)
    x, y = ctypes.c_void_p(b.ctypes.data), ctypes.c_void_p(c.ctypes.data)
    kept = [start, columns, a, b, c]

    def call() -> None:
        assert len(kept) == 5, "what MKL's matrix leads to lives as long as this function"
        status = (
            library.mkl_sparse_s_mv(NO_TRANSPOSE, one, handle, description, x, zero, y)
            if n == 1
            else library.mkl_sparse_s_mm(
                NO_TRANSPOSE, one, handle, description, ROW_MAJOR, x, n, n, zero, y, n
            )
        )
        assert status == 0, "MKL multiplies"

    return call


if __name__ == "__main__":
    main()
