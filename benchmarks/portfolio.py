"""`--portfolio` beside what it chooses from: our code, each installed library, and what was taken.

    python benchmarks/portfolio.py --rows 12              DeepBench's products, f32, spread over the suites
    python benchmarks/portfolio.py --vectors              products of a matrix and a vector, too
    python benchmarks/portfolio.py --hw x86-avx2          our code with fewer instructions than libraries take

What was taken is measured anew, beside all others in alternation: processor time of one thread, least call
of a turn, median over the rounds, in µs. `over fastest` is what was taken over the fastest of the others, the
median over rounds of the paired ratios; `noise` the same over the code that it is itself.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from statistics import median

from isamap.bench.cases import F32
from isamap.bench.kept_rows import spread_evenly
from isamap.bench.product_cases import gemm_cases, product_source
from isamap.driver.inputs import find_profile, machine_of, named_kernel
from isamap.driver.portfolio import check_ran, contender_of, measured_sizes, ready_calls, with_faster
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.libraries.description import shipped_libraries
from isamap.libraries.installed import find_installed
from isamap.source import IsamapError
from isamap.tune.implementation_choices import OURS
from isamap.tune.measured import SECONDS

TAKEN = "portfolio"
VECTORS = ((512, 512), (1760, 1760), (2560, 2560), (4096, 1024), (1024, 4096))
MOST_OPERATIONS = 600e6
"""Of a row: longer ones take minutes to be verified."""
Rounds = list[dict[str, float]]


def questions(rows: int, vectors: bool, hw: str) -> Iterator[tuple[str, Request]]:
    """Yield what is asked, each with a name."""
    machine = machine_of(hw)
    profile = find_profile("default", machine)
    cases = gemm_cases()
    small = [
        n for n in sorted(range(len(cases)), key=spread_evenly) if cases[n].operations <= MOST_OPERATIONS
    ]
    for m, k in VECTORS if vectors else ():
        yield f"vector {m}x{k}", Request(named_kernel("gemv_f32"), machine, {"M": m, "K": k}, profile=profile)
    for case in (cases[position] for position in small[:rows]):
        kernel = product_source(case, F32, 1)
        yield case.label, Request(kernel, machine, dict(case.bindings), profile=profile)


def measured(request: Request, rounds: int) -> tuple[str, Rounds]:
    """Return what was taken, and rounds of all; what was kept before is not asked."""
    libraries = shipped_libraries()
    ours = prepare(request)
    installed = [one for library in libraries if (one := find_installed(library)) is not None]
    ready, _ = ready_calls(ours, installed)
    taken = with_faster(replace(ours, request=replace(request, cache=False)), libraries)
    (sizes,) = measured_sizes(ours)
    every = {OURS: ours, **{t.name: t.prepared for t in ready}, TAKEN: taken}
    contenders = {name: contender_of(one, sizes) for name, one in every.items()}
    found: Rounds = []
    for number in range(rounds):
        order = list(contenders) if number % 2 else list(contenders)[::-1]
        found.append({name: contenders[name].turn(SECONDS) for name in order})
    for name, contender in contenders.items():
        check_ran(name, contender)
    return taken.program.outcome.summary["portfolio"]["chosen"], found


def ratio(found: Rounds, one: str, other: str) -> float:
    """Return the median over rounds of the paired ratios."""
    return median(costs[one] / costs[other] for costs in found)


def main() -> None:
    """Measure and print, row by row."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--hw", default="host", help="whose instructions our code has")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for the solver")
    parser.add_argument("--minutes", type=float, default=30.0, help="no row is begun later")
    given = parser.parse_args()
    stop = time.monotonic() + 60 * given.minutes
    gains: list[tuple[float, float]] = []
    print(f"{'m x n x k':>22} {'µs of each':50} {'taken':15} {'over fastest':>12} {'noise':>6}")
    for name, request in questions(given.rows, given.vectors, given.hw):
        if time.monotonic() > stop:
            break
        try:
            taken, found = measured(replace(request, limit_s=given.limit), given.rounds)
        except IsamapError as error:
            print(f"{name:>22} {error.diagnostics[0].message}", flush=True)
            continue
        others = [other for other in found[0] if other != TAKEN]
        fastest = min(others, key=lambda other: median(costs[other] for costs in found))
        times = ", ".join(f"{o} {median(c[o] for c in found) / 1e3:.1f}" for o in others)
        over, noise = ratio(found, TAKEN, fastest), ratio(found, TAKEN, taken)
        gains.append((ratio(found, OURS, TAKEN), over))
        print(f"{name:>22} {times:50} {taken:15} {over:12.3f} {noise:6.3f}", flush=True)
    means = [exp(sum(log(g[n]) for g in gains) / len(gains)) for n in (0, 1)]
    said = f"ours over taken {means[0]:.3f}, taken over fastest {means[1]:.3f}"
    print(f"{len(gains)} rows, geometric means: {said}")


if __name__ == "__main__":
    main()
