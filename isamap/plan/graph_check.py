"""Check a plan of a graph, and compute its cost and memory, with code that the solver does not share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from isamap.plan.graphs import GraphPlan, GraphProblem
from isamap.source import Diagnostic


def live_ranges(problem: GraphProblem, order: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return the positions in the order where each tensor is written and, exclusively, after its last read."""
    begin: dict[str, int] = {}
    end: dict[str, int] = {}
    for place, number in enumerate(order):
        group = problem.groups[number]
        for tensor in problem.nodes[group.root].writes:
            begin[tensor], end[tensor] = place, place + 1
        for tensor in group.reads:
            if tensor in begin:
                end[tensor] = place + 1
    for tensor in problem.results & begin.keys():
        end[tensor] = len(order)
    return {tensor: (begin[tensor], end[tensor]) for tensor in begin}


def loads(sizes: Iterable[tuple[int, int, int]], places: int, also: Sequence[int] | None = None) -> list[int]:
    """Return the live bytes at each position: of tensors given as (begin, end, bytes), and of workspaces `also`."""
    change = [0] * (places + 1)
    for begin, end, size in sizes:
        change[begin] += size
        change[end] -= size
    own = also or [0] * places
    return [load + extra for load, extra in zip(accumulate(change[:-1]), own, strict=True)]


def peak_bytes(problem: GraphProblem, order: Sequence[int]) -> int:
    """Return the largest number of live bytes in the workspace."""
    own = [problem.groups[g].workspace_bytes for g in order]
    spans = ((b, e, problem.room_bytes(t)) for t, (b, e) in live_ranges(problem, order).items())
    return max(loads(spans, len(order), own), default=0)


def cost_ns(problem: GraphProblem, order: Sequence[int], near: Iterable[str]) -> float:
    """Return the kernels' times plus the additional time to read tensors that are not near."""
    kept = set(near)
    total = 0.0
    for number in order:
        group = problem.groups[number]
        total += group.cost_ns
        total += sum(far_ns(problem, tensor) for tensor in group.reads if tensor not in kept)
    return total


def far_ns(problem: GraphProblem, tensor: str) -> float:
    """Return the additional time to read a tensor from beyond the near cache.

    If no cache of this size holds the tensor, the price of the kernel includes it already.
    """
    if tensor not in problem.makers or problem.sizes[tensor] > problem.near.capacity_bytes:
        return 0.0
    return problem.sizes[tensor] * problem.near.far_ns_per_byte


def check_graph_plan(
    problem: GraphProblem, plan: GraphPlan, limit_bytes: int | None = None
) -> tuple[Diagnostic, ...]:
    """Return the errors in a plan, or () if it is correct."""
    found: list[Diagnostic] = []
    there: set[str] = set()
    for place, number in enumerate(plan.order):
        group = problem.groups[number]
        missing = [t for t in group.reads if t in problem.makers and t not in there]
        if missing:
            found.append(_error(f"kernel {place} reads `{missing[0]}` before it is written"))
        written = problem.nodes[group.root].writes
        if there & set(written):
            found.append(_error(f"kernel {place} writes `{written[0]}`, which is there already"))
        there |= set(written)
    found += [_error(f"the result `{t}` is never written") for t in sorted(problem.results - there)]
    if found:
        return tuple(found)
    peak = peak_bytes(problem, plan.order)
    if peak != plan.peak_bytes:
        found.append(_error(f"{peak} bytes live at one time, not {plan.peak_bytes}"))
    if limit_bytes is not None and peak > limit_bytes:
        found.append(_error(f"{peak} bytes live at one time, more than {limit_bytes}"))
    spans = live_ranges(problem, plan.order)
    room = problem.near.capacity_bytes
    passing = [min(problem.groups[g].passing_bytes, room) for g in plan.order]
    kept = ((*spans[t], problem.sizes[t]) for t in plan.near if t in spans)
    worst = max(loads(kept, len(plan.order), passing), default=0)
    if worst > room:
        found.append(_error(f"{worst} bytes are to stay in a cache of {room}"))
    cost = cost_ns(problem, plan.order, plan.near)
    if abs(cost - plan.cost_ns) > 1e-6 * max(1.0, cost):
        found.append(_error(f"it costs {cost:.0f} ns, not {plan.cost_ns:.0f}"))
    if plan.bound_ns > plan.cost_ns * (1 + 1e-6):
        found.append(_error(f"its bound {plan.bound_ns:.0f} ns is more than it costs"))
    return tuple(found)


def _error(message: str) -> Diagnostic:
    return Diagnostic("graph-plan-wrong", message)
