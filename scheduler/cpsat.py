"""CP-SAT decides a statement: mapping, register block, cache blocks, loop orders, staging, all at once.

It starts from what greedy found: options and register blocks whose floor lies above that cost are proven
useless and left out, its decisions are the hint, and it stays the answer when nothing better turns up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isamap.plan.problem import Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.assemble import Solved, assemble
from isamap.scheduler.candidates import Candidate, OpenOption, decided, floor_of, open_options
from isamap.scheduler.greedy import SAME, first_candidate, greedy_candidate
from isamap.scheduler.model import Contender, NestModel, build_model, read_assignment
from isamap.scheduler.terms import TooLarge

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

SEED = 0
# Solver effort per second of the wall-clock limit: so little that the clock stops it on slow machines only.
DETERMINISTIC_SHARE = 0.2
# How many integer steps the cost of the best known schedule has: finest first, as far as 64 bits allow.
RESOLUTIONS = (1 << 42, 1 << 36, 1 << 30)


# What rounding costs to whole steps may hide, as a fraction: more is not called optimal.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop. Units: seconds of wall clock, and the solver's own measure of effort."""

    wall_s: float
    effort: float


class CpSat:
    """The solver, hinted by greedy."""

    name = "cpsat"

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """The best schedule within the limit, with what is proven about it. Raises: Infeasible."""
        deadline = time.monotonic() + limit_s
        effort = DETERMINISTIC_SHARE * limit_s / max(1, len(problem.nests))
        solved: list[Solved] = []
        for position, nest in enumerate(problem.nests):
            options = open_options(problem, nest, model, fixed)
            first = first_candidate(nest, options, fixed)
            left_s = (deadline - time.monotonic()) / (len(problem.nests) - position)
            solved.append(solve_nest(options, first, Limits(left_s, effort)))
        return assemble(problem, model.name, solved)


def solve_nest(
    options: Sequence[OpenOption], first: Candidate, limits: Limits, without: Sequence[Candidate] = ()
) -> Solved:
    """The best schedule of a statement within the limits, with what is proven about it.

    The solver does not look at those in `without`, of which `first` is none.
    """
    contenders, floor = _contenders(options, first)
    if floor >= first.cost_ns * (1 - SAME):
        return Solved(first, first.cost_ns, "OPTIMAL", reproducible=True)
    if limits.wall_s <= 0:
        return Solved(first, floor, "FEASIBLE", reproducible=False)
    for resolution in RESOLUTIONS:
        try:
            nest_model = build_model(contenders, first.cost_ns, resolution, without)
        except TooLarge:
            continue
        solver, status = _solve(nest_model, limits)
        # The first schedule is feasible: a solver that denies it has run out of bits.
        if status != "INFEASIBLE":
            return _best_of(first, floor, nest_model, solver, status, limits)
    return Solved(first, floor, "FEASIBLE", reproducible=True)


def _best_of(
    first: Candidate,
    floor: float,
    nest_model: NestModel,
    solver: cp_model.CpSolver,
    status: str,
    limits: Limits,
) -> Solved:
    """What the solver found, or the first schedule where that is as good."""
    best, bound = first, floor
    if status in ("OPTIMAL", "FEASIBLE"):
        option = next(o for o in nest_model.options if solver.boolean_value(o.selected))
        found = decided(option.contender.start.option, read_assignment(option, solver))
        best = found if found.cost_ns < first.cost_ns * (1 - SAME) else first
        bound = max(floor, solver.best_objective_bound / nest_model.scale)
    stopped = status != "OPTIMAL" and solver.wall_time >= limits.wall_s
    is_tight = bound >= best.cost_ns * (1 - ROUNDING)
    word = "OPTIMAL" if status == "OPTIMAL" and is_tight else "FEASIBLE"
    spent = float(solver.response_proto.deterministic_time)
    return Solved(best, min(bound, best.cost_ns), word, reproducible=not stopped, effort=spent)


def _contenders(options: Sequence[OpenOption], first: Candidate) -> tuple[list[Contender], float]:
    """What may still beat the first schedule, its own option foremost, and what nothing undercuts."""
    found: list[Contender] = []
    floors = [first.cost_ns]
    for option in sorted(options, key=lambda o: o is not first.option):
        if option.floor_ns >= first.cost_ns:
            continue
        below = [(floor_of(option, block), block) for block in option.register_blocks]
        below = [(floor, block) for floor, block in below if floor < first.cost_ns]
        start = first if option is first.option else greedy_candidate([option])
        if below and start is not None:
            own = {
                axis.name: start.assignment[option.space.unroll(axis)] for axis in option.space.register_axes
            }
            if own not in [block for _, block in below]:
                below.append((floor_of(option, own), own))
            least, blocks = zip(*below, strict=True)
            found.append(Contender(start, blocks, least))
            floors.append(min(least))
    return found, min(floors)


def _solve(nest_model: NestModel, limits: Limits) -> tuple[cp_model.CpSolver, str]:
    """A solver that has run; again in another configuration where it says that nothing is feasible."""
    solver, status = _run(nest_model, limits, presolve=True)
    if status == "INFEASIBLE":
        return _run(nest_model, limits, presolve=False)
    return solver, status


def _run(nest_model: NestModel, limits: Limits, *, presolve: bool) -> tuple[cp_model.CpSolver, str]:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    # One worker: several under a wall clock gave a different schedule each time, and were no faster here.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = SEED
    # Products relax badly, and greedy's answer is near the best: without linear relaxations the proof for a
    # GEMM takes 2 s instead of more than 6, and 0.4 s when the search starts around the hint.
    solver.parameters.linearization_level = 0
    solver.parameters.search_branching = cp_model.HINT_SEARCH
    solver.parameters.max_deterministic_time = limits.effort
    solver.parameters.max_time_in_seconds = limits.wall_s
    solver.parameters.cp_model_presolve = presolve
    status = solver.status_name(solver.solve(nest_model.model))
    assert status != "MODEL_INVALID", nest_model.model.validate()
    return solver, status
