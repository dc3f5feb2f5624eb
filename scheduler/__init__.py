"""From a Problem to a Schedule, by heuristics and by CP-SAT; the only importer of OR-Tools."""
