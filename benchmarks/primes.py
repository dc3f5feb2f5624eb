"""Sizes that nothing divides: chosen tiles and utilisation, beside those of the next round size.

    python benchmarks/primes.py [--measure] > primes.txt

`utilisation` is the model's: the share of its time in which all lanes of the multiplying unit work on
elements that there are. `lost` is how much less that is than at the round size. With --measure the two run in
iterations, and `slower` is how much longer an operation takes.
"""

from __future__ import annotations

import sys
from math import prod
from statistics import median

from alternate import program, ratio, source, turns

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.problem import NestOption, Problem
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.scheduler.answer import schedule
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

Sizes = dict[str, int]
GEMM = [
    ({"M": m, "N": n, "K": k}, {"M": -(-m // 16) * 16, "N": -(-n // 16) * 16, "K": -(-k // 16) * 16})
    for m, n, k in (
        (17, 17, 17),
        (31, 31, 31),
        (127, 127, 127),
        (127, 1009, 31),
        (509, 509, 509),
        (1009, 1009, 1009),
    )
]
IMAGE = {"N": 1, "R": 3, "S": 3, "pad": 1, "stride": 1}
CONV = [
    (IMAGE | {"C": c, "K": k, "H": h, "W": h}, IMAGE | {"C": r, "K": s, "H": t, "W": t})
    for (c, k, h), (r, s, t) in (((31, 61, 29), (32, 64, 32)), ((17, 127, 13), (32, 128, 16)))
]
CASES = (
    ("gemm_f32", "x86-avx512", GEMM),
    ("gemm_u8s8", "x86-avx512-vnni", GEMM),
    ("gemm_u8s8", "x86-amx", GEMM),
    ("conv2d_nhwc", "x86-avx512", CONV),
)


def main() -> None:
    """Schedule, perhaps run, print."""
    measured = "--measure" in sys.argv
    for kernel, hw, pairs in CASES:
        print(f"{kernel} on {hw}")
        for odd, even in pairs:
            found = [_planned(kernel, hw, sizes) for sizes in (odd, even)]
            shares = [_utilisation(*one) for one in found]
            words = [_tile(*one) for one in found]
            slower = (
                f"  slower {_slower(kernel, hw, odd, even):5.2f} x" if measured and hw != "x86-amx" else ""
            )
            image = IMAGE if kernel.startswith("conv") else {}
            shown = " x ".join(str(v) for n, v in odd.items() if n not in image)
            lost = 1 - shares[0] / shares[1]
            print(f"  {shown:18s} {words[0]:34s} utilisation {shares[0]:.2f}, round {words[1]:34s}", end="")
            print(f" {shares[1]:.2f}, lost {100 * lost:5.1f} %{slower}", flush=True)


def _planned(kernel: str, hw: str, sizes: Sizes) -> tuple[Problem, Schedule]:
    bound = make_guards_explicit(bind(parse_kernel(source(kernel)), sizes))
    problem = build_problem(bound, load_machine(hw), sizes)
    return problem, schedule(problem)


def _chosen(problem: Problem, found: Schedule) -> tuple[NestOption, NestSchedule]:
    """Return the nest with most iterations, and its option."""
    options = {(n.statement, o.mapping, o.choose): o for n in problem.nests for o in n.options}
    pairs = [(options[nest.statement, nest.mapping, nest.choose], nest) for nest in found.nests]
    return max(pairs, key=lambda pair: _iterations(pair[0]))


def _iterations(option: NestOption) -> int:
    return prod(axis.extent for axis in option.axes)


def _utilisation(problem: Problem, found: Schedule) -> float:
    """Return the time of the iterations at the best rate of any mapping, as a share of the cost."""
    option, nest = _chosen(problem, found)
    others = next(n for n in problem.nests if n.statement == nest.statement).options
    rate = min(o.interval_ns / prod(a.tile for a in o.axes) for o in others if o.interval_ns)
    return _iterations(option) * rate / (found.cost_ns or 1.0)


def _tile(problem: Problem, found: Schedule) -> str:
    """Return the instruction, and its register block: m by 6, n by 64."""
    option, nest = _chosen(problem, found)
    unrolled = {loop.axis for loop in nest.loops if loop.is_unrolled}
    steps = {loop.axis: loop.step for loop in nest.loops if loop.counts}
    block = [f"{a} {s}" for a, s in steps.items() if a in unrolled or s > 1]
    return f"{option.mapping.split()[0]}: {', '.join(block)}"


def _slower(kernel: str, hw: str, odd: Sizes, even: Sizes) -> float:
    calls = {name: program(source(kernel), hw, s, s)[0] for name, s in (("odd", odd), ("even", even))}
    times = turns(calls, 9)
    work = [prod(v for n, v in s.items() if n not in ("pad", "stride")) for s in (odd, even)]
    assert median(times["odd"]) > 0
    return ratio(times, "odd", "even") * work[1] / work[0]


if __name__ == "__main__":
    main()
