"""The libraries with products of sparse matrices: scipy and MKL, as their users would call them.

MKL gets its hints and optimises the matrix before the clock.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from importlib.metadata import version
from time import perf_counter_ns
from typing import Any

from isamap.bench.libraries import NotOffered, Ready, mkl_library
from isamap.bench.ring import Mapped
from isamap.bench.sparse_products import SparseCase, compressed

GENERAL, NO_TRANSPOSE, ROW_MAJOR, MANY_CALLS = 20, 10, 101, 1000
"""Of MKL's mkl_spblas.h, and for how many calls it is to optimise."""


class Description(ctypes.Structure):
    """`struct matrix_descr` of MKL."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


def prepare_scipy_sparse(mapped: Mapped[SparseCase], threads: int) -> Ready:
    """`C += A @ B` of a `scipy.sparse.csr_array`. Raises: NotOffered."""
    try:
        sparse: Any = import_module("scipy.sparse")
    except ImportError:
        raise NotOffered from None
    case, given = mapped.task.case, compressed(mapped.task.case)
    a = sparse.csr_array((given["val"], given["col"], given["row"]), shape=(case.m, case.k))
    b, c, ring = mapped.arrays["B"], mapped.arrays["C"], mapped.task.ring

    def time(calls: int, first: int) -> int:
        start = perf_counter_ns()
        for number in range(first, first + calls):
            c[number % ring] += a @ b[number % ring]
        return perf_counter_ns() - start

    return Ready(time, f"scipy {version('scipy')}: csr_array @", False)


def prepare_mkl_sparse(mapped: Mapped[SparseCase], threads: int) -> Ready:
    """MKL's `mkl_sparse_s_mv` or `mkl_sparse_s_mm`, adding to C. Raises: NotOffered."""
    library, case, given = mkl_library(), mapped.task.case, compressed(mapped.task.case)
    library.MKL_Set_Num_Threads(threads)
    handle, n = ctypes.c_void_p(), case.n
    row, col, val = (given[name].ctypes.data for name in ("row", "col", "val"))
    arrays = [ctypes.c_void_p(p) for p in (row, row + 4, col, val)]
    if library.mkl_sparse_s_create_csr(ctypes.byref(handle), 0, case.m, case.k, *arrays):
        raise NotOffered
    description, one = Description(GENERAL, 0, 0), ctypes.c_float(1)
    if n == 1:
        library.mkl_sparse_set_mv_hint(handle, NO_TRANSPOSE, description, MANY_CALLS)
    else:
        library.mkl_sparse_set_mm_hint(handle, NO_TRANSPOSE, description, ROW_MAJOR, n, MANY_CALLS)
    library.mkl_sparse_optimize(handle)
    name = "mkl_sparse_s_mv" if n == 1 else "mkl_sparse_s_mm"
    function = library[name]
    places = [
        (ctypes.c_void_p(b), ctypes.c_void_p(c))
        for b, c in zip(mapped.addresses("B"), mapped.addresses("C"), strict=True)
    ]

    kept = (mapped, given)

    def time(calls: int, first: int) -> int:
        assert all(kept)  # what the pointers lead to lives as long as this function
        failed, start = 0, perf_counter_ns()
        for number in range(first, first + calls):
            b, c = places[number % len(places)]
            rest = (b, one, c) if n == 1 else (ROW_MAJOR, b, n, n, one, c, n)
            failed |= int(function(NO_TRANSPOSE, one, handle, description, *rest))
        ns = perf_counter_ns() - start
        return -1 if failed else ns

    return Ready(time, name, False)
