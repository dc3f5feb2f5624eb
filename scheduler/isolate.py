"""The solver in a child process: when a check inside it fails, the heuristic's schedule stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import isamap
from isamap.plan.check import check_schedule
from isamap.plan.parse import parse_schedule
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler.answer import schedule
from isamap.scheduler.exchange import write_job
from isamap.source import Diagnostic, IsamapError, Source

COMMAND = (sys.executable, "-P", "-m", "isamap.scheduler.solve")
# What a child may take beyond the solver's limit: starting, reading, greedy, building the model.
GRACE_S = 20.0


def schedule_isolated(
    problem: Problem,
    *,
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
    command: tuple[str, ...] = COMMAND,
) -> tuple[Schedule, tuple[Diagnostic, ...]]:
    """The schedule that CP-SAT finds in a child process, or the heuristic's with a warning why.

    Raises: as `schedule` does for what was fixed.
    """
    fallback = schedule(problem, heuristic="greedy", fixed=fixed)
    try:
        done = subprocess.run(
            command,
            input=write_job(problem, limit_s, fixed or {}),
            capture_output=True,
            text=True,
            timeout=limit_s + GRACE_S,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(isamap.__file__).parents[1])},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return fallback, (_warning(f"it could not be run: {type(error).__name__}"),)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        return fallback, (_warning(f"exit status {done.returncode}", *said[-1:]),)
    try:
        found = parse_schedule(Source("solver", done.stdout))
    except IsamapError as error:
        return fallback, (_warning("its answer cannot be read", error.diagnostics[0].message),)
    findings = check_schedule(found, problem)
    if findings:
        return fallback, (_warning("its answer is wrong", findings[0].message),)
    return found, ()


def _warning(*reasons: str) -> Diagnostic:
    return Diagnostic(
        "solver-failed",
        "the solver failed; the schedule is the heuristic's",
        severity="warning",
        notes=reasons,
        help="the program is correct, but may be slower; `isamap explain solver-failed` says more",
    )
