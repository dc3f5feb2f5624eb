"""Find row distances that map rows to a few sets of the nearest cache, and the padding that avoids it.

Rows that are read together at such a distance evict each other: conflict misses
(docs/decisions/0025-conflict-misses.md, 0068-rows-of-models.md). One line of padding spreads neighbouring
rows over the sets.
"""

from __future__ import annotations

from math import gcd

from isamap.ir import Index
from isamap.machine.model import Machine, caches_from_nearest, line_bytes

FEW_PLACES = 4
"""The largest number of distinct row starts within a way at which rows conflict in it."""


def uncrowding_bytes(row_bytes: int, machine: Machine) -> int:
    """Return the padding between rows of this length that avoids conflict misses: a line, or 0. Units: bytes."""
    way, line = _way_bytes(machine), line_bytes(machine)
    if not way or not line or not row_bytes or row_bytes % line:
        return 0
    return line if way // gcd(row_bytes, way) <= FEW_PLACES else 0


def _way_bytes(machine: Machine) -> int:
    """Return the bytes of one way of the nearest cache, or 0 if they are not stated."""
    for name in caches_from_nearest(machine)[:1]:
        memory = machine.memories[name]
        ways = dict(memory.decl.attributes).get("ways")
        if isinstance(ways, Index) and ways.value and memory.capacity_bytes:
            return memory.capacity_bytes // ways.value
    return 0
