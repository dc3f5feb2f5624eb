"""A graph's plan as a picture and as a table: kernels in order with prices, and lifetimes of tensors.

kernel  nodes              ns     reads  writes
0       conv, add, relu    18240  i0     t2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.plan.graph_check import live_ranges
from isamap.plan.graphs import GraphPlan, GraphProblem
from isamap.report.columns import align
from isamap.report.mappings import time_text
from isamap.report.picture import LEFT, RIGHT, WIDTH, Across, Picture, box, colour, label_bar, stripes, words
from isamap.source.records import dataclass

ROW, BAR, TOP = 24, 16, 52
MEMORY, BELOW = 240, 60
"""Height of the workspace, and what stands between it and the kernels. Units: pixels."""
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class GraphView:
    """A plan to be shown, with the places of tensors in the workspace. Units: bytes."""

    name: str
    problem: GraphProblem
    plan: GraphPlan
    offsets: Mapping[str, int]
    workspace_bytes: int

    def nodes(self, number: int) -> list[str]:
        """Return the operations of a group, in order."""
        group = self.problem.groups[number]
        return [self.problem.nodes[n].name for n in (*group.inner, group.root)]


def graph_json(view: GraphView) -> dict[str, object]:
    """Return kernels in order, and tensors with lifetimes, as JSON. Units: ns, bytes, positions in the order."""
    problem, plan = view.problem, view.plan
    return {
        "graph": view.name,
        "kernels": [
            {
                "nodes": view.nodes(g),
                "cost_ns": round(problem.groups[g].cost_ns, 1),
                "workspace_bytes": problem.groups[g].workspace_bytes,
                "reads": list(problem.groups[g].reads),
                "writes": list(problem.nodes[problem.groups[g].root].writes),
            }
            for g in plan.order
        ],
        "tensors": [
            {
                "name": t,
                "bytes": problem.sizes[t],
                "life": list(span),
                "offset_bytes": view.offsets.get(t),
                "is_near": t in plan.near,
                "is_result": t in problem.results,
            }
            for t, span in live_ranges(problem, plan.order).items()
        ],
        "cost_ns": round(plan.cost_ns, 1),
        "bound_ns": round(plan.bound_ns, 1),
        "gap": round(plan.gap, 4),
        "peak_bytes": plan.peak_bytes,
        "workspace_bytes": view.workspace_bytes,
        "nodes": len(problem.nodes),
        "method": plan.method or None,
    }


def graph_text(view: GraphView) -> str:
    """Return the table, and the total cost."""
    problem, plan = view.problem, view.plan
    rows = [
        (
            str(place),
            ", ".join(view.nodes(g)),
            f"{problem.groups[g].cost_ns:.0f}",
            ", ".join(problem.groups[g].reads),
            ", ".join(problem.nodes[problem.groups[g].root].writes),
        )
        for place, g in enumerate(plan.order)
    ]
    shown = align([("kernel", "nodes", "ns", "reads", "writes"), *rows[:MOST_ROWS]])
    more = f"\n… and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    said = (
        f"{view.name}: {len(problem.nodes)} nodes in {len(plan.order)} kernels, {time_text(plan.cost_ns)}"
        f"{f', of which {100 * plan.gap:.1f} % are not proven necessary' if plan.bound_ns else ''}\n"
        f"{view.workspace_bytes} bytes of workspace; {plan.peak_bytes} live at one time"
    )
    return f"{said}\n\n{shown}{more}"


def graph_picture(view: GraphView) -> Picture:
    """Return kernels as bars over time, and below them the places of tensors during their lifetimes."""
    starts, at = [0.0], 0.0
    for number in view.plan.order:
        at += view.problem.groups[number].cost_ns
        starts.append(at)
    across = Across(0.0, at)
    shown = list(range(min(len(view.plan.order), MOST_ROWS)))
    bottom = TOP + ROW * len(shown)
    title = f"{view.name}: {len(view.problem.nodes)} nodes in {len(view.plan.order)} kernels"
    body = (
        words(24, 28, title, "title"),
        *across.grid(TOP, bottom),
        *_kernels(view, across, starts, shown),
        stripes("graph"),
        *_tensors(view, across, starts, bottom + BELOW),
    )
    return Picture("graph", title, bottom + BELOW + MEMORY + 30, body, graph_text(view))


def _kernels(view: GraphView, across: Across, starts: list[float], shown: list[int]) -> Iterator[str]:
    for row in shown:
        number = view.plan.order[row]
        group = view.problem.groups[number]
        y, x, end = TOP + ROW * row, across.at(starts[row]), across.at(starts[row + 1])
        names = ", ".join(view.nodes(number))
        tip = f"{names}: {time_text(group.cost_ns)}; reads {', '.join(group.reads)}"
        yield words(LEFT - 10, y + 12, names if len(names) < 20 else f"{names[:17]}…", "small", "end")
        yield box(x, y, end - x, BAR, "bar", colour(len(group.inner)), tip)


def _tensors(view: GraphView, across: Across, starts: list[float], top: float) -> Iterator[str]:
    yield words(24, top - 8, f"workspace: {view.workspace_bytes} bytes", "name")
    yield box(LEFT, top, WIDTH - LEFT - RIGHT, MEMORY, "frame")
    scale = MEMORY / max(1, view.workspace_bytes)
    spans = live_ranges(view.problem, view.plan.order)
    for number, (tensor, offset) in enumerate(view.offsets.items()):
        begin, end = spans[tensor]
        x, right = across.at(starts[begin]), across.at(starts[end])
        height = view.problem.sizes[tensor] * scale
        y = top + MEMORY - offset * scale - height
        near = ", stays near" if tensor in view.plan.near else ""
        tip = f"{tensor}: {view.problem.sizes[tensor]} bytes at {offset}{near}"
        yield from label_bar("graph", number, (x, y, right - x, height), tip, tensor)


def graph_page(view: GraphView) -> str:
    """Return the picture and the table as an HTML page."""
    from html import escape

    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(view.name)}</title>'
    return (
        f"{head}\n<body>\n{graph_picture(view).svg()}<pre>{escape(graph_text(view))}</pre>\n</body></html>\n"
    )
