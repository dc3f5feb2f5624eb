"""From a Problem to a Schedule, by heuristics and by CP-SAT; the only importer of OR-Tools."""

from isamap.scheduler.analytic import AnalyticModel
from isamap.scheduler.answer import HEURISTICS, schedule
from isamap.scheduler.greedy import Greedy
from isamap.scheduler.isolate import schedule_isolated

__all__ = ["HEURISTICS", "AnalyticModel", "Greedy", "schedule", "schedule_isolated"]
