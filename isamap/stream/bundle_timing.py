"""When words with slots are performed, one behind the other: each as soon as all that it needs is there.

    {load v0}            ns 0
    {load v1, mac v0}    ns 4: v0 is there

A unit with a queue, as a DMA engine, takes its instruction and is waited for only by what needs its bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.machine import Machine
from isamap.stream.accesses import Access, accesses
from isamap.stream.command import Command
from isamap.stream.command_words import Placed

Times = Callable[[Command, Machine], tuple[float, float]]
"""How long a command keeps its unit busy, and when it is done. Units: ns."""
Crossing = Callable[[Command, Machine], tuple[str, float] | None]
"""The memory behind the shared link that its bytes cross, and for how long. Units: ns."""


@dataclass(slots=True)
class _Known:
    """By memory and byte when what is there was written, and has been read. Units: ns."""

    written: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    read: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def ready_ns(self, access: Access, latency_ns: float) -> float:
        """When a command can begin: what it reads is there, what it overwrites was read, and written before
        its own result.
        """
        if not access.at.size:
            return 0.0
        written, read = (float(_room(noted, access)[access.at].max()) for noted in (self.written, self.read))
        first = max(read, written - latency_ns) if access.is_written else 0.0
        return max(first, written) if access.is_read else first

    def note(self, access: Access, read_ns: float, done_ns: float) -> None:
        """An access of a command that has read, and is done, at these times."""
        for noted, is_so, at_ns in (
            (self.read, access.is_read, read_ns),
            (self.written, access.is_written, done_ns),
        ):
            if is_so and access.at.size:
                own = _room(noted, access)
                own[access.at] = np.maximum(own[access.at], at_ns)


def _room(noted: dict[str, NDArray[Any]], access: Access) -> NDArray[Any]:
    size, own = int(access.at.max()) + 1, noted.get(access.memory)
    if own is None or own.size < size:
        more = np.zeros(max(size, 2 * (own.size if own is not None else 0)))
        if own is not None:
            more[: own.size] = own
        noted[access.memory] = own = more
    return own


def words_time(
    placed: Sequence[Placed], machine: Machine, times: Times, crossing: Crossing
) -> tuple[float, Mapping[str, float]]:
    """When the last command is done, and how long each unit is busy. Units: ns."""
    known, busy = _Known(), defaultdict[str, float](float)
    free, links = defaultdict[object, float](float), defaultdict[str, float](float)
    begun = defaultdict[str, list[float]](list)
    cycle_ns = 1 / machine.clock_ghz if machine.clock_ghz else 0.0
    now, last = -cycle_ns, 0.0
    for _, word in groupby(placed, key=lambda one: one.issued):
        now += cycle_ns
        found: list[tuple[Placed, str, list[Access], float]] = []
        for one in word:
            item = machine.instructions[one.command.instruction]
            unit, touched = item.cost.unit, list(accesses(one.command, item.instruction))
            ready = max(
                (known.ready_ns(access, times(one.command, machine)[1]) for access in touched), default=0.0
            )
            found.append((one, unit, touched, ready))
            depth = machine.units[unit].queued
            if depth is None:
                now = max(now, ready, free[unit, one.low])
            elif len(begun[unit]) >= depth:
                now = max(now, begun[unit][-depth])
        for one, unit, touched, ready in found:
            begin = max(now, ready, free[unit, one.low])
            interval_ns, latency_ns = times(one.command, machine)
            if (crossed := crossing(one.command, machine)) is not None:
                memory, link_ns = crossed
                begin = max(begin, links[memory])
                links[memory] = begin + link_ns
            free[unit, one.low] = begin + interval_ns
            begun[unit].append(begin)
            busy[unit] += interval_ns
            for access in touched:
                known.note(access, begin + interval_ns, begin + latency_ns)
            last = max(last, begin + latency_ns)
    return last, dict(busy)
