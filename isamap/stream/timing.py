"""When units are done with a program whose tokens alone keep them in order, by the costs of its machine.

A command begins when its unit is free, what it takes tokens of and what it reads is done, and its bytes can
cross the link that units share; it gives its tokens when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.machine import Machine, carried_ns, cost_params, cost_value, shared_link
from isamap.stream.accesses import accesses
from isamap.stream.bundle_timing import words_time
from isamap.stream.command import Command, bound_instruction, extents, integers
from isamap.stream.order import Touched
from isamap.stream.program_file import ProgramFile
from isamap.stream.queues import QueueRun
from isamap.stream.tables import contents_of
from isamap.stream.words import END, decode, decode_end


@dataclass(frozen=True, slots=True)
class StreamTime:
    """How long a program takes, and how long it keeps each unit busy. Units: ns."""

    total_ns: float
    busy_ns: Mapping[str, float]


def stream_time(program: ProgramFile, machine: Machine) -> StreamTime | None:
    """The time of a program by its tokens, or of words with slots; None of others.

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
    """How long a command keeps its unit busy, and when it is done. Units: ns."""
    item = machine.instructions[command.instruction]
    numbers = cost_params(item, machine, dict(integers(item.instruction, command.params)))
    return cost_value(item.cost.interval_ns, numbers), cost_value(item.cost.latency_ns, numbers)


def link_time(command: Command, machine: Machine) -> tuple[str, float] | None:
    """The memory behind the shared link that a command's bytes cross, and how long they take. Units: ns."""
    crossed = shared_link(machine, command.instruction)
    if crossed is None:
        return None
    link, name = crossed
    instruction = machine.instructions[command.instruction].instruction
    operand = bound_instruction(instruction, integers(instruction, command.params)).operand(name)
    return link.source_memory, carried_ns(link, operand, extents(operand))
