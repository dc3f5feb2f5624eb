"""The solver's child process: one job per input line, one output line per schedule found.

    python -m isamap.scheduler.process.solve MEMORY_BYTES

It says `ready` once OR-Tools is there, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING

from isamap.scheduler.process.children import READY
from isamap.scheduler.process.exchange import RUNNING, Search, SearchLimits, SearchResult
from isamap.scheduler.statement_model import NestModel, build_model, read_assignment
from isamap.scheduler.translation.linear_terms import TooLarge
from isamap.source import dataclass, hard_limit, replace
from isamap.source.codec import read_value, write

# --- searches -------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# How many integer steps the cost of the best known schedule has: finest first. At 2**40 and more, presolve of
# OR-Tools 9.15 proves optimal what is 0.4 % above the optimum; without presolve, and with 2**38 or fewer, it
# does not. With 2**34 the bound of a random model is 0.3 % too low for a proof. (Problems 830 and 390 of the
# scratchpads in tests/properties/test_optimum_of_kinds.py.)
RESOLUTIONS = (1 << 36, 1 << 33, 1 << 30)

Tell = Callable[[SearchResult], None]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The parameters of the solver."""

    presolve: bool
    linearization: int
    seed: int


# Products relax badly, and greedy's answer is near the best: without linear relaxations the proof for a GEMM
# takes 2 s instead of more than 6, and 0.4 s when the search starts around the hint.
USUAL = Configuration(presolve=True, linearization=0, seed=0)
# That nothing is feasible counts only once this one has found it too.
SECOND = Configuration(presolve=False, linearization=1, seed=1)

Answered = tuple["cp_model.CpSolver", str]
Run = Callable[[NestModel, SearchLimits, Configuration, Tell], Answered]


def search(job: Search, tell: Tell, run: Run | None = None) -> SearchResult:
    """Return the best schedule within the limits. `run` is the solver, which tests replace.

    That nothing is feasible is believed when a second configuration says so, too, and it may be true: then
    the best schedule known, which none of these is, is proven optimal.
    """
    stop = time.monotonic() + job.limits.wall_s
    denials = 0
    for resolution in RESOLUTIONS:
        try:
            nest_model = build_model(job.contenders, job.best_ns, resolution, job.without)
        except TooLarge:
            continue
        for configuration in (USUAL, SECOND):
            left = SearchLimits(max(0.0, stop - time.monotonic()), job.limits.effort)
            solver, status = (run or run_solver)(nest_model, left, configuration, tell)
            if status != "INFEASIBLE":
                found = _read_solution(nest_model, solver, status, job.floor_ns)
                stopped = status != "OPTIMAL" and solver.wall_time >= left.wall_s
                spent = float(solver.response_proto.deterministic_time)
                if not job.holds_best and found.contender < 0:
                    denials -= denials % 2  # what the second had no time to confirm, it did not contradict
                return replace(found, denials=denials, is_stopped=stopped, effort=spent)
            denials += 1
        if not job.holds_best and not denials % 2:
            return SearchResult("OPTIMAL", job.best_ns, -1, {}, denials - 2)
        # The first contender's schedule is feasible: a solver that denies it has run out of bits.
    return SearchResult("UNKNOWN", job.floor_ns, -1, {}, denials)


def run_solver(
    nest_model: NestModel, limits: SearchLimits, configuration: Configuration, tell: Tell
) -> Answered:
    """Return the solver after its run, with the status that it reports."""
    from ortools.sat.python import cp_model

    class Told(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            tell(_read_solution(nest_model, self, RUNNING, 0.0))

    solver = cp_model.CpSolver()
    # One worker: several under a wall clock gave a different schedule each time, and were no faster here.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = configuration.seed
    solver.parameters.linearization_level = configuration.linearization
    solver.parameters.search_branching = cp_model.HINT_SEARCH
    solver.parameters.max_deterministic_time = limits.effort
    solver.parameters.max_time_in_seconds = limits.wall_s
    solver.parameters.cp_model_presolve = configuration.presolve
    # Probing took most of the effort of larger models, and no proof came sooner for it.
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.max_presolve_iterations = 1
    status = solver.status_name(solver.solve(nest_model.model, Told()))
    assert status != "MODEL_INVALID", nest_model.model.validate()
    return solver, status


def _read_solution(
    nest_model: NestModel,
    solver: cp_model.CpSolver | cp_model.CpSolverSolutionCallback,
    status: str,
    floor_ns: float,
) -> SearchResult:
    if status not in ("OPTIMAL", "FEASIBLE", RUNNING):
        return SearchResult(status, floor_ns, -1, {})
    bound_ns = max(floor_ns, solver.best_objective_bound / nest_model.scale)
    number, option = next(
        (i, option) for i, option in enumerate(nest_model.options) if solver.boolean_value(option.selected)
    )
    return SearchResult(status, bound_ns, number, read_assignment(option, solver))


def main() -> None:
    """Answer jobs from standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller was interrupted as well, and decides
    limit_memory(int(sys.argv[1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed is not an answer
    import_module("ortools.sat.python.cp_model")  # takes most of the time, and there is no job yet

    answers.write(READY)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()

    def tell(found: SearchResult) -> None:
        answers.write(write(found).encode() + b"\n")

    try:
        while True:
            job = read_value(jobs.get())
            assert isinstance(job, Search), type(job)
            tell(search(job, tell))
    except Exception:  # noqa: BLE001 - the caller reads what it was; no thread may hold the end up
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def limit_memory(size_bytes: int) -> None:
    """Limit the memory of this process from now on, where the system can do so. Units: bytes.

    A lower limit from before its start stays.
    """
    with contextlib.suppress(ImportError, OSError):
        import resource

        size_bytes = min(size_bytes, hard_limit("RLIMIT_AS") or size_bytes)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))


def _receive(source: IO[bytes], jobs: SimpleQueue[bytes]) -> None:
    """Receive jobs. Without a caller the process ends, even in the middle of a search."""
    for line in source:
        jobs.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
