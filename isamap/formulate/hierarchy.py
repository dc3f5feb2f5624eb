"""The memory hierarchy of a machine as a problem contains it."""

from __future__ import annotations

from collections.abc import Iterable

from isamap.ir import Index
from isamap.machine import Link, Machine, Memory, caches_from_nearest
from isamap.machine.timings import NO_ROWS, RowTimes, StreamTimes
from isamap.plan.problem import Cache
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Memories:
    """The memory hierarchy: caches from the nearest, and the memory behind them.

    Cores share a cache, or the memory behind, if the link from it is shared. They also share the capacity
    of a cache that states how many cores do. Units: bytes per nanosecond.
    """

    caches: tuple[Cache, ...]
    beyond_bytes_per_ns: float
    beyond_is_shared: bool
    beyond_rows: RowTimes
    beyond_streams: StreamTimes | None

    @staticmethod
    def of(machine: Machine) -> Memories:
        """Return the memories of a machine, each with the bandwidth of its fastest link."""
        names = caches_from_nearest(machine)
        inward = [link for link in machine.links if link.target_memory in names[-1:]]
        fastest = max(inward, key=lambda link: link.bandwidth_bytes_per_ns, default=None)
        return Memories(
            tuple(_cache(machine, name) for name in names),
            _bandwidth(inward, machine),
            any(link.shared for link in inward),
            fastest.rows if fastest is not None else NO_ROWS,
            fastest.streams if fastest is not None else None,
        )

    def moved_ns(self, size_bytes: int) -> float:
        """Return the time to move an array of this size from the nearest memory that holds it."""
        for cache in self.caches:
            if size_bytes <= cache.capacity_bytes:
                return size_bytes / cache.bandwidth_bytes_per_ns
        return size_bytes / self.beyond_bytes_per_ns


def _cache(machine: Machine, name: str) -> Cache:
    memory = machine.memories[name]
    outward = [link for link in machine.links if link.source_memory == name]
    return Cache(
        name,
        memory.capacity_bytes or 0,
        _bandwidth(outward, machine),
        _attribute(memory, "ways"),
        any(link.shared for link in outward),
        _attribute(memory, "line_bytes"),
        max(outward, key=lambda link: link.bandwidth_bytes_per_ns).rows if outward else NO_ROWS,
        _attribute(memory, "kept_ns"),
        _attribute(memory, "cores") or 1,
        machine.model.usable_factor,
    )


def _bandwidth(links: Iterable[Link], machine: Machine) -> float:
    return max((link.bandwidth_bytes_per_ns for link in links), default=machine.model.unlinked_bytes_per_ns)


def _attribute(memory: Memory, name: str) -> int:
    """Return a numeric attribute of a memory's declaration, or 0 if it is not stated."""
    stated = dict(memory.decl.attributes).get(name)
    return (stated.value or 0) if isinstance(stated, Index) else 0
