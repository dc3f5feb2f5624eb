"""Place buffers with known lifetimes in a memory: the backtracking packer and CP-SAT in alternation.

    allocate(buffers, 1048576)     {"a": 0, "b": 4096, …}

Both are fast on most instances and very slow on a few, but not on the same ones, so each has little time at
first. Node limits and the solver's own measure of effort decide when to change over, so that the answer
does not depend on the clock.

pack([a: 0..2 of 64, b: 2..4 of 64])     {"a": 0, "b": 0}: the least workspace, or little more
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

from isamap.plan.placement import PlacedBuffer, check_placement
from isamap.scheduler.memory.placing import place_isolated
from isamap.scheduler.memory.skyline import Effort, Instance, OutOfNodes, make_instance, search
from isamap.source.records import dataclass, replace

Status = Literal["PLACED", "INFEASIBLE", "UNKNOWN"]

FIRST_NODES = 1000
FIRST_EFFORT = 1.0
GROWTH = 2.0
PLAIN_ATTEMPTS = 8  # with orders as they are; later ones are shaken
SHAKE = 0.5
SEED = 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Offsets by buffer (empty unless `PLACED`), and which packer found it. Units: bytes, seconds.

    `load_bytes` is the most that lives at one time: no memory smaller than that will do.
    """

    status: Status
    offsets: Mapping[str, int]
    method: str
    load_bytes: int
    seconds: float


def allocate(buffers: Sequence[PlacedBuffer], capacity_bytes: int, limit_s: float = 60.0) -> Allocation:
    """Return a placement of all buffers, a proof that none exists, or neither within `limit_s` seconds."""
    started = time.monotonic()
    if not buffers:
        return Allocation("PLACED", {}, "nothing to place", 0, 0.0)
    instance = make_instance(buffers, capacity_bytes)
    load = max(instance.loads) * instance.unit_bytes

    def answer(status: Status, method: str, found: Sequence[int] = ()) -> Allocation:
        offsets = {b.name: o * instance.unit_bytes for b, o in zip(buffers, found, strict=bool(found))}
        findings = check_placement(buffers, offsets, capacity_bytes) if status == "PLACED" else ()
        assert not findings, "\n".join(f.render() for f in findings)
        return Allocation(status, offsets, method, load, time.monotonic() - started)

    if load > capacity_bytes:
        return answer("INFEASIBLE", "load")
    efforts = _efforts(instance)
    failures = [0] * instance.sections
    nodes, effort = FIRST_NODES, FIRST_EFFORT
    while (left := limit_s - (time.monotonic() - started)) > 0:
        for _ in range(PLAIN_ATTEMPTS):
            try:
                found = search(instance, replace(next(efforts)(failures), nodes=nodes), failures)
            except OutOfNodes:
                if time.monotonic() - started > limit_s:
                    return answer("UNKNOWN", "limit")
                continue
            return answer("PLACED", "skyline", found) if found else answer("INFEASIBLE", "skyline")
        solved = place_isolated(instance, left, effort)
        if solved == "none":
            return answer("INFEASIBLE", "cp-sat")
        if solved != "unknown":
            return answer("PLACED", "cp-sat", solved)
        nodes, effort = int(nodes * GROWTH), effort * GROWTH
    return answer("UNKNOWN", "limit")


Prepare = Callable[[list[int]], Effort]


def _efforts(instance: Instance) -> Iterator[Prepare]:
    """Yield search strategies without end: by lifetime, by size, by height, or by failures."""
    rng = random.Random(SEED)
    attempt = 0
    while True:
        shake = 0.0 if attempt < PLAIN_ATTEMPTS else SHAKE
        weights = [1 + shake * rng.random() for _ in instance.size]
        yield _effort(instance, attempt, weights)
        attempt += 1


def _effort(instance: Instance, attempt: int, weights: list[float]) -> Prepare:
    lengths = [last - first for first, last in zip(instance.first, instance.last, strict=True)]

    def prepare(failures: list[int]) -> Effort:
        trouble = [0, *accumulate(1 + f for f in failures)]
        worth = (
            lengths,
            [length * size for length, size in zip(lengths, instance.size, strict=True)],
            instance.size,
            [trouble[b] - trouble[a] for a, b in zip(instance.first, instance.last, strict=True)],
        )[attempt // 2 % 4]
        return Effort(
            "fewest" if attempt % 2 == 0 else "lowest", lambda b: -worth[b] * weights[b], FIRST_NODES
        )

    return prepare


NODES = 20_000  # of one attempt; with few buffers the first few decide


def pack(buffers: Sequence[PlacedBuffer]) -> dict[str, int]:
    """Return offsets by name. The capacity starts at the peak of live bytes and grows until all buffers fit.

    Nothing depends on the clock. Where every attempt runs out of nodes, nothing is shared.
    """
    if not buffers:
        return {}
    whole = sum(-(-b.size_bytes // b.alignment_bytes) * b.alignment_bytes for b in buffers)
    unit = max(b.alignment_bytes for b in buffers)
    capacity = max(make_instance(buffers, whole).loads) * make_instance(buffers, whole).unit_bytes
    while capacity < whole:
        found = _place_buffers(buffers, capacity)
        if found is not None:
            return found
        capacity += max(unit, capacity // 32 // unit * unit)
    return _side_by_side(buffers)


def _place_buffers(buffers: Sequence[PlacedBuffer], capacity: int) -> dict[str, int] | None:
    """Return offsets within a capacity, or None if there are none or none were found."""
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


def _side_by_side(buffers: Sequence[PlacedBuffer]) -> dict[str, int]:
    at = 0
    offsets: dict[str, int] = {}
    for buffer in buffers:
        at = -(-at // buffer.alignment_bytes) * buffer.alignment_bytes
        offsets[buffer.name] = at
        at += buffer.size_bytes
    return offsets
