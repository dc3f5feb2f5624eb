"""The memories of a machine as a graph: nodes are memories, edges go from the farther to the nearer one.

`caches_from_nearest(load_machine("generic-c"))` is `("l1", "l2", "l3")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isamap.ir import Index
from isamap.machine.model import Machine

if TYPE_CHECKING:
    import networkx as nx


def memory_graph(machine: Machine) -> nx.DiGraph[str]:
    """Memories with their `kind`, links with `bandwidth_bytes_per_ns`; acyclic, as loading has checked."""
    import networkx as nx  # 0.15 s, needed for scheduling only

    graph: nx.DiGraph[str] = nx.DiGraph()
    for memory in machine.memories.values():
        graph.add_node(memory.name, kind=memory.kind)
    for link in machine.links:
        graph.add_edge(
            link.source_memory, link.target_memory, bandwidth_bytes_per_ns=link.bandwidth_bytes_per_ns
        )
    return graph


def caches_from_nearest(machine: Machine) -> tuple[str, ...]:
    """Caches in the order in which data reaches the registers, the last one before them first."""
    import networkx as nx

    order: list[str] = list(nx.lexicographical_topological_sort(memory_graph(machine)))
    return tuple(name for name in reversed(order) if machine.memories[name].kind == "cache")


def line_bytes(machine: Machine) -> int:
    """Bytes of a line of a machine's caches, the shortest; 0 where none is stated."""
    stated = [dict(memory.decl.attributes).get("line_bytes") for memory in machine.memories.values()]
    return min((size.value for size in stated if isinstance(size, Index) and size.value), default=0)
