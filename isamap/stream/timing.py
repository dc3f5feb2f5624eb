"""Time a program whose commands are ordered only by tokens, by the costs of its machine.

A command starts when its unit is free, the tokens that it takes are there, the data that it reads is there,
and the link that units share has room for its bytes. It gives its tokens when it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.machine import Machine, carried_ns, cost_params, cost_value, shared_link
from isamap.source.records import dataclass, field
from isamap.stream.accesses import AccessedBytes, accesses
from isamap.stream.command import Command, bound_instruction, extents, integers
from isamap.stream.command_words import Numbered
from isamap.stream.encoding import END, decode, decode_end
from isamap.stream.order import LastCommands
from isamap.stream.program_file import ProgramFile, StreamPart
from isamap.stream.queues import QueueRun
from isamap.stream.tables import contents_of


@dataclass(frozen=True, slots=True)
class StreamTime:
    """The time of a program, and the busy time of each unit. Units: ns."""

    total_ns: float
    busy_ns: Mapping[str, float]


def stream_time(program: ProgramFile, machine: Machine) -> StreamTime | None:
    """Return the time of a program by its tokens, or by its units' queues, or None without either.

    Raises: VerificationFailed.
    """
    timed = part_times(program, machine)
    return timed[0] if timed is not None else None


def _queues_time(words: Sequence[int], program: ProgramFile, machine: Machine) -> StreamTime:
    """Return the time of a whole program's words whose units wait for tokens. Raises: VerificationFailed."""
    end = decode_end(words, machine)
    placed = decode(words, machine, contents_of(program.tables))
    run = QueueRun(placed + ((end,) if end is not None else ()), machine)
    done: dict[int, float] = {}
    free = dict.fromkeys(run.names, 0.0)
    busy = dict.fromkeys(run.names, 0.0)
    links: dict[str, list[tuple[float, float]]] = defaultdict(list)
    touched = LastCommands(tuple(run.names.index(unit) for unit in run.units), len(run.names))
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
            start = _cross(links[memory], start, link_ns)
        free[unit] = start + interval_ns
        busy[unit] += interval_ns
        done[number] = start + latency_ns
    return StreamTime(max(done.values(), default=0.0), busy)


def command_times(command: Command, machine: Machine) -> tuple[float, float]:
    """Return how long a command occupies its unit, and when it is done. Units: ns."""
    return _times_of(command.instruction, _integers_of(command, machine), machine)


def _integers_of(command: Command, machine: Machine) -> tuple[tuple[str, int], ...]:
    return integers(machine.instructions[command.instruction].instruction, command.params)


@lru_cache(maxsize=16384)
def _times_of(name: str, params: tuple[tuple[str, int], ...], machine: Machine) -> tuple[float, float]:
    item = machine.instructions[name]
    numbers = cost_params(item, machine, dict(params))
    return cost_value(item.cost.interval_ns, numbers), cost_value(item.cost.latency_ns, numbers)


def busiest_ns(commands: Iterable[Command], machine: Machine) -> float:
    """Return how long commands occupy the busiest unit or shared link, at least 1. Units: ns."""
    busy: dict[str, float] = defaultdict(float)
    for command in commands:
        busy[machine.instructions[command.instruction].cost.unit] += command_times(command, machine)[0]
        if (crossing := link_time(command, machine)) is not None:
            busy[crossing[0]] += crossing[1]
    return max(1.0, *busy.values())


def link_time(command: Command, machine: Machine) -> tuple[str, float] | None:
    """Return the memory behind the shared link that a command uses, and the transfer time, or None. Units: ns."""
    return _link_of(command.instruction, _integers_of(command, machine), machine)


@lru_cache(maxsize=16384)
def _link_of(name: str, params: tuple[tuple[str, int], ...], machine: Machine) -> tuple[str, float] | None:
    crossed = shared_link(machine, name)
    if crossed is None:
        return None
    link, operand_name = crossed
    operand = bound_instruction(machine.instructions[name].instruction, params).operand(operand_name)
    return link.source_memory, carried_ns(link, operand, extents(operand))


def _cross(busy: list[tuple[float, float]], ready_ns: float, link_ns: float) -> float:
    """Return when a transfer starts on a link, and add it to the times at which the link is busy.

    It takes the first time that is long enough: a transfer that waits for its data does not block later ones.
    """
    start, place = ready_ns, bisect_right(busy, ready_ns, key=lambda span: span[1])
    while place < len(busy) and busy[place][0] < start + link_ns:
        start, place = busy[place][1], place + 1
    span = start, start + link_ns
    if place and busy[place - 1][1] == start:
        place -= 1
        span = busy.pop(place)[0], span[1]
    busy.insert(place, span)
    return start


# --- when words with slots are performed, one after the other ---


@dataclass(slots=True)
class _Known:
    """The times at which each byte of each memory was last written and last read. Units: ns."""

    written: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    read: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    def ready_ns(self, access: AccessedBytes, latency_ns: float) -> float:
        """Return when a command can start, considering one of its accesses.

        Old contents must also have been written before the command's own result is.
        """
        written = float(_room(self.written, access).max())
        read = float(_room(self.read, access).max()) if access.is_written else 0.0
        first = max(read, written - latency_ns) if access.is_written else 0.0
        return max(first, written) if access.is_read else first

    def note(self, access: AccessedBytes, read_ns: float, done_ns: float) -> None:
        """Record when an access of a command has been read, and when the command is done."""
        for noted, is_so, at_ns in (
            (self.read, access.is_read, read_ns),
            (self.written, access.is_written, done_ns),
        ):
            if is_so:
                own = _room(noted, access)
                np.maximum(own, at_ns, out=own)


def _room(noted: dict[str, NDArray[Any]], access: AccessedBytes) -> NDArray[Any]:
    """Return a view of the times of an access's bytes."""
    own = noted.get(access.memory)
    if own is None or own.size < access.end:
        more = np.zeros(max(access.end, 2 * (own.size if own is not None else 0)))
        if own is not None:
            more[: own.size] = own
        noted[access.memory] = own = more
    return access.of(own)


@dataclass(slots=True)
class Clock:
    """The times of a machine while it executes words, one part of a program after the other. Units: ns."""

    machine: Machine
    now: float = 0.0
    """When the next word is issued, at the earliest."""
    last: float = 0.0
    """When all commands so far are done."""
    known: _Known = field(default_factory=_Known)
    busy: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    free: dict[object, float] = field(default_factory=lambda: defaultdict[object, float](float))
    links: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """When each shared link is busy, in order."""
    begun: dict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))

    def perform(self, placed: Sequence[Numbered]) -> None:
        """Perform the words of a program."""
        cycle_ns = 1 / self.machine.clock_ghz if self.machine.clock_ghz else 0.0
        for _, word in groupby(placed, key=lambda one: one.issued):
            found = [self._ready(one) for one in word]
            for one, unit, touched, ready in found:
                self._begin(one, unit, touched, ready)
            self.now += cycle_ns

    def _ready(self, one: Numbered) -> tuple[Numbered, str, list[AccessedBytes], float]:
        """Return a command with its unit, its accesses, and the time from which these allow it to start."""
        item = self.machine.instructions[one.command.instruction]
        unit, touched = item.cost.unit, list(accesses(one.command, item.instruction))
        latency_ns = command_times(one.command, self.machine)[1]
        ready = max((self.known.ready_ns(access, latency_ns) for access in touched), default=0.0)
        depth = self.machine.units[unit].queued
        if depth is None:
            self.now = max(self.now, ready, self.free[unit, one.low])
        elif len(self.begun[unit]) >= depth:
            self.now = max(self.now, self.begun[unit][-depth])
        return one, unit, touched, ready

    def _begin(self, one: Numbered, unit: str, touched: Sequence[AccessedBytes], ready: float) -> None:
        begin = max(self.now, ready, self.free[unit, one.low])
        interval_ns, latency_ns = command_times(one.command, self.machine)
        if (crossed := link_time(one.command, self.machine)) is not None:
            memory, link_ns = crossed
            begin = _cross(self.links[memory], begin, link_ns)
        self.free[unit, one.low] = begin + interval_ns
        self.begun[unit].append(begin)
        self.busy[unit] += interval_ns
        for access in touched:
            self.known.note(access, begin + interval_ns, begin + latency_ns)
        self.last = max(self.last, begin + latency_ns)


def part_times(program: ProgramFile, machine: Machine) -> tuple[StreamTime, tuple[float, ...]] | None:
    """Return the time of a network's stream and the end of each part, or None if nothing orders its units.

    A part is issued behind the one before it, and overlaps with it; behind a step of the host nothing is on its way.
    Where units wait for tokens, a part ends when all of its commands have, and the next one begins then.
    Raises: VerificationFailed.
    """
    clock, at, before, ends = Clock(machine), 0, -1, list[float]()
    parts = program.parts or (StreamPart(0, len(program.words), program.instructions),)
    if machine.program is not None and machine.program.queues:
        for part in parts:
            own = _queues_time(program.words[at : at + part.words], program, machine)
            clock.last, at = clock.last + own.total_ns, at + part.words
            ends.append(clock.last)
            for unit, busy_ns in own.busy_ns.items():
                clock.busy[unit] += busy_ns
        return StreamTime(clock.last, dict(clock.busy)), tuple(ends)
    if not _is_in_order(machine):
        return None
    tables = contents_of(program.tables)
    for part in parts:
        if part.step != before + 1:
            clock.now = max(clock.now, clock.last)
        clock.perform(decode(program.words[at : at + part.words], machine, tables))
        at, before = at + part.words, part.step
        ends.append(clock.last)
    return StreamTime(clock.last, dict(clock.busy)), tuple(ends)


def _is_in_order(machine: Machine) -> bool:
    """Return whether units run without tokens, because words have slots or units have queues of their own."""
    if machine.program is None or machine.program.queues:
        return False
    return machine.program.bundle is not None or all(u.queued is not None for u in machine.units.values())
