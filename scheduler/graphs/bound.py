"""Compute a lower bound on the cost of all plans of a graph: the linear relaxation of the choice of groups.

    minimise  sum of costs of the groups that are chosen
    where     at most one group per root, and exactly one if the root's results have to be in memory
              a group that reads the result of another root needs a group of that root
              each node is in at least one group, as its results are needed

The bound ignores order, capacity and cache residence. Large graphs are cut into pieces. Reads across a cut
require nothing, so the sum of the pieces' bounds is a bound for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from isamap.plan.graphs import GraphProblem

PIECE = 2000
"""The number of nodes of a piece: one that the simplex method solves in a second or two."""


def bound_ns(problem: GraphProblem) -> float:
    """Return a lower bound on the cost of all groups of a plan. Units: nanoseconds."""
    linear: Any = import_module("ortools.linear_solver.pywraplp")
    inner = {n for group in problem.groups for n in group.inner}
    needed = {n for n in range(len(problem.nodes)) if n not in inner}
    needed |= {problem.makers[t] for t in problem.results}
    last = list(range(len(problem.nodes)))
    for group in problem.groups:
        for node in group.inner:
            last[node] = max(last[node], group.root)
    total = 0.0
    for start in range(0, len(problem.nodes), PIECE):
        solver: Any = linear.Solver.CreateSolver("GLOP")
        piece = range(start, min(start + PIECE, len(problem.nodes)))
        _formulate(solver, problem, piece, needed, last)
        status = solver.Solve()
        # What is not solved to the end proves nothing.
        total += solver.Objective().Value() if status == linear.Solver.OPTIMAL else 0.0
    return max(0.0, total)


def _formulate(
    solver: Any, problem: GraphProblem, piece: range, needed: set[int], last: Sequence[int]
) -> None:
    runs: dict[int, list[Any]] = {}
    computing: dict[int, list[Any]] = {}
    reading: dict[tuple[int, int], list[Any]] = {}
    objective = solver.Objective()
    for root in piece:
        for number in problem.by_root.get(root, ()):
            group = problem.groups[number]
            var = solver.NumVar(0, 1, "")
            objective.SetCoefficient(var, group.cost_ns)
            runs.setdefault(root, []).append(var)
            for node in (root, *group.inner):
                computing.setdefault(node, []).append(var)
            for maker in {problem.makers[t] for t in group.reads if t in problem.makers}:
                if maker in piece and maker not in needed:
                    reading.setdefault((root, maker), []).append(var)
    for root, own in runs.items():
        row = solver.Constraint(1 if root in needed else 0, 1)
        for var in own:
            row.SetCoefficient(var, 1)
    for (_, maker), readers in reading.items():
        row = solver.Constraint(0, solver.infinity())
        for var in runs[maker]:
            row.SetCoefficient(var, 1)
        for var in readers:
            row.SetCoefficient(var, -1)
    for node, own in computing.items():
        if node in piece and last[node] in piece:
            row = solver.Constraint(1, solver.infinity())
            for var in own:
                row.SetCoefficient(var, 1)
    objective.SetMinimization()
