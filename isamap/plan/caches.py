"""A machine's caches as a problem has them."""

from __future__ import annotations

from collections.abc import Iterable

from isamap.ir import Index
from isamap.machine import Machine, Memory, caches_from_nearest, memory_graph
from isamap.plan.problem import Cache

UNSTATED_BANDWIDTH = 10.0  # bytes per ns of memory that a description links to nothing


def caches_of(machine: Machine) -> tuple[tuple[Cache, ...], float, bool]:
    """Caches from the nearest, with the bandwidth towards the one before, and that of what lies beyond.

    Cores share a cache, or what lies beyond, when the link from it is shared.
    """
    graph = memory_graph(machine)
    names = caches_from_nearest(machine)

    def fastest(edges: Iterable[tuple[str, str, float]]) -> float:
        return max((bandwidth for _, _, bandwidth in edges), default=UNSTATED_BANDWIDTH)

    caches = tuple(
        Cache(
            name,
            machine.memories[name].capacity_bytes or 0,
            fastest(graph.out_edges(name, data="bandwidth_bytes_per_ns")),
            _ways(machine.memories[name]),
            any(link.shared for link in machine.links if link.source_memory == name),
        )
        for name in names
    )
    beyond_shared = any(link.shared for link in machine.links if link.target_memory in names[-1:])
    beyond = (
        fastest(graph.in_edges(names[-1], data="bandwidth_bytes_per_ns")) if names else UNSTATED_BANDWIDTH
    )
    return caches, beyond, beyond_shared


def _ways(memory: Memory) -> int:
    """Ways of a cache; 0 where they are not stated."""
    stated = dict(memory.decl.attributes).get("ways")
    return (stated.value or 0) if isinstance(stated, Index) else 0
