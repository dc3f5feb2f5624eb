"""Place buffers by CP-SAT as non-overlapping rectangles with fixed times and variable offsets.

    python -m isamap.scheduler.memory.placing < instance.json     offsets in units, or a word, as JSON

It runs in a child process, because a failed check inside the solver would take the caller down with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import isamap
from isamap.scheduler.memory.skyline import Instance
from isamap.source.process import run_process
from isamap.source.records import asdict

COMMAND = (sys.executable, "-P", "-m", "isamap.scheduler.memory.placing")
SEED = 0
GRACE_S = 5.0  # what a child takes beyond the solver's limit: to start, and to read

Word = Literal["none", "unknown"]


def place_isolated(
    instance: Instance, limit_s: float, effort: float, command: tuple[str, ...] = COMMAND
) -> tuple[int, ...] | Word:
    """Return offsets in units, `none` if it is proved that there are none, or `unknown` after the limits.

    Units: `limit_s` of wall clock, `effort` in the solver's own measure. A child that fails knows nothing.
    """
    job = json.dumps({"instance": asdict(instance), "limit_s": limit_s, "effort": effort})
    try:
        environment = {**os.environ, "PYTHONPATH": str(Path(isamap.__file__).parents[1])}
        done = run_process(command, limit_s + GRACE_S, input=job, text=True, env=environment)
        done.check_returncode()
        answer: Any = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return "unknown"
    return "none" if answer == "none" else "unknown" if answer == "unknown" else tuple(answer)


def place(instance: Instance, limit_s: float, effort: float) -> tuple[int, ...] | Word:
    """Place buffers as `place_isolated` does, in this process."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    shapes = list(zip(instance.size, instance.alignment, strict=True))
    steps = [model.new_int_var(0, (instance.capacity - size) // unit, "") for size, unit in shapes]
    lives = zip(instance.first, instance.last, strict=True)
    model.add_no_overlap_2d(
        [model.new_fixed_size_interval_var(start, end - start, "") for start, end in lives],
        [
            model.new_fixed_size_interval_var(step * unit, size, "")
            for step, (size, unit) in zip(steps, shapes, strict=True)
        ],
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several under a wall clock answer differently each time
    solver.parameters.random_seed = SEED
    solver.parameters.max_time_in_seconds = limit_s
    solver.parameters.max_deterministic_time = effort
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return tuple(solver.value(s) * unit for s, (_, unit) in zip(steps, shapes, strict=True))
    return "none" if status == cp_model.INFEASIBLE else "unknown"


def main() -> None:
    """Answer one job from standard input."""
    job: Any = json.loads(sys.stdin.read())
    fields: dict[str, Any] = job["instance"]
    fields |= {name: tuple(fields[name]) for name in ("first", "last", "size", "alignment")}
    instance = Instance(**fields)
    print(json.dumps(place(instance, job["limit_s"], job["effort"])))


if __name__ == "__main__":
    main()
