"""Random graphs of operations with prices, and their best plans by trying all, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations, product

from isamap.plan.graph_check import cost_ns, peak_bytes
from isamap.plan.graphs import GraphCache, GraphNode, GraphProblem, KernelGroup
from isamap.scheduler.graphs.grouping import Edges, NodeGroup, cones_of, greedily

LINE = 64


def random_problem(seed: int, count: int) -> tuple[GraphProblem, tuple[int, ...], tuple[int, ...]]:
    """Return a problem, and the orders of no fusion and of the greedy rule."""
    rng = random.Random(seed)
    nodes: list[GraphNode] = []
    for n in range(count):
        there = ["in", *(node.writes[0] for node in nodes[-4:])]
        reads = tuple(dict.fromkeys(rng.choices(there, k=rng.choice((1, 2)))))
        kind = rng.choice(("pointwise", "pointwise", "kernel"))
        inlined = frozenset(t for t in reads if rng.random() < 0.8)
        behind = (
            frozenset(t for t in reads if rng.random() < 0.8) if kind == "pointwise" else frozenset[str]()
        )
        nodes.append(GraphNode(f"n{n}", kind, reads, (f"t{n}",), inlined, behind))
    read = {t for node in nodes for t in node.reads}
    results = frozenset(t for node in nodes for t in node.writes if t not in read)
    sizes = {f"t{n}": LINE * rng.randint(1, 8) for n in range(count)}
    edges = Edges.of(nodes, results)
    greedy = greedily(edges)
    cones = [cone for n in range(count) for cone in cones_of(edges, n, 6)]
    cones = list(dict.fromkeys((*cones, *greedy)))
    groups = tuple(_group(cone, edges, sizes, rng) for cone in cones)
    number = {cone: n for n, cone in enumerate(cones)}
    problem = GraphProblem(tuple(nodes), sizes, groups, results, GraphCache(16 * LINE, 0.05))
    return problem, tuple(number[NodeGroup(n)] for n in range(count)), tuple(number[cone] for cone in greedy)


def _group(cone: NodeGroup, edges: Edges, sizes: dict[str, int], rng: random.Random) -> KernelGroup:
    reads = edges.reads(cone)
    moved = sum(sizes.get(t, LINE) for t in (*reads, *edges.nodes[cone.root].writes))
    cost = moved / 4 + 10 * len(cone.members) * rng.uniform(0.5, 1.5)
    own = rng.choice((0, 0, LINE * rng.randint(1, 4)))
    return KernelGroup(
        cone.root, tuple(sorted(cone.inner)), reads, round(cost, 1), own, rng.choice((0, 4 * LINE))
    )


def choices(problem: GraphProblem) -> Iterator[tuple[int, ...]]:
    """Yield all choices of groups by which every result is there, and nothing that is not needed."""
    options = [(None, *problem.by_root.get(n, ())) for n in range(len(problem.nodes))]
    for picked in product(*options):
        taken = [g for g in picked if g is not None]
        written = {t for g in taken for t in problem.nodes[problem.groups[g].root].writes}
        expected = {
            t for g in taken for t in problem.groups[g].reads if t in problem.makers
        } | problem.results
        if written == expected:
            yield tuple(taken)


def orders(problem: GraphProblem, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all orders in which each group finds what it reads."""
    for order in permutations(taken):
        there: set[str] = set()
        for g in order:
            if any(t in problem.makers and t not in there for t in problem.groups[g].reads):
                break
            there |= set(problem.nodes[problem.groups[g].root].writes)
        else:
            yield order


def least_ns(problem: GraphProblem, room_bytes: int) -> float:
    """Return what the best plan costs where everything is near: by trying all that fit."""
    best = float("inf")
    for taken in choices(problem):
        cost = cost_ns(problem, taken, problem.sizes)
        if cost < best and any(peak_bytes(problem, o) <= room_bytes for o in orders(problem, taken)):
            best = cost
    return best
