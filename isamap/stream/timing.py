"""Time a program whose commands only tokens keep in order, by the costs of its machine.

A command starts when its unit is free, the tokens that it takes are there, the data that it reads is there,
and the link that units share has room for its bytes. It gives its tokens when it ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.machine import Machine, carried_ns, cost_params, cost_value, shared_link
from isamap.source.records import dataclass, field
from isamap.stream.accesses import Access, accesses
from isamap.stream.command import Command, bound_instruction, extents, integers
from isamap.stream.command_words import Placed
from isamap.stream.encoding import END, decode, decode_end
from isamap.stream.order import Touched
from isamap.stream.program_file import ProgramFile
from isamap.stream.queues import QueueRun
from isamap.stream.tables import contents_of


@dataclass(frozen=True, slots=True)
class StreamTime:
    """The time of a program, and the busy time of each unit. Units: ns."""

    total_ns: float
    busy_ns: Mapping[str, float]


def stream_time(program: ProgramFile, machine: Machine) -> StreamTime | None:
    """Return the time of a program by its tokens, or of words with slots; None of others.

    Raises: VerificationFailed.
    """
    if machine.program is not None and machine.program.bundle is not None:
        placed = decode(program.words, machine, contents_of(program.tables))
        return StreamTime(*words_time(placed, machine, command_times, link_time))
    if machine.program is None or not machine.program.queues:
        return None
    end = decode_end(program.words, machine)
    placed = decode(program.words, machine, contents_of(program.tables))
    run = QueueRun(placed + ((end,) if end is not None else ()), machine)
    done: dict[int, float] = {}
    free = dict.fromkeys(run.names, 0.0)
    busy = dict.fromkeys(run.names, 0.0)
    links: dict[str, float] = {}
    touched = Touched(tuple(run.names.index(unit) for unit in run.units), len(run.names))
    for number in run.order():
        command, unit = run.placed[number].command, run.units[number]
        start = max(free[unit], *(done[giver] for giver in run.givers[number]), 0.0)
        if command.instruction == END:
            done[number] = start
            continue
        for access in accesses(command, machine.instructions[command.instruction].instruction):
            written = [c.command for c in touched.touch(access, number) if c.wrote and access.is_read]
            start = max(start, *(done[other] for other in written), 0.0)
        interval_ns, latency_ns = command_times(command, machine)
        if (crossing := link_time(command, machine)) is not None:
            memory, link_ns = crossing
            links[memory] = max(links.get(memory, 0.0), start) + link_ns
            start = max(start, links[memory] - link_ns)
        free[unit] = start + interval_ns
        busy[unit] += interval_ns
        done[number] = start + latency_ns
    return StreamTime(max(done.values(), default=0.0), busy)


def command_times(command: Command, machine: Machine) -> tuple[float, float]:
    """Return how long a command keeps its unit busy, and when it is done. Units: ns."""
    item = machine.instructions[command.instruction]
    numbers = cost_params(item, machine, dict(integers(item.instruction, command.params)))
    return cost_value(item.cost.interval_ns, numbers), cost_value(item.cost.latency_ns, numbers)


def link_time(command: Command, machine: Machine) -> tuple[str, float] | None:
    """Return the memory behind the shared link that a command's bytes cross, and how long they take. Units: ns."""
    crossed = shared_link(machine, command.instruction)
    if crossed is None:
        return None
    link, name = crossed
    instruction = machine.instructions[command.instruction].instruction
    operand = bound_instruction(instruction, integers(instruction, command.params)).operand(name)
    return link.source_memory, carried_ns(link, operand, extents(operand))


# --- when words with slots are performed, one behind the other ---

Times = Callable[[Command, Machine], tuple[float, float]]
"""A function that returns the time for which a command keeps its unit busy, and its end. Units: ns."""
Crossing = Callable[[Command, Machine], tuple[str, float] | None]
"""The memory behind the shared link that its bytes cross, and for how long. Units: ns."""


@dataclass(slots=True)
class _Known:
    """The times at which each byte of each memory was last written and read. Units: ns."""

    written: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    read: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def ready_ns(self, access: Access, latency_ns: float) -> float:
        """Return when a command can start: its inputs are ready, and its outputs' old contents are no longer needed.

        Old contents must also have been written before the command's own result is.
        """
        if not access.at.size:
            return 0.0
        written, read = (float(_room(noted, access)[access.at].max()) for noted in (self.written, self.read))
        first = max(read, written - latency_ns) if access.is_written else 0.0
        return max(first, written) if access.is_read else first

    def note(self, access: Access, read_ns: float, done_ns: float) -> None:
        """Record when an access of a command has read, and when it is done."""
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
    """Return when the last command is done, and how long each unit is busy. Units: ns."""
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
