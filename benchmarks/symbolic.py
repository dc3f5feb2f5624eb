"""One program for every M beside programs for one M each.

    python benchmarks/symbolic.py > benchmarks/results/DATE-symbolic.txt

The open program is compiled for M = 1..8192 with a profile of 512, and called with each M. `slower` is how
much longer it takes than the program for that M alone; `source` is the size of the emitted C.
"""

from __future__ import annotations

from statistics import median

import numpy as np
from alternate import program, ratio, source, turns

from isamap.driver.prepare import prepare
from isamap.driver.request import Request

HW = "x86-avx512"
KERNEL = "gemm_f32"
OPEN: dict[str, int | str] = {"M": "1..8192@512", "N": 512, "K": 512}
VALUES = (1, 2, 17, 511, 512, 513, 1024, 8192)


def main() -> None:
    """Compile, compare results, take turns, print."""
    opened, alone = (len(_code({**OPEN, **more})) for more in ({}, {"M": 512}))
    print(f"{KERNEL} on {HW}, N = K = 512; source {opened} characters open, {alone} for M = 512")
    for m in VALUES:
        values = {"M": m, "N": 512, "K": 512}
        single, mine, _ = program(source(KERNEL), HW, values, values)
        every, its, _ = program(source(KERNEL), HW, OPEN, values)
        single()
        every()
        assert np.allclose(mine["C"], its["C"], rtol=1e-4, atol=1e-3)
        times = turns({"alone": single, "open": every}, 9)
        us = "  ".join(f"{name} {median(seconds) * 1e6:10.1f} us" for name, seconds in times.items())
        print(f"  M = {m:5d}  {us}  slower {ratio(times, 'open', 'alone'):5.2f} x", flush=True)


def _code(sizes: dict[str, int | str]) -> str:
    emitted = prepare(Request(source(KERNEL), HW, sizes)).program.compilation.emitted
    assert emitted is not None
    return emitted.source


if __name__ == "__main__":
    main()
