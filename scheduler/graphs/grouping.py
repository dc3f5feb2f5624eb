"""List the groups that a graph's nodes may form: subgraphs that one kernel can compute, by root.

    conv -> add -> relu        {conv}, {add}, {add, conv}, {relu}, {relu, add}, {relu, add, conv}

A group grows from its root upwards. First it takes producers whose only readers are inside, then also others,
which their other readers compute again. At most one node of a group needs its own kernel. The others are
elementwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from isamap.plan.graphs import GraphNode
from isamap.source.records import dataclass

MOST_GROUPS = 12
"""Of one root."""
MOST_INNER = 24


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A root node, and the nodes that are computed together with it, by number."""

    root: int
    inner: frozenset[int] = frozenset()

    @property
    def members(self) -> frozenset[int]:
        """All nodes of the group."""
        return self.inner | {self.root}


@dataclass(frozen=True, slots=True)
class Edges:
    """A graph's tensors: the writer and the readers of each, and the tensors that the caller reads."""

    nodes: Sequence[GraphNode]
    makers: Mapping[str, int]
    readers: Mapping[str, frozenset[int]]
    results: frozenset[str]

    @staticmethod
    def of(nodes: Sequence[GraphNode], results: frozenset[str]) -> Edges:
        """Return the edges of nodes in topological order."""
        readers: dict[str, set[int]] = {}
        for number, node in enumerate(nodes):
            for tensor in node.reads:
                readers.setdefault(tensor, set()).add(number)
        makers = {tensor: n for n, node in enumerate(nodes) for tensor in node.writes}
        return Edges(nodes, makers, {t: frozenset(r) for t, r in readers.items()}, results)

    def reads(self, cone: NodeGroup) -> tuple[str, ...]:
        """Return the tensors that a group reads from memory, without repetitions."""
        members = cone.members
        found = dict.fromkeys(t for n in sorted(members) for t in self.nodes[n].reads)
        return tuple(t for t in found if self.makers.get(t, -1) not in members)


def cones_of(edges: Edges, root: int, most: int = MOST_GROUPS) -> list[NodeGroup]:
    """Return the groups of a root, smallest first: the root alone, with its private producers, and with more."""
    alone = NodeGroup(root)
    first = close_group(edges, alone)
    found = list(dict.fromkeys((alone, first)))
    waiting = deque(found[::-1])
    while waiting and len(found) < most:
        cone = waiting.popleft()
        for maker in joinable(edges, cone):
            larger = close_group(edges, NodeGroup(root, cone.inner | {maker}))
            if larger not in found:
                found.append(larger)
                waiting.append(larger)
    return found[:most]


def close_group(edges: Edges, cone: NodeGroup) -> NodeGroup:
    """Return a group with all elementwise operations added whose readers are inside, if they may join."""
    while len(cone.inner) < MOST_INNER:
        more = [
            n
            for n in joinable(edges, cone)
            if edges.nodes[n].kind == "pointwise" and is_private(edges, n, cone.members)
        ]
        if not more:
            break
        cone = NodeGroup(cone.root, cone.inner | {more[0]})
    return cone


def is_private(edges: Edges, number: int, members: frozenset[int]) -> bool:
    """Return whether only these nodes read the result of a node."""
    writes = edges.nodes[number].writes
    return not edges.results & set(writes) and all(edges.readers.get(t, members) <= members for t in writes)


def joinable(edges: Edges, cone: NodeGroup) -> list[int]:
    """Return the nodes that a group may also compute, the latest first."""
    members = cone.members
    if len(cone.inner) >= MOST_INNER:
        return []
    has_kernel = any(edges.nodes[n].kind != "pointwise" for n in members)
    found: set[int] = set()
    for tensor in edges.reads(cone):
        maker = edges.makers.get(tensor)
        if maker is None or len(edges.nodes[maker].writes) != 1 or edges.nodes[maker].kind == "move":
            continue
        inside = [edges.nodes[n] for n in members if tensor in edges.nodes[n].reads]
        if edges.nodes[maker].kind == "pointwise":
            is_legal = all(tensor in node.inlined for node in inside)
        else:
            is_legal = (
                not has_kernel
                and is_private(edges, maker, members)
                and all(tensor in node.behind for node in inside)
            )
        own = edges.nodes[maker]
        if is_legal and all(t in own.inlined for t in own.reads if edges.makers.get(t, -1) in members):
            found.add(maker)
    return sorted(found, reverse=True)


def show_results(edges: Edges, root: int, visible: frozenset[int]) -> NodeGroup:
    """Return the group of a root in which only the visible nodes write their results to memory."""
    inner: set[int] = set()
    waiting = [root]
    while waiting:
        for tensor in edges.nodes[waiting.pop()].reads:
            maker = edges.makers.get(tensor)
            if maker is not None and maker not in visible and maker not in inner:
                inner.add(maker)
                waiting.append(maker)
    return NodeGroup(root, frozenset(inner))


def greedily(edges: Edges) -> list[NodeGroup]:
    """Return the groups of the greedy rule: a producer joins its reader if it has no other reader.

    Operations on single elements go into each other first, and then behind one kernel.
    """
    inside: dict[int, NodeGroup] = {}
    taken: set[int] = set()
    for number, node in enumerate(edges.nodes):
        cone = NodeGroup(number)
        if node.kind == "pointwise":
            for maker in joinable(edges, cone):
                if edges.nodes[maker].kind == "pointwise" and is_private(edges, maker, frozenset({number})):
                    larger = NodeGroup(number, cone.inner | inside[maker].members)
                    if len(larger.inner) <= MOST_INNER:
                        taken.add(maker)
                        cone = larger
        inside[number] = cone
    for number, node in enumerate(edges.nodes):
        if node.kind != "pointwise" or number in taken:
            continue
        for maker in reversed(joinable(edges, inside[number])):
            if edges.nodes[maker].kind == "kernel" and maker not in taken:
                taken.add(maker)
                inside[number] = NodeGroup(number, inside[number].inner | {maker})
                break
    return [inside[number] for number in range(len(edges.nodes)) if number not in taken]
