"""The solver in a child process, and what happens when the child does not answer."""

from __future__ import annotations

import json
import sys

import pytest
from plan_problems import PROBLEMS, gemm, tiled_gemm

from isamap.plan.problem import Problem
from isamap.plan.text import print_schedule
from isamap.scheduler import schedule, schedule_isolated
from isamap.scheduler.exchange import read_job, write_job
from isamap.source import Infeasible

PYTHON = sys.executable


def test_a_child_gives_the_same_answer() -> None:
    question = gemm(127, 127, 127)
    found, findings = schedule_isolated(question, fixed={"nest0.unroll.m": 5})
    assert findings == ()
    assert found == schedule(question, fixed={"nest0.unroll.m": 5})


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_job_survives_the_pipe(problem: Problem) -> None:
    text = write_job(problem, 2.5, {"nest0.block.k": 8})
    assert read_job(json.dumps(json.loads(text))) == (problem, 2.5, {"nest0.block.k": 8})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((PYTHON, "-c", "import os; os.abort()"), "exit status -6"),
        ((PYTHON, "-c", "raise SystemExit('out of luck')"), "out of luck"),
        ((PYTHON, "-c", "print('hello')"), "its answer cannot be read"),
        (("there-is-no-such-program",), "it could not be run: FileNotFoundError"),
        (
            (PYTHON, "-c", f"print({print_schedule(schedule(tiled_gemm(8, 8, 8), heuristic='greedy'))!r})"),
            "wrong",
        ),
    ],
)
def test_a_failing_child_leaves_the_heuristics_schedule(command: tuple[str, ...], said: str) -> None:
    question = gemm(64, 64, 64)
    found, (warning,) = schedule_isolated(question, command=command)
    assert found == schedule(question, heuristic="greedy")
    assert warning.code == "solver-failed"
    assert warning.severity == "warning"
    assert said in warning.render()


def test_what_cannot_be_is_refused_before_any_child_starts() -> None:
    with pytest.raises(Infeasible):
        schedule_isolated(gemm(64, 64, 64), fixed={"nest0.mapping": 7}, command=("never",))
