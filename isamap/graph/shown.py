"""Describe programs of models as plans: those of the partitioner, and those of graph files."""

from __future__ import annotations

from isamap.graph.group_prices import Prices, lines, near_of
from isamap.graph.model_program import Call, Program, Step, reads_of, writes_of
from isamap.graph.partition import Partition, packed
from isamap.graph.types import size_bytes
from isamap.plan.graphs import GraphNode, GraphProblem, Group
from isamap.report.graph_picture import GraphView
from isamap.scheduler.graphs.improving import make_plan


def parted_view(name: str, part: Partition) -> GraphView:
    """Return the view of a partition's groups and plan."""
    parted = part.parted
    assert parted is not None, "it was called"
    offsets, size = packed(parted.problem, parted.plan)
    return GraphView(name, parted.problem, parted.plan, offsets, size)


def program_view(program: Program, prices: Prices) -> GraphView:
    """Return the kernels of a program as they are."""
    results = frozenset(port.passed.tensor for port in program.outputs)
    nodes = tuple(_node(step) for step in program.steps)
    makers = {tensor for node in nodes for tensor in node.writes}
    found = prices.of_steps(program.steps, program.kernels)
    groups = tuple(
        Group(
            n, (), nodes[n].reads, price.cost_ns, price.workspace_bytes,
            sum(lines(size_bytes(p.dtype, p.shape)) for p in reads_of(step) if p.tensor not in makers),
        )
        for n, (step, price) in enumerate(zip(program.steps, found, strict=True))
    )  # fmt: skip
    sizes = {p.tensor: lines(size_bytes(p.dtype, p.shape)) for step in program.steps for p in writes_of(step)}
    problem = GraphProblem(nodes, sizes, groups, results, near_of(prices.machine))
    plan = make_plan(problem, range(len(groups)))
    offsets, size = packed(problem, plan)
    return GraphView(program.name, problem, plan, offsets, size)


def _node(step: Step) -> GraphNode:
    reads = tuple(dict.fromkeys(p.tensor for p in reads_of(step)))
    writes = tuple(dict.fromkeys(p.tensor for p in writes_of(step)))
    if isinstance(step, Call):
        return GraphNode(step.kernel.rpartition("_")[0], "kernel", reads, writes)
    return GraphNode(step.function, "move", reads, writes)
