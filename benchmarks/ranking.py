"""The order in which the cost model puts schedules, against the order in which this processor does.

    python benchmarks/ranking.py measure --store ranking.jsonl
    python benchmarks/ranking.py report --store ranking.jsonl --profile none
    python benchmarks/ranking.py report --store ranking.jsonl --profile default -o ranking.txt
    python benchmarks/ranking.py report --store amx.jsonl --hw x86-amx --profile profile.json --half odd

Per case (a product of public suites in one type) ten distinct schedules: what greedy, annealing and CP-SAT
find, and others of a random walk around them, spread evenly over predicted costs up to three times the best.
They are compiled once and called in turn, in another order each round; one thread; random data. `measure`
goes on where it was interrupted. `report` prices the same schedules anew, with any profile, so that a change
of the model is judged without measuring again, on any computer. What is tuned by looking at the even cases of
a store is judged by the odd ones.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from math import exp, log
from pathlib import Path

from ranking_cases import cases
from ranking_report import judge, report
from ranking_times import measure_schedules

from isamap.driver.pipeline import compile_kernel
from isamap.machine import detect_machine
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.answer import schedule as solve
from isamap.scheduler.search.assembling import Solved, assemble
from isamap.scheduler.search.candidates import Candidate, candidate_of, open_options
from isamap.scheduler.search.greedy import first_assignment, first_candidate, moves

CANDIDATES = 10
WIDEST = 3.0  # how many times the best predicted cost a candidate may have
STEPS = 400
SECONDS = 1.2
HALVES = {
    "all": (0, 1),
    "even": (0,),
    "odd": (1,),
}  # by pairs of cases, which stores have one after the other


# --- candidates -------------------------------------------------------------------------------------------


def candidates(problem: Problem, limit_s: float) -> list[Schedule]:
    """Ten schedules with different loops: those that are found, and others evenly spread behind them."""
    found = [solve(problem, heuristic=h, limit_s=limit_s) for h in ("cpsat", "annealing", "greedy")]
    chosen = list({s.nests: s for s in found}.values())
    best = min(s.cost_ns or 0.0 for s in chosen)
    others = {s.nests: s for s in walk(problem) if (s.cost_ns or 0.0) <= WIDEST * best}
    rest = sorted((s for n, s in others.items() if n not in {c.nests for c in chosen}), key=_cost)
    missing = CANDIDATES - len(chosen)
    if len(rest) > missing:
        # Evenly by the logarithm of the cost: a factor counts as much near the best as far from it.
        marks = [
            _cost(rest[0]) * (_cost(rest[-1]) / _cost(rest[0])) ** (i / (missing - 1)) for i in range(missing)
        ]
        picked: list[Schedule] = []
        for mark in marks:
            left = [s for s in rest if s not in picked]
            picked.append(min(left, key=lambda s: abs(log(_cost(s) / mark))))
        rest = picked
    return sorted([*chosen, *rest[:missing]], key=_cost)


def _cost(schedule: Schedule) -> float:
    return schedule.cost_ns or 0.0


def walk(problem: Problem) -> Iterator[Schedule]:
    """Schedules on the way of random changes, of which bad ones are mostly not followed."""
    model = load_cost_model("analytic")
    rng = random.Random(0)
    (nest,) = problem.nests
    options = open_options(problem, nest, model, {})
    best = current = first_candidate(nest, options, {})
    for _ in range(STEPS):
        option = current.option
        if rng.random() < 0.15:
            option = rng.choice(options)
            assignment = first_assignment(option.space, rng.choice(option.register_blocks))
        else:
            changes = list(moves(option, current.assignment))
            assignment = {**current.assignment, **rng.choice(changes)} if changes else None
        if assignment is None or not option.space.is_feasible(assignment):
            continue
        found: Candidate = candidate_of(option, assignment)
        if found.cost_ns < best.cost_ns:
            best = found
        if found.cost_ns <= current.cost_ns or rng.random() < exp(
            (current.cost_ns - found.cost_ns) / best.cost_ns
        ):
            current = found
        yield assemble(problem, model.name, [Solved(found, 0.0, "HEURISTIC", True)])


# --- the command ------------------------------------------------------------------------------------------


def main() -> None:
    """Measures, or reports."""
    options = _options()
    store = Path(options.store)
    lines = store.read_text().splitlines() if store.exists() else []
    done = {entry["case"]: entry for entry in map(json.loads, lines)}
    if options.what == "measure":
        expected = [
            c
            for c in cases(options.held_out)
            if not options.cases or any(w in c.name for w in options.cases.split(","))
        ]
        for number, case in enumerate(expected, 1):
            if case.name in done:
                continue
            started = time.perf_counter()
            made = compile_kernel(case.request(detect_machine(), "none"), "formulate")
            assert made.problem
            entry = measure_schedules(case, made, candidates(made.problem, options.limit), options.seconds)
            with store.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            took = time.perf_counter() - started
            print(f"{number} of {len(expected)}: {case.name}, {took:.1f} s", file=sys.stderr, flush=True)
        return
    machine = options.hw or detect_machine()
    entries = [e for n, e in enumerate(done.values()) if n // 2 % 2 in HALVES[options.half]]
    head = [f"{store.name}: {len(entries)} cases ({options.half}), priced for {machine}"]
    problems = Path(options.problems) if options.problems else store.with_suffix(".problems")
    for profile in options.profile.split(","):
        judged = [judge(e, machine, profile, problems) for e in entries]
        head += ["", *report(judged, "the description's" if profile == "none" else f"profile {profile}")]
    text = "\n".join(head) + "\n"
    if options.o:
        Path(options.o).write_text(text)
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "report"))
    parser.add_argument("--store", required=True, help="a file of one line per case, appended to")
    parser.add_argument("--cases", default="", help="only those whose name has one of these words")
    parser.add_argument("--held-out", action="store_true", help="other cases, which nothing was chosen by")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of calls per case")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for the solver per case")
    parser.add_argument("--profile", default="none,default", help="words of --profile, with commas")
    parser.add_argument("--hw", help="the machine that a report is about; the one that fits this processor")
    parser.add_argument("--half", choices=HALVES, default="all", help="which cases of the store to report")
    parser.add_argument("--problems", help="a folder that keeps problems between reports")
    parser.add_argument("-o", help="write the report here as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
