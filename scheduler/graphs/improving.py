"""Improve a graph's plan: start from a greedy one, and let CP-SAT improve it window by window.

    improve_plan(problem, planned(problem, greedy), limit_s=10, room_bytes=1 << 20)

A small graph is one window, whose plan the solver may prove optimal. For a larger graph the rest of the plan
stays fixed while a window is solved, so no plan is worse than the previous one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from isamap.plan.graph_check import cost_ns, far_ns, live_ranges, loads, peak_bytes
from isamap.plan.graphs import GraphPlan, GraphProblem, KernelGroup
from isamap.scheduler.graphs.asking import COMMAND, ask_for
from isamap.scheduler.graphs.window import SCALE, GroupChoice, NearTensor, Window, WindowPlan
from isamap.scheduler.process.children import Command
from isamap.source import Diagnostic, dataclass, replace

WINDOW = 24
"""The number of kernels of a window: one that the solver proves in about a second."""
WHOLE = 48
"""Nodes of a graph that is decided as one."""
LONGEST = 2000
"""The most places for which a tensor may stay near: a longer-lived one is read from beyond."""
EFFORT_PER_S = 0.2

Ask = Callable[[Window], WindowPlan | Diagnostic | None]


def make_plan(problem: GraphProblem, order: Sequence[int]) -> GraphPlan:
    """Return the plan of groups in this order, with near tensors chosen by time saved per room."""
    spans = live_ranges(problem, order)
    room = problem.near.capacity_bytes
    load = [min(problem.groups[g].passing_bytes, room) for g in order]
    readers: dict[str, int] = {}
    for number in order:
        for tensor in problem.groups[number].reads:
            readers[tensor] = readers.get(tensor, 0) + 1
    near: set[str] = set()

    def worth(tensor: str) -> float:
        begin, end = spans[tensor]
        return -readers[tensor] / (end - begin)

    for tensor in sorted((t for t in spans if far_ns(problem, t) and t in readers), key=worth):
        begin, end = spans[tensor]
        size = problem.sizes[tensor]
        if end - begin <= LONGEST and all(load[n] + size <= room for n in range(begin, end)):
            near.add(tensor)
            for n in range(begin, end):
                load[n] += size
    cost = cost_ns(problem, order, near)
    return GraphPlan(tuple(order), frozenset(near), cost, peak_bytes(problem, order))


def choose_start(none: GraphPlan, greedy: GraphPlan, room_bytes: int) -> GraphPlan:
    """Return the start plan: the greedy one, or the plan without fusion if that is cheaper and fits.

    Values that are computed late keep their inputs alive, so for long recurrences the rule may lose. Units:
    bytes.
    """
    return none if none.cost_ns < greedy.cost_ns and none.peak_bytes <= room_bytes else greedy


def improve_plan(
    problem: GraphProblem, start: GraphPlan, limit_s: float, room_bytes: int, ask: Ask | None = None
) -> GraphPlan:
    """Return the best plan that is found within the limits. Units: seconds of wall clock, bytes.

    `start` may take more room than that: then the stretches in which it does are decided for less. Stretches
    for which the solver fails stay as they are, and the plan's warnings say so.
    """
    stop = time.monotonic() + limit_s
    asked = ask or ask_apart
    whole = len(problem.nodes) <= WHOLE
    size = max(len(start.order), 1) if whole else WINDOW
    plan, passes = start, 1 if whole else 2
    failures: dict[Diagnostic, None] = {}
    stretches = sum(len(range(0, max(1, len(start.order)), size)) for _ in range(passes))
    for iteration in range(passes):
        at = 0 if iteration == 0 else -(size // 2)
        while at < len(plan.order) and (left := stop - time.monotonic()) > 0:
            stretch = range(max(0, at), min(len(plan.order), at + size))
            share = left if whole else max(0.2, 3 * left / max(1, stretches))
            window = _window(problem, plan, stretch, room_bytes, min(left, share))
            stretches -= 1
            decided = asked(window.window) if window.window.choices else None
            if isinstance(decided, Diagnostic):
                failures[decided] = None
            elif decided is not None:
                plan = _choose_better(problem, plan, stretch, window, decided, room_bytes, whole=whole)
            at += size
    return replace(plan, warnings=tuple(failures))


@dataclass(frozen=True, slots=True)
class FormulatedWindow:
    """A window, and the problem's group for each of its choices."""

    window: Window
    groups: tuple[int, ...]


def _window(
    problem: GraphProblem, plan: GraphPlan, stretch: range, room_bytes: int, limit_s: float
) -> FormulatedWindow:
    """Return a part of a plan's order as an independent problem."""
    spans = live_ranges(problem, plan.order)
    own = [problem.groups[plan.order[n]] for n in stretch]
    free = {node for group in own for node in (*group.inner, group.root)}
    outside = {problem.groups[g].root for n, g in enumerate(plan.order) if n not in stretch}
    free -= outside
    again = {n for m, g in enumerate(plan.order) if m not in stretch for n in problem.groups[g].inner}
    before = {t for t, (b, e) in spans.items() if b < stretch.start and e > stretch.start}
    # The groups of these roots whose inputs come from the model, earlier groups or another root.
    found = [g for root in sorted(free) for g in problem.by_root.get(root, ())]
    written = {t for root in free for t in problem.nodes[root].writes}
    groups = tuple(
        g
        for g in found
        if all(t not in problem.makers or t in before or t in written for t in problem.groups[g].reads)
    )
    makers = {t: n for n in free for t in problem.nodes[n].writes}
    choices = tuple(_choice(problem.groups[g], problem) for g in groups)
    named = dict.fromkeys(t for c in choices for t in c.reads if t in before)
    named |= dict.fromkeys(t for t in makers if t in spans or any(t in c.reads for c in choices))
    held = tuple(_find_held(problem, plan, spans, stretch, t, makers.get(t)) for t in named)
    across = {
        t: s for t, s in spans.items() if t not in named and s[0] < stretch.stop and s[1] > stretch.start
    }
    rest = sum(problem.room_bytes(t) for t in across)
    rest_near = sum(problem.sizes[t] for t in across if t in plan.near)
    place = {g: n for n, g in enumerate(groups)}
    limit = room_bytes - rest
    near = problem.near.capacity_bytes - rest_near
    window = Window(
        choices, held, tuple(sorted(free - again)), tuple(place[plan.order[n]] for n in stretch),
        max(0, limit), max(0, near),
        _far_ns(problem, plan, stretch), EFFORT_PER_S * limit_s, limit_s,
    )  # fmt: skip
    return FormulatedWindow(window, groups)


def _far_ns(problem: GraphProblem, plan: GraphPlan, stretch: range) -> float:
    """Return the time in which a part of the order reads tensors that are not near."""
    reads = (t for n in stretch for t in problem.groups[plan.order[n]].reads)
    return sum(far_ns(problem, t) for t in reads if t not in plan.near)


def _choice(group: KernelGroup, problem: GraphProblem) -> GroupChoice:
    reads = tuple(t for t in group.reads if t in problem.makers)
    passing = min(-(-group.passing_bytes // SCALE) * SCALE, problem.near.capacity_bytes)
    return GroupChoice(group.root, group.inner, reads, group.cost_ns, group.workspace_bytes, passing)


def _find_held(
    problem: GraphProblem,
    plan: GraphPlan,
    spans: Mapping[str, tuple[int, int]],
    stretch: range,
    tensor: str,
    maker: int | None,
) -> NearTensor:
    end = spans[tensor][1] if tensor in spans else 0
    stays = tensor in problem.results or end > stretch.stop
    crosses = maker is None or stays
    return NearTensor(
        tensor, problem.room_bytes(tensor), problem.sizes[tensor], far_ns(problem, tensor), maker, stays,
        (tensor in plan.near) if crosses and tensor in spans else None,
    )  # fmt: skip


def _choose_better(
    problem: GraphProblem,
    plan: GraphPlan,
    stretch: range,
    formulated: FormulatedWindow,
    decided: WindowPlan,
    room_bytes: int,
    *,
    whole: bool,
) -> GraphPlan:
    """Return the plan with the decided part, or the old plan if that is as good."""
    middle = tuple(formulated.groups[n] for n in decided.order)
    order = (*plan.order[: stretch.start], *middle, *plan.order[stretch.stop :])
    named = {held.name for held in formulated.window.held}
    near = plan.near
    if decided.near is not None:
        near = frozenset(plan.near - named | set(decided.near)) & frozenset(live_ranges(problem, order))
    peak = peak_bytes(problem, order)
    cost = cost_ns(problem, order, near)
    bound = decided.bound_ns if whole and decided.status else 0.0
    found = GraphPlan(order, near, cost, peak, min(bound, cost), f"CP-SAT, {decided.status.lower()}")
    again = make_plan(problem, order)
    if again.cost_ns < found.cost_ns and not whole:
        found = replace(again, method=found.method)
    is_less = (max(found.peak_bytes, room_bytes), found.cost_ns) < (
        max(plan.peak_bytes, room_bytes),
        plan.cost_ns * (1 - 1e-9),
    )
    if is_less:
        return found
    return replace(plan, bound_ns=min(bound, plan.cost_ns), method=found.method) if whole else plan


def ask_apart(window: Window, command: Command = COMMAND) -> WindowPlan | Diagnostic | None:
    """Return the decision of a separate process, or the warning that it failed."""
    return ask_for(WindowPlan, window, window.limit_s, command)


# --- pieces of large graphs -----------------------------------------------------------------------------

PIECE = 400
"""Kernels of a piece."""


@dataclass(frozen=True, slots=True)
class PlanWindow:
    """A window of a plan as a problem, its groups by number in the whole, and the remaining capacity."""

    problem: GraphProblem
    groups: tuple[int, ...]
    start: tuple[int, ...]
    room_bytes: int


def improved_in_pieces(
    problem: GraphProblem, start: GraphPlan, limit_s: float, room_bytes: int, ask: Ask | None = None
) -> GraphPlan:
    """Improve a plan as `improve_plan` does, piece by piece for large graphs. Units: seconds of wall clock, bytes."""
    stop = time.monotonic() + limit_s
    if len(start.order) <= 2 * PIECE:
        return improve_plan(problem, start, limit_s, room_bytes, ask)
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
        found = improve_plan(piece.problem, first, left / (len(pieces) - number), piece.room_bytes, ask)
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
) -> PlanWindow:
    """Return a part of a plan as a problem, with the capacity that remains for it."""
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
    return PlanWindow(part, tuple(kept), start, max(0, room_bytes - rest))
