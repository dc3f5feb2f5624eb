"""The solver in a child process, and what happens when the child does not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from performing import ask_here
from plan_problems import PROBLEMS, conv2d, elementwise, gemm, gemm_option, problem

from isamap.plan.check import check_schedule
from isamap.plan.cost import Add, CeilDiv, Const, Cost, Decision, evaluate
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler import CpSat, schedule
from isamap.scheduler.cpsat import Ask
from isamap.scheduler.process.children import borrow_child, idle, start_early
from isamap.scheduler.process.exchange import Search, SearchLimits, SearchResult
from isamap.scheduler.process.isolate import SolverAnswer, ask_apart
from isamap.scheduler.process.solve import SECOND, USUAL, Answered, Configuration, Tell, run_solver, search
from isamap.scheduler.statement_model import NestModel
from isamap.source import Infeasible
from isamap.source.codec import read_value, write

PYTHON = sys.executable
SOLVE = (PYTHON, "-P", "-m", "isamap.scheduler.process.solve")
READY = "print('ready', flush=True); "


@pytest.fixture(autouse=True)
def solver_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is split: here that would prove by itself what the solver did not."""
    monkeypatch.setattr("isamap.scheduler.search.splitting.MOST_BOXES", 0)


def child(program: str) -> tuple[str, ...]:
    """Return the command of a child that is not the solver."""
    return (PYTHON, "-c", program)


def solving(first: str = "0", told: str = "0") -> str:
    """Return the solver's own program that does something before it searches, or after it told of a schedule."""
    return (
        "import sys, os; from isamap.scheduler.process import solve\nsearch = solve.search\n"
        f"def searching(job, tell):\n    {first}\n"
        f"    return search(job, lambda found: (tell(found), {told}))\n"
        "solve.search = searching; sys.argv[1:] = [str(4 << 30)]; solve.main()"
    )


def answer_of(command: tuple[str, ...], question: Problem, limit_s: float = 10.0) -> Schedule:
    """Return what the scheduler makes of a solver that is this command."""
    return schedule(question, heuristic=CpSat(partial(ask_apart, command=command)), limit_s=limit_s)


# --- the wire ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_survives_the_wire(question: Problem) -> None:
    assert read_value(write(question)) == question


def test_mappings_numbers_and_nothing_survive_the_wire() -> None:
    value = ({"a": (1, 2.5, None), 3: True}, "x", float("inf"), SearchResult("OPTIMAL", 0.1, 0, {"d": 1}))
    assert read_value(write(value)) == value


def test_parts_that_costs_share_are_still_shared_behind_the_wire() -> None:
    shared: Cost = Decision("nest0.unroll.m")
    for _ in range(64):  # 2**64 terms, written out
        shared = Add((shared, shared))
    text = write(shared)
    assert len(text) < 10_000
    assert evaluate(read_value(text), {"nest0.unroll.m": 1}) == 1 << 64


@dataclass(frozen=True)
class Stranger:
    """A dataclass that no plan has."""

    name: str = ""


@pytest.mark.parametrize("value", [Stranger(), [1], {1, 2}, b"1"])
def test_only_plans_are_written(value: object) -> None:
    with pytest.raises(ValueError, match="is not a dataclass that `write` takes"):
        write(value)


@pytest.mark.parametrize("name", ["os:system", "isamap.plan.plugins:load_heuristic", "isamap.plan.cost:x"])
def test_nothing_but_dataclasses_of_plans_is_made(name: str) -> None:
    with pytest.raises(ValueError, match="is not a dataclass that `write` takes"):
        read_value(f'{{"classes": ["{name}"], "objects": [[0, "x"]], "root": {{"is": 0}}}}')


# --- children that answer ---------------------------------------------------------------------------------


def test_a_child_gives_the_same_answer() -> None:
    question, fixed = gemm(127, 127, 127), {"nest0.unroll.m": 5}
    found = schedule(question, fixed=fixed, limit_s=60)
    assert found == schedule(question, heuristic=CpSat(ask_here), fixed=fixed, limit_s=60)
    assert found.findings == ()


def test_the_caller_never_loads_the_solver() -> None:
    script = (
        "import sys; from plan_problems import gemm; from isamap.scheduler import schedule;"
        "found = schedule(gemm(127, 127, 127), limit_s=60);"
        "assert found.status == 'OPTIMAL' and not found.findings;"
        "print('ortools' in sys.modules)"
    )
    done = subprocess.run(
        child(script),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_a_child_is_kept_for_the_next_question() -> None:
    start_early()
    with borrow_child() as first:
        pass
    schedule(gemm(127, 127, 127))
    with borrow_child() as again:
        assert again is first


def test_a_child_that_died_in_between_is_replaced() -> None:
    with borrow_child() as lost:
        pass
    lost.process.kill()
    lost.process.wait()
    assert schedule(gemm(127, 127, 127), limit_s=60).findings == ()
    with borrow_child() as other:
        assert other is not lost


def test_a_child_ends_when_its_caller_does() -> None:
    script = (
        "from isamap.scheduler.process.children import idle, start_early; import os, time; start_early();"
        "(c,) = idle(); c.wait(time.monotonic() + 60); print(c.process.pid, flush=True); os._exit(0)"
    )
    done = subprocess.run(child(script), capture_output=True, text=True, check=True)
    place = Path("/proc") / done.stdout.strip()
    stop = time.monotonic() + 60
    while place.exists() and "zombie" not in (place / "status").read_text() and time.monotonic() < stop:
        time.sleep(0.05)
    assert not place.exists() or "zombie" in (place / "status").read_text()


# --- children that do not ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (child("import os; os.abort()"), "it was ended by signal SIGABRT"),
        (child(f"{READY}import os; os.abort()"), "it was ended by signal SIGABRT"),
        (child("raise SystemExit('out of luck')"), "it ended with exit status 1: out of luck"),
        (child(f"{READY}print('hello')"), "its answer cannot be read: Expecting value"),
        (child(f"{READY}print('[]')"), "its answer cannot be read: "),
        (child(f"{READY}print({write(('no', 'answer'))!r})"), "a tuple is not an answer"),
        (
            child(f"{READY}print({write(SearchResult('OPTIMAL', 0.0, 7, {}))!r})"),
            "a SearchResult is not an answer",
        ),
        (
            child(f"{READY}print({write(SearchResult('OPTIMAL', 0.0, 0, {'nest0.unroll.m': 64}))!r})"),
            "its schedule breaks a rule: nest 0: ",
        ),
        (("there-is-no-such-program",), "cannot be started: No such file or directory"),
        ((*SOLVE, str(150 << 20)), "it ended with exit status 1: "),  # OR-Tools takes more to be loaded
        (child(solving("bytearray(8 << 30)")), "it ended with exit status 1: MemoryError"),
    ],
)
def test_a_failing_child_leaves_the_heuristics_schedule(command: tuple[str, ...], said: str) -> None:
    question = gemm(127, 127, 127)
    found = answer_of(command, question, limit_s=60)
    (warning,) = found.findings
    first = schedule(question, heuristic="greedy")
    assert (found.nests, found.cost_ns) == (first.nests, first.cost_ns)
    assert check_schedule(found, question) == ()
    assert found.status == "FEASIBLE"
    assert not found.reproducible
    assert warning.code == "solver-failed"
    assert warning.severity == "warning"
    assert said in warning.render()


def test_the_warning_of_a_failed_solver_reads_like_this() -> None:
    (warning,) = answer_of(child("raise SystemExit('out of luck')"), gemm(127, 127, 127)).findings
    assert warning.render() == (
        "warning[solver-failed]: the solver failed; the schedule is the best that was known by then\n"
        "  note: it ended with exit status 1: out of luck\n"
        "  help: the program is correct, but may be slower; `isamap explain solver-failed` says more"
    )


def test_a_child_that_hangs_is_ended_and_loses_nothing_that_it_told() -> None:
    question = gemm(127, 127, 127)
    best = schedule(question)
    told: list[SolverAnswer] = []

    def ask(job: Search) -> SolverAnswer:
        found = ask_here(job).found
        assert found is not None
        line = write(replace(found, status="RUNNING"))
        hanging = child(f"{READY}print({line!r}, flush=True); import time; time.sleep(600)")
        told.append(ask_apart(replace(job, limits=SearchLimits(1.0, 1.0)), hanging))
        return told[0]

    found = schedule(question, heuristic=CpSat(ask))
    assert found.nests == best.nests
    assert (found.status, found.reproducible) == ("FEASIBLE", False)
    assert "it did not stop at its limit of 1 s, and was ended" in found.findings[0].render()


def test_a_child_that_is_not_ready_in_time_is_waited_for_no_longer() -> None:
    found = answer_of(child("import time; time.sleep(600)"), gemm(127, 127, 127), limit_s=0.2)
    assert [warning.code for warning in found.findings] == ["solver-stopped"]
    assert not found.reproducible


def test_a_child_killed_in_the_middle_leaves_what_it_told() -> None:
    question = conv2d(8, 256, 256, 28, 28, 3, 3)
    found = answer_of(child(solving(told="os.kill(os.getpid(), 9)")), question)
    assert check_schedule(found, question) == ()
    assert "it was ended by signal SIGKILL" in found.findings[0].render()


def test_what_cannot_be_is_refused_before_any_child_starts() -> None:
    never = CpSat(partial(ask_apart, command=("never",)))
    with pytest.raises(Infeasible):
        schedule(gemm(64, 64, 64), heuristic=never, fixed={"nest0.mapping": 7})


def test_several_statements_share_one_warning() -> None:
    one, other = gemm(127, 127, 127), elementwise(64, 64)
    both = replace(one, nests=(*one.nests, replace(other.nests[0], statement=1)))
    assert len(answer_of(child("raise SystemExit(3)"), both).findings) == 1


# --- solvers that contradict themselves -------------------------------------------------------------------


def denying(times: int, ask: Ask = ask_here) -> Ask:
    """Return a solver whose first answers are that nothing is feasible."""
    left = [times]

    def run(
        nest_model: NestModel, limits: SearchLimits, configuration: Configuration, tell: Tell
    ) -> Answered:
        solver, status = run_solver(nest_model, limits, configuration, tell)
        left[0] -= 1
        return solver, "INFEASIBLE" if left[0] >= 0 else status

    return lambda job: SolverAnswer(search(job, lambda _: None, run))


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_solver_that_denies_what_is_known_is_asked_in_another_way(times: int) -> None:
    question = gemm(127, 127, 127)
    found = schedule(question, heuristic=CpSat(denying(times)))
    best = schedule(question)
    assert found.cost_ns == pytest.approx(best.cost_ns, rel=1e-3)
    assert found.status == "OPTIMAL"
    assert [warning.code for warning in found.findings] == ["solver-denied"]
    assert f"it reported that {times} times, and its final status was OPTIMAL" in found.findings[0].render()


def test_a_solver_that_denies_everything_leaves_the_heuristics_schedule() -> None:
    question = gemm(127, 127, 127)
    found = schedule(question, heuristic=CpSat(denying(99)))
    assert found.nests == schedule(question, heuristic="greedy").nests
    assert found.status == "FEASIBLE"
    assert [warning.code for warning in found.findings] == ["solver-denied"]


@dataclass(frozen=True)
class Blocks:
    """A model by which mapping `flat` costs 12, and any other the size and the number of its blocks of m."""

    name: str = "blocks"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """At least 2 as far as bounds can see, and 16 in truth."""
        block = Decision("nest0.block.m")
        return Const(12) if option.mapping == "flat" else Add((block, CeilDiv(Const(64), block)))


def test_a_strangers_cost_model_stays_with_the_caller() -> None:
    """Its expression travels: the child could not import this class."""
    question = problem(gemm_option(64, 16, 1))
    found = schedule(question, model=Blocks())
    assert (found.status, found.cost_ns, found.findings) == ("OPTIMAL", 16, ())
    assert found == schedule(question, model=Blocks(), heuristic=CpSat(ask_here))


def asked(ask: Ask) -> tuple[Schedule, Search]:
    """Return what is found where the best schedule is proven best of its option before, and the solver's job."""
    jobs: list[Search] = []

    def noted(job: Search) -> SolverAnswer:
        jobs.append(job)
        return ask(job)

    options = [replace(gemm_option(64, 16, 1), mapping=name) for name in ("flat", "blocks")]
    found = schedule(problem(*options), heuristic=CpSat(noted), model=Blocks())
    return found, jobs[0]


def test_that_no_other_option_is_better_proves_the_best_one_known() -> None:
    found, job = asked(ask_here)
    assert not job.holds_best
    assert (found.status, found.cost_ns, found.lower_bound_ns) == ("OPTIMAL", 12, 12)
    assert found.nests[0].mapping == "flat"
    assert found.findings == ()


def test_that_is_not_believed_when_a_second_configuration_finds_something() -> None:
    _, job = asked(ask_here)
    found = denying(1)(replace(job, best_ns=20)).found
    assert found is not None
    assert (found.status, found.denials, found.contender) == ("OPTIMAL", 1, 0)
    assert found.bound_ns == pytest.approx(16)


def test_that_the_second_configuration_had_no_time_is_no_denial() -> None:
    """The first one may be right: the best schedule known is none of those that it was asked about."""
    _, job = asked(ask_here)

    def run(
        nest_model: NestModel, limits: SearchLimits, configuration: Configuration, tell: Tell
    ) -> Answered:
        late = configuration == SECOND
        solver, status = run_solver(
            nest_model, SearchLimits(0.0, 1.0) if late else limits, configuration, tell
        )
        assert status == ("UNKNOWN" if late else "INFEASIBLE")
        return solver, status

    found = search(job, lambda _: None, run)
    assert (found.status, found.denials, found.contender) == ("UNKNOWN", 0, -1)


def test_the_second_configuration_differs_in_everything() -> None:
    assert SECOND.presolve != USUAL.presolve
    assert SECOND.linearization != USUAL.linearization
    assert SECOND.seed != USUAL.seed


def test_children_of_a_forked_process_are_not_shared() -> None:
    start_early()
    assert idle()
    assert not idle(owner=-1)


def test_a_solver_process_reads_a_job_without_the_matcher_and_the_language() -> None:
    program = (
        "import sys, isamap.scheduler.process.solve; from isamap.source.codec import read_value\n"
        "read_value(sys.stdin.read())\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('isamap.')})"
    )
    command = [PYTHON, "-c", program]
    run = subprocess.run(command, input=write(gemm(64, 64, 64)), capture_output=True, text=True, check=True)
    assert not {"match", "transform", "syntax", "ir", "formulate"} & set(run.stdout.split())
    assert "plan" in run.stdout.split()
