"""The timed loops in C (loops.h), built for this processor and called from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

FLAGS = ("-O2", "-std=gnu11", "-march=native")


@cache
def load_loops(path: str) -> ctypes.CDLL:
    """Return the library of loops, its functions typed."""
    library = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.time_program.argtypes = [pointer, pointer, pointer, pointer, number, number, number]
    for name in READS:
        function = getattr(library, name)
        function.argtypes, function.restype = [pointer, number, number, pointer], number
    for name in PRODUCTS:
        function = getattr(library, name)  # by attribute: an item is another object each time
        function.argtypes, function.restype = [pointer, pointer, number, number, number], number
    library.time_program.restype = number
    return library


READS = ("time_reads", "time_streams")
PRODUCTS = ("time_sgemm32", "time_sgemm64", "time_scompute", "time_bf16gemm", "time_u8gemm")


def build_loops() -> str:
    """Return the path of the built library. Raises: MissingTool without a C compiler."""
    from isamap.run.toolchain import build, find_compiler

    text = files("isamap.bench").joinpath("loops.h").read_text(encoding="utf-8")
    return str(build(find_compiler(FLAGS), FLAGS, {"loops.c": text}, "loops.c"))


class TimedProduct(ctypes.Structure):
    """The C type `product` of loops.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc")),
        ("transpose_a", ctypes.c_int32),
        ("transpose_b", ctypes.c_int32),
        ("beta", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c")),
    ]


def pointers(addresses: Sequence[int]) -> Any:
    """Return a C array of pointers."""
    return (ctypes.c_void_p * len(addresses))(*addresses)
