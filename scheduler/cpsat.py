"""Schedule a statement with CP-SAT: mapping, register block, cache blocks, loop orders and staging at once.

It starts from the schedule of the greedy heuristic. Options and register blocks whose lower bound exceeds
that cost are proven useless and left out. The greedy decisions are the solver's hint, and they remain the
answer if the solver finds nothing better. The solver itself runs in another process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.scheduler.deciding.software_pipelining import no_pipelining
from isamap.scheduler.process.exchange import Search, SearchLimits, SearchResult
from isamap.scheduler.process.isolate import SolverAnswer, ask_apart, warn_of_failure
from isamap.scheduler.search.assembling import ROUNDING, Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import solve_all
from isamap.scheduler.search.greedy import SAME, all_moves, descend, first_candidate, greedy_candidate
from isamap.scheduler.search.lower_bounds import floors_of
from isamap.scheduler.search.splitting import raised_floors
from isamap.scheduler.statement_model import OpenOptionModel
from isamap.source import Diagnostic, dataclass, replace

# Solver effort per second of the wall-clock limit: so little that the clock stops it on slow machines only.
DETERMINISTIC_SHARE = 0.2
# How much of its time a search may spend before it looks at what crosses iterations.
FIRST_STEP = 0.6
# What the engines are called that find and prove.
SOLVER, FLOORS, SPLITTING = "CP-SAT", "lower bounds", "splitting"
# How much of its effort the solver spends before splitting makes cuts for it: enough for most problems. By
# the clock it may be half of the time, as on a busy machine its process may be late to start.
GLANCE, GLANCE_WALL = 0.05, 0.5

Ask = Callable[[Search], SolverAnswer]


@dataclass(frozen=True, slots=True)
class CpSat:
    """The solver, started from the greedy schedule. `ask` calls it in a child process.

    Without `splits` it also searches the options that splitting would have excluded.
    """

    ask: Ask = ask_apart
    splits: bool = True
    name: str = "cpsat"

    def schedule(
        self, problem: Problem, model: CostModel, *, limit_s: float, fixed: Mapping[str, int]
    ) -> Schedule:
        """Return the best schedule within the limit, with what is proven about it. Raises: Infeasible."""
        stop = time.monotonic() + limit_s
        effort = DETERMINISTIC_SHARE * limit_s / max(1, len(problem.nests))

        def solve(nest: NestProblem, options: tuple[OpenOption, ...], left: int) -> Solved:
            has_all = time.monotonic() < stop
            first = first_candidate(nest, options, fixed, stop)
            left_s = (stop - time.monotonic()) / left
            if not has_all:  # options may be missing, so that nothing is proven
                return Solved(first, 0.0, "FEASIBLE", reproducible=False, found_by="greedy")
            return solve_in_steps(options, first, SearchLimits(left_s, effort), self.ask, splits=self.splits)

        found = assemble(problem, model.name, solve_all(problem, model, fixed, solve, stop))
        if not (wrong := check_schedule(found, problem)):
            return found
        note = warn_of_failure(f"its schedule breaks a rule: {wrong[0].message}")

        def keep(nest: NestProblem, options: tuple[OpenOption, ...], _: int) -> Solved:
            first = first_candidate(nest, options, fixed)
            return Solved(first, 0.0, "FEASIBLE", False, findings=(note,), found_by="greedy")

        return assemble(problem, model.name, solve_all(problem, model, fixed, keep))


def solve_in_steps(
    options: Sequence[OpenOption],
    first: Candidate,
    limits: SearchLimits,
    ask: Ask = ask_apart,
    *,
    splits: bool = True,
) -> Solved:
    """Solve as `solve_nest` does, but search first for the best schedule without software pipelining.

    That schedule is found sooner, and its cost lets the solver prune most options of the second step. The
    second step may spend effort of its own.
    """
    if not any(no_pipelining(option.space) for option in options):
        return solve_nest(options, first, limits, ask=ask, splits=splits)
    stop = time.monotonic() + limits.wall_s
    resting = [
        replace(o, space=replace(o.space, fixed={**o.space.fixed, **no_pipelining(o.space)}), known_floors=())
        for o in options
    ]
    own = next(rest for rest, option in zip(resting, options, strict=True) if option is first.option)
    within = replace(limits, wall_s=FIRST_STEP * limits.wall_s)
    found = solve_nest(resting, replace(first, option=own), within, ask=ask, splits=splits)
    back = next(o for rest, o in zip(resting, options, strict=True) if rest is found.candidate.option)
    start = descend(replace(found.candidate, option=back), all_moves, stop)
    effort = max(limits.effort - found.effort, (1 - FIRST_STEP) * limits.effort)
    left = SearchLimits(max(0.0, stop - time.monotonic()), effort)
    solved = solve_nest(options, start, left, ask=ask, splits=splits)
    return replace(
        solved,
        found_by=found.found_by if solved.candidate is start else solved.found_by,
        reproducible=found.reproducible and solved.reproducible,
        effort=found.effort + solved.effort,
        findings=(*found.findings, *solved.findings),
    )


def solve_nest(
    options: Sequence[OpenOption],
    first: Candidate,
    limits: SearchLimits,
    without: Sequence[Candidate] = (),
    ask: Ask = ask_apart,
    *,
    splits: bool = True,
) -> Solved:
    """Return the best schedule of a statement within the limits, with its proven bound.

    The solver first runs for a short time with the lower bounds as cuts. If it proves too little, it runs
    again with cuts from splitting. It does not search the options in `without`, which must not contain
    `first`; if there are any, nothing is split.
    """
    stop = time.monotonic() + limits.wall_s
    known = _start_options(_find_floors(options, first, stop), first, stop)
    solved = _claim_bound(first, known, "greedy", FLOORS)
    splits = splits and not without
    glance = SearchLimits(GLANCE_WALL * limits.wall_s, GLANCE * limits.effort) if splits else limits
    solved = _ask_solver(known, solved, glance, ask, stop, without)
    if solved.status == "OPTIMAL" or not splits or time.monotonic() > stop:
        return solved
    before, (known, best) = solved, _split_options(known, solved.candidate, stop)
    found_by = solved.found_by if best is solved.candidate else SPLITTING
    proved_by = SPLITTING if _least_ns(known) > solved.bound_ns else solved.proved_by
    solved = _claim_bound(best, known, found_by, proved_by, solved.bound_ns)
    if not before.findings:  # a solver that has failed is not asked again
        left = replace(limits, effort=limits.effort - before.effort)
        solved = _ask_solver(known, solved, left, ask, stop, ())
    # What the clock stops before it finds anything has no part in a proof of what greedy found.
    is_sure = before.reproducible or (solved.status == "OPTIMAL" and solved.candidate is first)
    return replace(
        solved,
        reproducible=is_sure and solved.reproducible,
        effort=before.effort + solved.effort,
        findings=(*before.findings, *solved.findings),
    )


def _claim_bound(
    best: Candidate, known: Sequence[_Known], found_by: str, proved_by: str, bound_ns: float = 0.0
) -> Solved:
    """Return the best schedule with the lower bound that follows from `known`, or with a given one."""
    floor = min(best.cost_ns, max(bound_ns, _least_ns(known)))
    is_best = floor >= best.cost_ns * (1 - SAME)
    bound, word = (best.cost_ns, "OPTIMAL") if is_best else (floor, "FEASIBLE")
    return Solved(best, bound, word, is_best, 0.0, (), found_by, proved_by)


def _ask_solver(
    known: Sequence[_Known],
    solved: Solved,
    limits: SearchLimits,
    ask: Ask,
    stop: float,
    without: Sequence[Candidate],
) -> Solved:
    """Return the solver's result, or the known result if no time remains."""
    left_s = stop - time.monotonic()
    has_cuts = any(own.is_split for own in known)
    if left_s <= 0 or (solved.status == "OPTIMAL" and not has_cuts):
        return solved
    best = solved.candidate
    contenders = _contenders(known, best)
    asked = {id(contender.start.option) for contender in contenders}
    others = tuple(candidate for candidate in without if id(candidate.option) in asked)
    holds_best = any(contender.start is best for contender in contenders) and _is_within(best)
    left = replace(limits, wall_s=min(left_s, limits.wall_s))
    answer = ask(Search(tuple(contenders), best.cost_ns, solved.bound_ns, left, holds_best, others))
    return _best_of(solved, contenders, answer, f"{SOLVER}, {SPLITTING}" if has_cuts else SOLVER)


def _is_within(candidate: Candidate) -> bool:
    """Return whether the candidate is a valid answer to this step of the search.

    If the option must not use software pipelining, a pipelined candidate serves only as a cost to undercut.
    """
    fixed = candidate.option.space.fixed
    return all(candidate.assignment.get(name, value) == value for name, value in fixed.items())


def _best_of(
    known: Solved, contenders: Sequence[OpenOptionModel], answer: SolverAnswer, proved_by: str
) -> Solved:
    """Return the solver's result, or the known one if it is as good."""
    found, best = answer.found, known.candidate
    notes = (answer.failure,) if answer.failure is not None else ()
    if found is None:
        return replace(known, reproducible=False, findings=notes)
    notes += (_report_denial(found),) if found.denials else ()
    if found.contender >= 0:
        start = contenders[found.contender].start
        candidate = candidate_of(start.option, {**start.assignment, **found.assignment})
        best = candidate if candidate.cost_ns < best.cost_ns * (1 - SAME) else best
    bound = max(known.bound_ns, found.bound_ns)
    is_tight = bound >= best.cost_ns * (1 - ROUNDING)
    word = "OPTIMAL" if "OPTIMAL" in (found.status, known.status) and is_tight else "FEASIBLE"
    whole = answer.failure is None and not found.is_stopped
    if word != "OPTIMAL" and found.bound_ns <= known.bound_ns:
        proved_by = known.proved_by
    found_by = known.found_by if best is known.candidate else SOLVER
    return Solved(best, min(bound, best.cost_ns), word, whole, found.effort, notes, found_by, proved_by)


def _report_denial(found: SearchResult) -> Diagnostic:
    """Return the warning that the solver called a feasible problem infeasible."""
    return Diagnostic(
        "solver-denied",
        "the solver reported no schedule, although one is known; it ran again in another configuration",
        severity="warning",
        notes=(f"it reported that {found.denials} times, and its final status was {found.status}",),
        help="this is a mistake in isamap or in OR-Tools; the schedule was checked and can be used",
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """An option, the lower bound for each of its register blocks, and its best known schedule.

    `is_split` says that its bounds were raised by splitting.
    """

    option: OpenOption
    floors_ns: tuple[float, ...]
    best: Candidate | None = None
    is_split: bool = False


def _least_ns(known: Sequence[_Known]) -> float:
    """Return a lower bound over the schedules of all options."""
    return min(min(own.floors_ns) for own in known)


def _find_floors(options: Sequence[OpenOption], best: Candidate, stop: float) -> list[_Known]:
    """Return each option with the lower bounds of its register blocks. The option of the best schedule is first."""
    found: list[_Known] = []
    for option in sorted(options, key=lambda o: o is not best.option):
        if option.floor_ns >= best.cost_ns or time.monotonic() > stop:
            found.append(_Known(option, (option.floor_ns,) * len(option.register_blocks)))
        else:
            found.append(_Known(option, option.floors_ns))
    return found


def _start_options(known: Sequence[_Known], best: Candidate, stop: float) -> list[_Known]:
    """Return the options. Those that may win have a first schedule, as far as time allows."""
    found: list[_Known] = []
    for own in known:
        start = best if own.option is best.option else None
        if start is None and min(own.floors_ns) < best.cost_ns and time.monotonic() < stop:
            start = greedy_candidate([own.option], stop)
        found.append(replace(own, best=start))
    return found


def _split_options(known: Sequence[_Known], best: Candidate, stop: float) -> tuple[list[_Known], Candidate]:
    """Return the options with raised lower bounds, and the best schedule found meanwhile."""
    found: list[_Known] = []
    for own in known:
        start, floors = best if own.option is best.option else own.best, own.floors_ns
        if min(floors) < best.cost_ns * (1 - SAME):
            raised = raised_floors(own.option, floors, best.cost_ns, stop, start=start)
            floors, start, best = raised.floors_ns, raised.best or start, raised.best or best
        found.append(_Known(own.option, floors, start, is_split=True))
    return found, best


def _contenders(known: Sequence[_Known], best: Candidate) -> list[OpenOptionModel]:
    """Return the options that may still contain a better schedule, with the option of the best one first."""
    found: list[OpenOptionModel] = []
    for own in sorted(known, key=lambda k: k.option is not best.option):
        option, start = own.option, best if own.option is best.option else own.best
        pairs = zip(own.floors_ns, option.register_blocks, strict=True)
        below = [(floor, block) for floor, block in pairs if floor < best.cost_ns]
        # With cuts that close all else the best one is asked about itself: its bound is what they prove.
        if start is None or not (below or (own.is_split and start is best)):
            continue
        space = option.space
        block = {axis.name: start.assignment[space.unroll(axis)] for axis in space.register_axes}
        if block not in [other for _, other in below]:
            below.append((floors_of(option.cost, space, (block,))[0], block))
        least, blocks = zip(*below, strict=True)
        found.append(OpenOptionModel(start, blocks, least))
    return found
