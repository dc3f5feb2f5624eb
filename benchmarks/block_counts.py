"""What it costs that axes are cut into few numbers of blocks only: solved again with every number.

    python benchmarks/block_counts.py [--cases 42] [--seconds 30] > benchmarks/results/DATE-block-counts.txt

The scheduler cuts an axis into 1, 2, 3, 4, 6, 8, 12, 16, … blocks, and no sum into runs of fewer than eight
issues. Here every number of blocks is allowed, each with the smallest block that makes it: a larger block of the
same number never costs less. `better` is how much cheaper the best schedule found with all of them is, by the
model; `at most` how much cheaper any can be: what the solver has proven. Both start from the schedule that is
found with few.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

from scheduling_cases import Case, all_cases

from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.build import build_problem
from isamap.plan.problem import NestProblem, Problem, TileAxis
from isamap.scheduler import AnalyticModel, decided, open_options, schedule
from isamap.scheduler.answer import Schedule
from isamap.scheduler.cpsat import solve_nest
from isamap.scheduler.exchange import Limits
from isamap.scheduler.isolate import ask_here
from isamap.scheduler.pricing import read_nest
from isamap.scheduler.space import Space
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

MODEL = AnalyticModel()
EFFORT = 0.5  # of the solver, per second of the limit


def main() -> None:
    """One line per case, then the worst of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=42)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    print(f"command: python benchmarks/block_counts.py --cases {options.cases} --seconds {options.seconds:g}")
    print(
        f"{'case':34} {'few ms':>10} {'all ms':>10} {'better':>8} {'at most':>8} {'seconds':>8}  decided otherwise"
    )
    losses: list[tuple[float, float]] = []
    for case in _sample(options.cases):
        began = time.monotonic()
        problem = _problem(case)
        few = schedule(problem, limit_s=options.seconds)
        best_ns, bound_ns, changed = _with_all_counts(problem, few, options.seconds)
        assert few.cost_ns
        better, most = 1 - best_ns / few.cost_ns, 1 - bound_ns / few.cost_ns
        losses.append((better, most))
        spent = time.monotonic() - began
        print(
            f"{case.name:34} {few.cost_ns / 1e6:10.4f} {best_ns / 1e6:10.4f} {100 * better:6.2f} % "
            f"{100 * most:6.2f} % {spent:8.1f}  {changed}",
            flush=True,
        )
    print(f"{len(losses)} cases; better by more than 1 %: {sum(b > 0.01 for b, _ in losses)}; ", end="")
    print(f"proven to lose at most 1 %: {sum(m <= 0.01 for _, m in losses)}; ", end="")
    print(
        f"worst found {100 * max(b for b, _ in losses):.2f} %, mean {100 * _mean([b for b, _ in losses]):.3f} %"
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sample(count: int) -> list[Case]:
    """Shapes from all suites, for three machines in turns: the third takes what the second does."""
    found = all_cases()
    third = [replace(case, machine="x86-avx2") for case in found if case.machine == "x86-avx512"]
    machines = [[c for c in found if c.machine == m] for m in ("x86-avx512", "x86-amx")]
    each = [-(-count // 3) + (n < count % 3) - (count % 3 > 0) for n in range(3)]
    lists = zip((machines[0], third, machines[1]), each, strict=True)
    return [cases[(2 * i + 1) * len(cases) // (2 * n)] for cases, n in lists for i in range(n)]


def _problem(case: Case) -> Problem:
    kernel = make_guards_explicit(bind(parse_kernel(case.kernel), case.sizes))
    return build_problem(kernel, load_machine(case.machine), case.sizes)


def _with_all_counts(problem: Problem, few: Schedule, limit_s: float) -> tuple[float, float, str]:
    """Cost and bound with every number of blocks, and which decisions differ. Units: nanoseconds."""
    cost_ns, bound_ns = 0.0, 0.0
    changed: list[str] = []
    with patch.object(Space, "blocks", _all_blocks):
        for nest in problem.nests:
            best_ns, least_ns, differs = _solved(problem, nest, few, limit_s)
            cost_ns, bound_ns = cost_ns + best_ns, bound_ns + least_ns
            changed += differs
    return cost_ns, bound_ns, ", ".join(changed)


def _solved(
    problem: Problem, nest: NestProblem, few: Schedule, limit_s: float
) -> tuple[float, float, list[str]]:
    read = read_nest(problem, nest, next(n for n in few.nests if n.statement == nest.statement))
    assert read is not None, "the solver's own schedules can be read"
    option, assignment = read
    options = open_options(problem, nest, MODEL, {})
    own = next(o for o in options if o.space.option == option)
    first = decided(own, assignment)
    found = solve_nest(options, first, Limits(limit_s, EFFORT * limit_s), ask=ask_here)
    best = found.candidate
    if best.option is not own:
        return best.cost_ns, found.bound_ns, [f"mapping {best.option.space.option.mapping.split()[0]}"]
    pairs = ((name, value, best.assignment.get(name)) for name, value in assignment.items())
    differs = [f"{name.partition('.')[2]} {old} to {new}" for name, old, new in pairs if old != new]
    return best.cost_ns, found.bound_ns, differs if best.cost_ns < first.cost_ns else []


def _all_blocks(space: Space, axis: TileAxis, unroll: int) -> tuple[int, ...]:
    """Every number of blocks, in place of `Space.blocks`, without anything fixed."""
    step = unroll * axis.tile
    trips = -(-axis.extent // step)
    sizes = {trips}
    inside = trips
    while inside > 1:  # the largest block that makes more blocks than this one
        inside = -(-trips // (-(-trips // inside) + 1)) if -(-trips // inside) < trips else 1
        sizes.add(inside)
    return tuple(sorted({axis.extent, *(n * step for n in sizes if n * step < axis.extent)}, reverse=True))


if __name__ == "__main__":
    main()
