"""Simulated annealing: random changes, of which worse ones are accepted less often as the search proceeds.

It looks at the same candidates as greedy, which it starts from, and leaves the valleys in which greedy stays.
The number of steps is fixed, so that the answer does not depend on the clock unless the limit is very short.
Source: Kirkpatrick, Gelatt, Vecchi, Optimization by Simulated Annealing, Science 220, 1983.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from math import exp

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.search.assembling import Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import solve_all
from isamap.scheduler.search.greedy import SAME, all_moves, first_assignment, first_candidate

STEPS = 2000
SEED = 0
HOTTEST, COLDEST = 0.1, 0.001  # of the first schedule's cost: what a bad step may add
JUMPS = 0.1  # share of steps that take another mapping or register block


class Annealing:
    """The simulated annealing heuristic."""

    name = "annealing"

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """Return a schedule of every statement. Raises: Infeasible."""
        deadline = time.monotonic() + limit_s

        def solve(nest: NestProblem, options: tuple[OpenOption, ...], left: int) -> Solved:
            return self._anneal(nest, options, (deadline - time.monotonic()) / left, fixed)

        return assemble(problem, model.name, solve_all(problem, model, fixed, solve))

    def _anneal(
        self, nest: NestProblem, options: tuple[OpenOption, ...], limit_s: float, fixed: Mapping[str, int]
    ) -> Solved:
        first = best = current = first_candidate(nest, options, fixed)
        floor = min(best.cost_ns, *(option.floor_ns for option in options))
        stop = time.monotonic() + limit_s
        rng = random.Random(SEED)
        is_whole = True
        for step in range(STEPS if best.cost_ns > 0 else 0):  # nothing is better than free
            if time.monotonic() > stop:
                is_whole = False
                break
            heat = best.cost_ns * HOTTEST * (COLDEST / HOTTEST) ** (step / STEPS)
            found = _neighbour(current, options, rng)
            if found is None:
                continue
            if found.cost_ns <= current.cost_ns or rng.random() < exp(
                (current.cost_ns - found.cost_ns) / heat
            ):
                current = found
            if found.cost_ns < best.cost_ns * (1 - SAME):
                best = found
        found_by = "greedy" if best is first else self.name
        return Solved(best, floor, "HEURISTIC", is_whole, found_by=found_by, proved_by="lower bounds")


def _neighbour(current: Candidate, options: Sequence[OpenOption], rng: random.Random) -> Candidate | None:
    """Return a schedule that differs in one random decision, or None if it is not feasible."""
    option = current.option
    if rng.random() < JUMPS:
        option = rng.choice(options)
        assignment = first_assignment(option.space, rng.choice(option.register_blocks))
    else:
        changes = list(all_moves(option, current.assignment))
        assignment = {**current.assignment, **rng.choice(changes)} if changes else None
    if assignment is None or not option.space.is_feasible(assignment):
        return None
    return candidate_of(option, assignment)
