"""What it costs that axes are cut into few numbers of blocks only: solved again with every number.

    python benchmarks/block_counts.py [--cases 42] [--effort 4] > block-counts.txt

The scheduler cuts an axis into 1, 2, 3, 4, 6, 8, 12, 16, … blocks, and no sum into runs of fewer than eight
issues. Here every number of blocks is allowed, each with the smallest block that makes it: a larger block of
the same number never costs less. `better` is how much cheaper the best schedule found with all of them is, by
the model; `at most` how much cheaper any can be: what the solver has proven. Both start from the schedule
that is found with few.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import cache
from math import isqrt
from unittest.mock import patch

from scheduling_cases import Case, all_cases

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.problem import NestProblem, Problem, TileAxis
from isamap.plan.schedule import Schedule
from isamap.scheduler import AnalyticModel, Candidate, OpenOption, candidate_of, open_options, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.nests.pricing import read_nest
from isamap.scheduler.process.exchange import Search, SearchLimits
from isamap.scheduler.process.solve import search
from isamap.scheduler.search.greedy import SAME, first_assignment
from isamap.scheduler.search.lower_bounds import floors_of
from isamap.scheduler.statement_model import OpenOptionModel
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit

MODEL = AnalyticModel()


def main() -> None:
    """One line per case, then the worst of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=42)
    parser.add_argument("--effort", type=float, default=4.0, help="of the solver, in its own measure")
    options = parser.parse_args()
    print(f"command: python benchmarks/block_counts.py --cases {options.cases} --effort {options.effort:g}")
    print(f"{'case':34} {'few ms':>10} {'all ms':>10} {'better':>8} {'at most':>8} {'seconds':>8}  otherwise")
    losses: list[tuple[float, float]] = []
    for case in _sample(options.cases):
        began = time.process_time()
        problem = _problem(case)
        few = schedule(problem, limit_s=60)
        best_ns, bound_ns, changed = _with_all_counts(problem, few, options.effort)
        assert few.cost_ns
        better, most = 1 - best_ns / few.cost_ns, 1 - bound_ns / few.cost_ns
        losses.append((better, most))
        spent = time.process_time() - began
        print(
            f"{case.name:34} {few.cost_ns / 1e6:10.4f} {best_ns / 1e6:10.4f} {100 * better:6.2f} % "
            f"{100 * most:6.2f} % {spent:8.1f}  {changed}",
            flush=True,
        )
    print(f"{len(losses)} cases; better by more than 1 %: {sum(b > 0.01 for b, _ in losses)}; ", end="")
    print(f"proven to lose at most 1 %: {sum(m <= 0.01 for _, m in losses)}; ", end="")
    better = [100 * b for b, _ in losses]
    print(f"worst found {max(better):.2f} %, mean {sum(better) / len(better):.3f} %")


def _sample(count: int) -> list[Case]:
    """Shapes from all suites, for three machines in turns: the third takes what the second does."""
    found = all_cases()
    rows = -(-count // 3)
    third = [replace(case, machine="x86-avx2") for case in found if case.machine == "x86-avx512"]
    own = [[case for case in found if case.machine == machine] for machine in ("x86-avx512", "x86-amx")]
    machines = (own[0], third, own[1])
    lists = [[cases[(2 * i + 1) * len(cases) // (2 * rows)] for i in range(rows)] for cases in machines]
    return [case for row in zip(*lists, strict=True) for case in row]


def _problem(case: Case) -> Problem:
    kernel = make_guards_explicit(bind(parse_kernel(case.kernel), case.sizes))
    return build_problem(kernel, load_machine(case.machine), case.sizes)


def _with_all_counts(problem: Problem, few: Schedule, effort: float) -> tuple[float, float, str]:
    """Cost and bound with every number of blocks, and which decisions differ. Units: nanoseconds."""
    cost_ns, bound_ns = 0.0, 0.0
    changed: list[str] = []
    with patch.object(Space, "blocks", _all_blocks):
        for nest in problem.nests:
            best_ns, least_ns, differs = _solved(problem, nest, few, effort)
            cost_ns, bound_ns = cost_ns + best_ns, bound_ns + least_ns
            changed += differs
    return cost_ns, bound_ns, ", ".join(changed)


def _solved(
    problem: Problem, nest: NestProblem, few: Schedule, effort: float
) -> tuple[float, float, list[str]]:
    """Cost, bound, and the decisions that differ. Units: nanoseconds."""
    read = read_nest(problem, nest, next(n for n in few.nests if n.statement == nest.statement))
    assert read is not None, "the solver's own schedules can be read"
    option, assignment = read
    options = open_options(problem, nest, MODEL, {})
    first = candidate_of(next(o for o in options if o.space.option == option), assignment)
    contenders = [found for o in options if (found := _contender(o, first)) is not None]
    if not contenders:
        return first.cost_ns, first.cost_ns, []
    contenders.sort(key=lambda c: c.start is not first)
    floor = min(first.cost_ns, *(min(c.floors_ns) for c in contenders))
    holds_best = contenders[0].start is first
    found = search(
        Search(tuple(contenders), first.cost_ns, floor, SearchLimits(600.0, effort), holds_best),
        lambda _: None,
    )
    if found.contender < 0:
        return first.cost_ns, max(floor, min(found.bound_ns, first.cost_ns)), []
    start = contenders[found.contender].start
    best = candidate_of(start.option, {**start.assignment, **found.assignment})
    if best.cost_ns >= first.cost_ns * (1 - SAME):
        return first.cost_ns, min(found.bound_ns, first.cost_ns), []
    if best.option is not first.option:
        return best.cost_ns, found.bound_ns, [f"mapping {best.option.space.option.mapping.split()[0]}"]
    pairs = ((name, value, best.assignment[name]) for name, value in assignment.items())
    return (
        best.cost_ns,
        found.bound_ns,
        [f"{name.partition('.')[2]} {old} to {new}" for name, old, new in pairs if old != new],
    )


def _contender(option: OpenOption, first: Candidate) -> OpenOptionModel | None:
    """Return an option with those of its register blocks that may be cheaper than what is known."""
    floors = floors_of(option.cost, option.space, option.register_blocks)
    below = [(f, b) for f, b in zip(floors, option.register_blocks, strict=True) if f < first.cost_ns]
    if not below:
        return None
    least, blocks = zip(*below, strict=True)
    if option is first.option:
        return OpenOptionModel(first, blocks, least)
    made = next((made for b in blocks if (made := first_assignment(option.space, b)) is not None), None)
    return None if made is None else OpenOptionModel(candidate_of(option, made), blocks, least)


def _all_blocks(space: Space, axis: TileAxis, unroll: int) -> tuple[int, ...]:
    """Return every number of blocks, in place of `Space.blocks`, without anything fixed."""
    step = unroll * axis.tile
    sizes = _sizes(-(-axis.extent // step))
    return tuple(sorted({axis.extent, *(n * step for n in sizes if n * step < axis.extent)}, reverse=True))


@cache
def _sizes(trips: int) -> frozenset[int]:
    """Turns in a block, for every number of blocks: few numbers or few turns."""
    root = isqrt(trips) + 1
    return frozenset(-(-trips // count) for r in range(1, root + 1) for count in (r, -(-trips // r)))


if __name__ == "__main__":
    main()
