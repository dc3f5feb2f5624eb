"""What tests perform in this process: sizes with defaults and `let`s, and the solver without its child."""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import Routine
from isamap.scheduler.process.exchange import Search
from isamap.scheduler.process.isolate import SolverAnswer
from isamap.scheduler.process.solve import search


def size_values(routine: Routine, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a routine with its defaults and `let`s."""
    values = {p.name: p.default for p in routine.params if p.default is not None} | dict(sizes)
    for let in routine.lets:
        values[let.name] = int(let.value.evaluate(values))
    return values


def ask_here(job: Search) -> SolverAnswer:
    """Return what the solver finds, asked in this process."""
    return SolverAnswer(search(job, lambda _: None))
