"""Solve scheduling problems by heuristics and by CP-SAT. No other package imports OR-Tools.

Names are imported when they are first used: a greedy schedule takes neither CP-SAT nor annealing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isamap.scheduler.answer import schedule
    from isamap.scheduler.cpsat import CpSat
    from isamap.scheduler.effects.table import AnalyticModel
    from isamap.scheduler.pinning import complete
    from isamap.scheduler.process.children import start_early
    from isamap.scheduler.ranking import Ranking, k_best
    from isamap.scheduler.search.assembling import Solved, assemble
    from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of, open_options
    from isamap.scheduler.search.greedy import Greedy, greedy_candidate
    from isamap.scheduler.search.narrowing import FIRST_LOOKS, narrow_problem

_HOMES = {
    "scheduler.answer": "schedule",
    "scheduler.cpsat": "CpSat",
    "scheduler.effects.table": "AnalyticModel",
    "scheduler.pinning": "complete",
    "scheduler.process.children": "start_early",
    "scheduler.ranking": "Ranking k_best",
    "scheduler.search.assembling": "Solved assemble",
    "scheduler.search.candidates": "Candidate OpenOption candidate_of open_options",
    "scheduler.search.greedy": "Greedy greedy_candidate",
    "scheduler.search.narrowing": "FIRST_LOOKS narrow_problem",
}

__all__ = [
    "FIRST_LOOKS", "AnalyticModel", "Candidate", "CpSat", "Greedy", "OpenOption", "Ranking",
    "Solved", "assemble", "candidate_of", "complete", "greedy_candidate", "k_best",
    "narrow_problem", "open_options", "schedule",
    "start_early",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"isamap.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
