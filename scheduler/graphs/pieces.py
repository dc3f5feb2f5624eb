"""Plan graphs of thousands of nodes: improve a plan piece by piece, each as a graph of its own.

Tensors from before a piece count as its inputs, and tensors read after it as its results; the memory of other
tensors in that time is subtracted. The new order is used if it makes the whole plan better.
"""

from __future__ import annotations

import time

from isamap.plan.graph_check import live_ranges, loads
from isamap.plan.graphs import GraphPlan, GraphProblem
from isamap.scheduler.graphs.improving import Ask, improved, make_plan
from isamap.source import Diagnostic
from isamap.source.records import dataclass, replace

PIECE = 400
"""Kernels of a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A window of a plan as a problem, its groups by number in the whole, and the remaining capacity."""

    problem: GraphProblem
    groups: tuple[int, ...]
    start: tuple[int, ...]
    room_bytes: int


def improved_in_pieces(
    problem: GraphProblem, start: GraphPlan, limit_s: float, room_bytes: int, ask: Ask | None = None
) -> GraphPlan:
    """Improve a plan as `improved` does, also for large graphs. Units: seconds of wall clock, bytes."""
    stop = time.monotonic() + limit_s
    if len(start.order) <= 2 * PIECE:
        return improved(problem, start, limit_s, room_bytes, ask)
    order: list[int] = []
    failures: dict[Diagnostic, None] = {}
    pieces = range(0, len(start.order), PIECE)
    spans, own = live_ranges(problem, start.order), [problem.groups[g].workspace_bytes for g in start.order]
    load = loads(((b, e, problem.room_bytes(t)) for t, (b, e) in spans.items()), len(own), own)
    for number, at in enumerate(pieces):
        stretch = range(at, min(at + PIECE, len(start.order)))
        left = stop - time.monotonic()
        if left <= 0:
            order += start.order[at:]
            break
        piece = _cut_stretch(problem, start, stretch, spans, load, room_bytes)
        first = make_plan(piece.problem, piece.start)
        found = improved(piece.problem, first, left / (len(pieces) - number), piece.room_bytes, ask)
        order += [piece.groups[g] for g in found.order]
        failures.update(dict.fromkeys(found.warnings))
    found = replace(make_plan(problem, order), method="CP-SAT, in pieces")
    is_less = (max(found.peak_bytes, room_bytes), found.cost_ns) < (
        max(start.peak_bytes, room_bytes),
        start.cost_ns,
    )
    return replace(found if is_less else start, warnings=tuple(failures))


def _cut_stretch(
    problem: GraphProblem,
    plan: GraphPlan,
    stretch: range,
    spans: dict[str, tuple[int, int]],
    load: list[int],
    room_bytes: int,
) -> Piece:
    """Return a stretch of the plan by itself."""
    taken = [problem.groups[plan.order[n]] for n in stretch]
    inside = sorted({n for group in taken for n in (*group.inner, group.root)})
    number = {node: n for n, node in enumerate(inside)}
    makers = {t for n in inside for t in problem.nodes[n].writes}
    there = {t for t, (b, e) in spans.items() if b < stretch.start < e}
    kept = [
        g
        for n in inside
        for g in problem.by_root.get(n, ())
        if all(m in number for m in problem.groups[g].inner)
        and all(t in makers or t in there or t not in problem.makers for t in problem.groups[g].reads)
    ]
    groups = tuple(
        replace(
            problem.groups[g],
            root=number[problem.groups[g].root],
            inner=tuple(number[n] for n in problem.groups[g].inner),
        )
        for g in kept
    )
    behind = {t for t, (b, e) in spans.items() if stretch.start <= b and stretch.stop < e}
    results = frozenset(makers & (problem.results | behind))
    part = GraphProblem(
        tuple(problem.nodes[n] for n in inside),
        {t: problem.sizes[t] for t in makers},
        groups,
        results,
        problem.near,
    )
    place = {g: n for n, g in enumerate(kept)}
    start = tuple(place[plan.order[n]] for n in stretch)
    own = [part.groups[g].workspace_bytes for g in start]
    alone = loads(
        ((b, e, part.room_bytes(t)) for t, (b, e) in live_ranges(part, start).items()), len(start), own
    )
    rest = max(load[n] - mine for n, mine in zip(stretch, alone, strict=True))
    return Piece(part, tuple(kept), start, max(0, room_bytes - rest))
