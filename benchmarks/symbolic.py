"""One program for every M beside programs for one M each.

    python benchmarks/symbolic.py                                                  # gemm_f32 on x86-avx512
    python benchmarks/symbolic.py gemm_bf16 x86-avx512-bf16 1..8192@512 1..8192@1,2,35,512

An open program is compiled for all M with each of the profiles that are named, and called with each M. The
figures are how fast it is beside the program for that M alone (1.00: as fast; median over rounds of paired
ratios), which takes turns with it on the same data. `C` is the size of the emitted text.
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np
from alternate import prepared_call, program, source, turns

from isamap.driver.request import Request
from isamap.driver.runnable import prepare

PROFILES = ("1..8192@512", "1..8192@35", "1..8192@1,2,35,512")
VALUES = (1, 2, 3, 5, 8, 13, 35, 64, 100, 700)
OTHERS = {"N": 512, "K": 512}


def main() -> None:
    """Compile, compare results, take turns, print."""
    kernel, hw, *profiles = sys.argv[1:] or ("gemm_f32", "x86-avx512")
    text = source(kernel)
    opened = {name: prepare(Request(text, hw, {"M": name, **OTHERS})) for name in profiles or PROFILES}
    print(f"{kernel} on {hw}, N = {OTHERS['N']}, K = {OTHERS['K']}; speed beside the program for M alone")
    for name, made in opened.items():
        files = made.program.outcome.files
        schedules = [s for one in made.program.compilation.versions if (s := one.schedule)]
        shares = ", ".join(str(dict(s.sizes)["M"]) for s in schedules)
        several = f"; schedules for {shares}" if shares else ""
        print(f"  M={name}: C {len(files[f'{kernel}.c']):7d} bytes{several}")
    for m in VALUES:
        values = {"M": m, **OTHERS}
        alone, arrays, _ = program(text, hw, values, values)
        calls = {name: prepared_call(made.compiled, arrays, {"M": m}) for name, made in opened.items()}
        _compare(arrays["C"], {"alone": alone, **calls})
        times = turns({"alone": alone, **calls}, 11)
        speeds = "  ".join(f"@{name.partition('@')[2]} {_speed(times, name):5.2f}" for name in opened)
        print(f"  M = {m:5d}  alone {min(times['alone']) * 1e6:9.1f} us   {speeds}", flush=True)


def _speed(times: dict[str, list[float]], name: str) -> float:
    return median(a / b for a, b in zip(times["alone"], times[name], strict=True))


def _compare(result: np.ndarray, calls: dict[str, object]) -> None:
    """All programs add the same to C."""
    first: np.ndarray | None = None
    before = result.copy()
    for call in calls.values():
        result[...] = before
        assert callable(call)
        call()
        found = result.astype(np.float64)
        assert first is None or np.allclose(first, found, rtol=2e-2, atol=2e-2)
        first = found if first is None else first
    result[...] = before


if __name__ == "__main__":
    main()
