"""What greedy, annealing and CP-SAT find, by the same model: cost ratios, gaps and seconds.

    python benchmarks/heuristics.py [--limit 10] [--profile none]

Shapes of DeepBench and of layers of known networks, and the shipped kernels that are neither product nor
convolution. `ratio` is a heuristic's cost over the cheapest of the three; `gap` is what CP-SAT leaves open.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from math import exp, log
from statistics import median

from isamap.driver.api import source_of
from isamap.driver.pipeline import compile_kernel, find_schedule
from isamap.driver.request import Request
from isamap.plan.schedule import Schedule
from isamap.suites.shapes import BatchedProduct, Conv, read_suite

HEURISTICS = ("greedy", "annealing", "cpsat")
MACHINES = ("x86-avx512", "x86-amx")
PRODUCTS = {"deepbench-gemm": (0, 4, 9, 21, 40, 77, 110), "transformer-gemm": (0, 3, 50)}
CONVOLUTIONS = {"deepbench-conv": (0, 7, 20, 45), "resnet50-conv": (0, 2, 10, 21, 30), "mobilenet-conv": (2,)}
OTHERS = (
    ("gemv_f32", {"M": 4096, "K": 4096}),
    ("bmm_f32", {"L": 16, "M": 128, "N": 128, "K": 64}),
    ("depthwise", {"N": 1, "C": 64, "H": 56, "W": 56, "R": 3, "S": 3, "pad": 1}),
    ("conv1d", {"N": 4, "C": 64, "K": 64, "W": 256, "R": 5}),
)

Case = tuple[str, str, dict[str, int]]


@dataclass(frozen=True)
class Row:
    """One case under all heuristics. Units: seconds."""

    case: Case
    found: dict[str, Schedule]
    seconds: dict[str, float]

    def ratio(self, heuristic: str) -> float:
        """Return the heuristic's cost over the cheapest."""
        costs = {name: s.cost_ns or 0.0 for name, s in self.found.items()}
        return costs[heuristic] / min(costs.values())


def cases() -> list[Case]:
    """Kernel, machine and sizes of all cases."""
    found: list[Case] = []
    for suite, rows in PRODUCTS.items():
        shapes = read_suite(suite)
        for row in rows:
            shape = shapes[row]
            assert isinstance(shape, BatchedProduct)
            sizes = {"M": shape.m, "N": shape.n, "K": shape.k}
            found += [("gemm_f32", MACHINES[0], sizes), ("gemm_bf16", MACHINES[1], sizes)]
    for suite, rows in CONVOLUTIONS.items():
        shapes = read_suite(suite)
        for row in rows:
            shape = shapes[row]
            assert isinstance(shape, Conv)
            sizes = {"N": shape.n, "C": shape.c, "K": shape.k, "H": shape.h, "W": shape.w}
            sizes |= {"R": shape.r, "S": shape.s, "stride": shape.stride_h, "pad": shape.pad_h}
            found.append(("conv2d_nchw", MACHINES[0], sizes))
    return found + [(kernel, MACHINES[0], sizes) for kernel, sizes in OTHERS]


def main() -> int:
    """Print a row per case and a summary."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--limit", type=float, default=10.0, help="seconds for each heuristic")
    limit_s = options.parse_args().limit
    print(f"python benchmarks/heuristics.py --limit {limit_s:g}")
    columns = [f"{name} {what}" for name in HEURISTICS for what in ("ratio", "s")]
    print(f"{'case':62}{''.join(f'{c:>17}' for c in columns)}{'gap':>9}  status", flush=True)
    rows: list[Row] = []
    for case in cases():
        rows.append(measure(case, limit_s))
        print(row_text(rows[-1]), flush=True)
    print()
    for name in HEURISTICS:
        print(summary(name, rows))
    gaps = [row.found["cpsat"].gap or 0.0 for row in rows]
    proven = sum(1 for row in rows if row.found["cpsat"].status == "OPTIMAL")
    print(f"cpsat: {proven} of {len(rows)} proven optimal, gap at most {100 * max(gaps):.1f} %")
    return 0


def measure(case: Case, limit_s: float) -> Row:
    """Return what each heuristic finds for a case, and how long it takes."""
    kernel, machine, sizes = case
    request = Request(source_of(kernel), machine, sizes, limit_s=limit_s)
    problem = compile_kernel(request, "formulate").problem
    assert problem is not None
    found: dict[str, Schedule] = {}
    seconds: dict[str, float] = {}
    for name in HEURISTICS:
        started = time.perf_counter()
        found[name] = find_schedule(
            Request(source_of(kernel), machine, sizes, heuristic=name, limit_s=limit_s), problem
        )
        seconds[name] = time.perf_counter() - started
    return Row(case, found, seconds)


def row_text(row: Row) -> str:
    """Return one line of the table."""
    kernel, machine, sizes = row.case
    name = f"{kernel} {machine} {' '.join(f'{n}={v}' for n, v in sizes.items())}"
    cells = "".join(f"{row.ratio(h):17.4f}{row.seconds[h]:17.2f}" for h in HEURISTICS)
    best = row.found["cpsat"]
    return f"{name[:61]:62}{cells}{100 * (best.gap or 0.0):7.1f} %  {best.status}"


def summary(name: str, rows: list[Row]) -> str:
    """Return one heuristic over all cases."""
    ratios = [row.ratio(name) for row in rows]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    best = sum(1 for ratio in ratios if ratio < 1 + 1e-6)
    seconds = sorted(row.seconds[name] for row in rows)
    return (
        f"{name}: {mean:.4f} times the cheapest (geometric mean), at worst {max(ratios):.3f}, cheapest in "
        f"{best} of {len(rows)}; {median(seconds):.2f} s (median), {seconds[-1]:.2f} s at most"
    )


if __name__ == "__main__":
    sys.exit(main())
