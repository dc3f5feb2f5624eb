"""A row-major matrix times a vector, and products with few columns: lanes over k or rows, one, OpenBLAS.

    python benchmarks/gemv.py > gemv.txt

One thread. Contenders take turns; medians are printed, and GB/s of the matrix.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from statistics import median

from alternate import program, ratio, source, turns

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

HW = "x86-avx512"
CASES = (
    ("gemv_f32", {"M": 256, "K": 512}),
    ("gemv_f32", {"M": 1760, "K": 1760}),
    ("gemv_f32", {"M": 2560, "K": 2560}),
    ("gemv_f32", {"M": 5124, "K": 2560}),
    ("gemm_f32", {"M": 1760, "N": 1, "K": 1760}),
    ("gemm_f32", {"M": 1760, "N": 2, "K": 1760}),
    ("gemm_f32", {"M": 2048, "N": 4, "K": 2048}),
    ("gemm_nt_f32", {"M": 2048, "N": 4, "K": 2048}),
)
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def main() -> None:
    """Compile, take turns, print. OpenBLAS reads its threads when it starts, hence the restart."""
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    for kernel, sizes in CASES:
        _case(kernel, sizes)


def _case(kernel: str, sizes: dict[str, int]) -> None:
    chosen, arrays, schedule = program(source(kernel), HW, sizes, sizes)
    contenders: dict[str, Callable[[], object]] = {f"chosen: {schedule.nests[0].mapping}": chosen}
    for name, number in _others(kernel, sizes).items():
        contenders[name] = program(source(kernel), HW, sizes, sizes, {"nest0.mapping": number})[0]
    a, b, c = (arrays[o.name] for o in parse_kernel(source(kernel)).operands)
    right = b.T if "nt" in kernel else b
    contenders["numpy (OpenBLAS)"] = lambda: c.__iadd__(a @ right)
    times = turns(contenders)
    print(kernel, sizes)
    first = next(iter(contenders))
    for name, seconds in times.items():
        gbytes = a.nbytes / median(seconds) / 1e9
        beside = ratio(times, name, first)
        print(f"  {median(seconds) * 1e6:10.1f} us {gbytes:6.1f} GB/s {beside:6.2f} x  {name}", flush=True)


def _others(kernel: str, sizes: dict[str, int]) -> dict[str, int]:
    """Mappings beside the chosen one: the longest vectors over rows, over columns, over k, and scalars."""
    bound = make_guards_explicit(bind(parse_kernel(source(kernel)), sizes))
    (nest,) = build_problem(bound, load_machine(HW), sizes).nests
    expected = ("fma_zmm_f32 { i: m }", "fma_zmm_f32 { i: n }", "fma_zmm_f32 { i: k }", "mac_f32")
    return {o.mapping: n for n, o in enumerate(nest.options) if o.mapping.startswith(expected)}


if __name__ == "__main__":
    main()
