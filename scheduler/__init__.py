"""Solve scheduling problems by heuristics and by CP-SAT; the only package that imports OR-Tools."""

from isamap.plan.plugins import check_name, known_names, load_cost_model, load_heuristic
from isamap.scheduler.answer import schedule
from isamap.scheduler.cpsat import CpSat
from isamap.scheduler.effects.analytic import AnalyticModel
from isamap.scheduler.pinning import complete
from isamap.scheduler.process.children import start_early
from isamap.scheduler.ranking import Ranking, k_best
from isamap.scheduler.search.annealing import Annealing
from isamap.scheduler.search.assembling import Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, decided, open_options
from isamap.scheduler.search.greedy import Greedy, greedy_candidate
from isamap.scheduler.search.narrowing import FIRST_LOOKS, narrow_problem

__all__ = [
    "FIRST_LOOKS",
    "AnalyticModel",
    "Annealing",
    "Candidate",
    "CpSat",
    "Greedy",
    "OpenOption",
    "Ranking",
    "Solved",
    "assemble",
    "check_name",
    "complete",
    "decided",
    "greedy_candidate",
    "k_best",
    "known_names",
    "load_cost_model",
    "load_heuristic",
    "narrow_problem",
    "open_options",
    "schedule",
    "start_early",
]
