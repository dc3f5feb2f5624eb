"""Partition a model's operations into kernels: decide groups, their order, and cache residence together.

    Partition("cpsat", prices, limit_s=10)(steps, results)     as `fused`, and keeps the plan that it made

From each step upwards, all groups that may form one kernel are listed. The cost model prices each group,
and CP-SAT chooses. The search starts from the result of the greedy rule, so the plan is never worse by the
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from isamap.graph.elementwise_fusion import Open, finish_steps, fuse_steps, reads_of, writes_of
from isamap.graph.group_prices import Prices, lines, near_of, no_kernel
from isamap.graph.kernel_groups import Writer, nodes_of
from isamap.graph.model_program import KernelCall, ModelProgram, Step
from isamap.graph.model_program import reads_of as read_by
from isamap.graph.model_program import writes_of as written_by
from isamap.graph.planning import LINE_BYTES
from isamap.graph.sizes import needs_numbers, record_of_open
from isamap.graph.types import size_bytes
from isamap.plan.graph_check import check_graph_plan, live_ranges
from isamap.plan.graphs import GraphNode, GraphPlan, GraphProblem, KernelGroup
from isamap.plan.placement import PlacedBuffer
from isamap.report.graph_picture import GraphView
from isamap.scheduler.graphs.bound import bound_ns
from isamap.scheduler.graphs.grouping import Edges, NodeGroup, cones_of, show_results
from isamap.scheduler.graphs.improving import choose_start, improved_in_pieces, make_plan
from isamap.scheduler.memory.allocation import pack
from isamap.source import Diagnostic, UsageProblem

Method = Literal["none", "greedy", "cpsat"]
METHODS: tuple[Method, ...] = ("none", "greedy", "cpsat")
TRIES = 4
"""The most plans whose tensors are packed until they fit: packing may need more than the peak of live bytes."""


@dataclass(frozen=True, slots=True)
class ChosenPartition:
    """The chosen plan with its problem, and two plans for comparison: without fusion, and the greedy rule's."""

    problem: GraphProblem
    plan: GraphPlan
    none: GraphPlan
    greedy: GraphPlan
    workspace_bytes: int


@dataclass(slots=True)
class Partition:
    """A method that partitions a model's steps. Units: seconds, and bytes (0: no limit of the workspace)."""

    method: Method
    prices: Prices
    limit_s: float = 10.0
    workspace_bytes: int = 0
    parted: ChosenPartition | None = field(default=None, init=False)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The reasons why the plan may not be the best one."""
        return self.parted.plan.warnings if self.parted is not None else ()

    def __call__(self, steps: Sequence[Open], results: set[str]) -> tuple[list[Step], dict[str, str]]:
        """Return the calls and moves, and kernels' texts by name. Raises: UsageProblem for too little workspace."""
        if opened := record_of_open(s for step in steps for p in writes_of(step) for s in p.shape):
            raise needs_numbers(opened.sizes, "choosing what to fuse by prices")
        problem, cones, written = formulate(steps, results, self.prices)
        number = {cone: n for n, cone in enumerate(cones)}
        edges = Edges.of(problem.nodes, problem.results)
        none = make_plan(problem, [number[NodeGroup(n)] for n in range(len(steps))])
        greedy = make_plan(problem, [number[cone] for cone in _greedy_cones(edges, steps, results)])
        plan = {"none": none, "greedy": greedy, "cpsat": greedy}[self.method]
        room = self.workspace_bytes or greedy.peak_bytes
        if self.method == "cpsat":
            plan = self._solve_packed(problem, choose_start(none, greedy, room), room)
        _, size = place_tensors(problem, plan)
        if self.workspace_bytes and size > self.workspace_bytes:
            raise no_room(size, self.workspace_bytes, plan.peak_bytes)
        plan = replace(plan, bound_ns=min(plan.cost_ns, max(plan.bound_ns, bound_ns(problem))))
        wrong = check_graph_plan(problem, plan)
        assert not wrong, "\n".join(d.message for d in wrong)
        self.parted = ChosenPartition(problem, plan, none, greedy, size)
        return finish_steps([written[g] for g in plan.order], results)

    def _solve_packed(self, problem: GraphProblem, start: GraphPlan, room: int) -> GraphPlan:
        """Return the best plan that fits after packing, or the last one if none does."""
        plan = start
        failures: dict[Diagnostic, None] = {}
        for _ in range(TRIES):
            plan = improved_in_pieces(problem, start, self.limit_s / TRIES, room)
            failures.update(dict.fromkeys(plan.warnings))
            _, size = place_tensors(problem, plan)
            if not self.workspace_bytes or size <= self.workspace_bytes:
                break
            room -= size - self.workspace_bytes
            if room <= 0:
                break
        return replace(plan, warnings=tuple(failures))


def formulate(
    steps: Sequence[Open], results: set[str], prices: Prices
) -> tuple[GraphProblem, list[NodeGroup], list[Open]]:
    """Return the problem of a program's steps, the nodes of each group, and each group's step."""
    nodes = nodes_of(steps)
    edges = Edges.of(nodes, frozenset(results))
    writer = Writer(steps)
    candidates = dict.fromkeys(NodeGroup(n) for n in range(len(nodes)))
    candidates |= dict.fromkeys(_greedy_cones(edges, steps, results))
    candidates |= dict.fromkeys(cone for n in range(len(nodes)) for cone in cones_of(edges, n))
    there = [(cone, made) for cone in candidates if (made := writer.group(cone.root, cone.inner)) is not None]
    found = zip(there, prices.of([made for _, made in there]), strict=True)
    kept = [(cone, made, price) for (cone, made), price in found if price is not None]
    alone = {cone for cone, _, _ in kept}
    for n, node in enumerate(nodes):
        if NodeGroup(n) not in alone:
            raise no_kernel(node.name)
    sizes = {p.tensor: lines(size_bytes(p.dtype, p.shape)) for step in steps for p in writes_of(step)}
    groups = tuple(
        KernelGroup(
            cone.root, tuple(sorted(cone.inner)), edges.reads(cone), price.cost_ns, price.workspace_bytes,
            sum(lines(size_bytes(p.dtype, p.shape)) for p in reads_of(made) if p.tensor not in edges.makers),
        )
        for cone, made, price in kept
    )  # fmt: skip
    problem = GraphProblem(nodes, sizes, groups, frozenset(results), near_of(prices.machine))
    return problem, [cone for cone, _, _ in kept], [made for _, made, _ in kept]


def _greedy_cones(edges: Edges, steps: Sequence[Open], results: set[str]) -> list[NodeGroup]:
    """Return the groups of the greedy rule. Roots write the tensors that stay in memory."""
    calls, _ = fuse_steps(steps, results)
    kept = {p.tensor for step in calls for p in written_by(step)}
    visible = frozenset(n for n, node in enumerate(edges.nodes) if kept & set(node.writes))
    return [show_results(edges, n, visible) for n in sorted(visible)]


def place_tensors(problem: GraphProblem, plan: GraphPlan) -> tuple[dict[str, int], int]:
    """Return the places of a plan's tensors, and the workspace size including kernels'. Units: bytes."""
    buffers = [
        PlacedBuffer(t, b, e, problem.room_bytes(t), LINE_BYTES)
        for t, (b, e) in live_ranges(problem, plan.order).items()
        if problem.room_bytes(t)
    ]
    for place, number in enumerate(plan.order):
        if size := problem.groups[number].workspace_bytes:
            buffers.append(PlacedBuffer(f"#{place}", place, place + 1, size, LINE_BYTES))
    offsets = pack(buffers)
    size = max((offsets[b.name] + b.size_bytes for b in buffers), default=0)
    return {name: at for name, at in offsets.items() if not name.startswith("#")}, size


def no_room(size: int, limit: int, peak: int = 0) -> UsageProblem:
    """Return the error that a workspace exceeds the limit.

    `peak` is the number of bytes that live at one time, if it is known.
    """
    said = f"the workspace takes {size} bytes, and {limit} are allowed"
    help_ = (
        f"allow more (--workspace {size}), or try --fusion cpsat, which looks for an order that takes less"
    )
    notes = (f"{peak} bytes live at one time in the best order that was found",) if peak else ()
    return UsageProblem.of("graph-no-room", said, notes=notes, help=help_)


# --- programs as plans, for pictures -----------------------------------------------------------------------


def parted_view(name: str, part: Partition) -> GraphView:
    """Return the view of a partition's groups and plan."""
    parted = part.parted
    assert parted is not None, "it was called"
    offsets, size = place_tensors(parted.problem, parted.plan)
    return GraphView(name, parted.problem, parted.plan, offsets, size)


def program_view(program: ModelProgram, prices: Prices) -> GraphView:
    """Return the kernels of a program as they are."""
    results = frozenset(port.passed.tensor for port in program.outputs)
    nodes = tuple(_node(step) for step in program.steps)
    makers = {tensor for node in nodes for tensor in node.writes}
    found = prices.of_steps(program.steps, program.kernels)
    groups = tuple(
        KernelGroup(
            n, (), nodes[n].reads, price.cost_ns, price.workspace_bytes,
            sum(lines(size_bytes(p.dtype, p.shape)) for p in read_by(step) if p.tensor not in makers),
        )
        for n, (step, price) in enumerate(zip(program.steps, found, strict=True))
    )  # fmt: skip
    sizes = {
        p.tensor: lines(size_bytes(p.dtype, p.shape)) for step in program.steps for p in written_by(step)
    }
    problem = GraphProblem(nodes, sizes, groups, results, near_of(prices.machine))
    plan = make_plan(problem, range(len(groups)))
    offsets, size = place_tensors(problem, plan)
    return GraphView(program.name, problem, plan, offsets, size)


def _node(step: Step) -> GraphNode:
    reads = tuple(dict.fromkeys(p.tensor for p in read_by(step)))
    writes = tuple(dict.fromkeys(p.tensor for p in written_by(step)))
    if isinstance(step, KernelCall):
        return GraphNode(step.kernel.rpartition("_")[0], "kernel", reads, writes)
    return GraphNode(step.function, "move", reads, writes)
