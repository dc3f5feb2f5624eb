"""A small workspace for buffers with lifetimes: the least that lives at one time, or little more.

pack([a: 0..2 of 64, b: 2..4 of 64])     {"a": 0, "b": 0}
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.plan.placement import Buffer
from isamap.scheduler.skyline import Effort, OutOfNodes, make_instance, search

NODES = 20_000  # of one attempt; with few buffers the first few decide


def pack(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Offsets by name. The memory begins as large as what lives at one time and grows until all are placed.

    Nothing depends on the clock. Where every attempt runs out of nodes, nothing is shared.
    """
    if not buffers:
        return {}
    whole = sum(-(-b.size_bytes // b.alignment_bytes) * b.alignment_bytes for b in buffers)
    unit = max(b.alignment_bytes for b in buffers)
    capacity = max(make_instance(buffers, whole).loads) * make_instance(buffers, whole).unit_bytes
    while capacity < whole:
        found = _placed(buffers, capacity)
        if found is not None:
            return found
        capacity += max(unit, capacity // 32 // unit * unit)
    return _side_by_side(buffers)


def _placed(buffers: Sequence[Buffer], capacity: int) -> dict[str, int] | None:
    """Offsets within a capacity; None when there are none, or none was found."""
    instance = make_instance(buffers, capacity)
    lengths = [last - first for first, last in zip(instance.first, instance.last, strict=True)]
    effort = Effort("fewest", lambda b: -lengths[b] * instance.size[b], NODES)
    try:
        found = search(instance, effort, [0] * instance.sections)
    except OutOfNodes:
        return None
    if found is None:
        return None
    return {b.name: offset * instance.unit_bytes for b, offset in zip(buffers, found, strict=True)}


def _side_by_side(buffers: Sequence[Buffer]) -> dict[str, int]:
    at = 0
    offsets: dict[str, int] = {}
    for buffer in buffers:
        at = -(-at // buffer.alignment_bytes) * buffer.alignment_bytes
        offsets[buffer.name] = at
        at += buffer.size_bytes
    return offsets
