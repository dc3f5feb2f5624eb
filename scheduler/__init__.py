"""From a Problem to a Schedule, by heuristics and by CP-SAT; the only importer of OR-Tools."""

from isamap.scheduler.answer import HEURISTICS, schedule

__all__ = ["HEURISTICS", "schedule"]
