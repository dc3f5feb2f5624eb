"""Kernel + machine + schedule → LoweredProgram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isamap.ir import Kernel, Range, product
from isamap.lower.names import Names
from isamap.lower.nest import lower_nest
from isamap.lower.packed import packing_program, symbols_of
from isamap.lower.pipeline import in_pipeline
from isamap.lower.program import Block, Buffer, For, LoweredProgram, Node, arrays_in, tensor_of
from isamap.lower.registers import assign_registers
from isamap.lower.steady import main_loop, steady_of
from isamap.machine import Machine
from isamap.match import statement_text, suppliers_of
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.steady import Steady
from isamap.plan.tiles import chosen_tile, find_tiles
from isamap.transform import Statement, in_ordered_loops, statements


def lower(
    kernel: Kernel, machine: Machine, schedule: Schedule, sizes: Mapping[str, int | Range]
) -> LoweredProgram:
    """The program that performs a canonical kernel as its schedule says.

    `kernel` has its sizes bound and its guards made explicit; `sizes` are those it was bound with.
    Raises: UsageProblem when the schedule names a mapping that the kernel does not have.
    """
    names = names_of(kernel)
    body = body_of(kernel, machine, schedule, names)
    return program_of(kernel, machine, sizes, temps_of(kernel, body), names, body)


def names_of(kernel: Kernel) -> Names:
    """The names that a program may give."""
    ordered = {a.name for s in statements(kernel) for a in s.sequence}
    return Names({p.name for p in kernel.params} | {o.name for o in kernel.operands} | ordered)


def body_of(kernel: Kernel, machine: Machine, schedule: Schedule, names: Names) -> tuple[Node, ...]:
    """What a program performs."""
    suppliers = suppliers_of(kernel, machine)
    nests: list[tuple[Statement, Node]] = []
    given = statements(kernel)
    for nest in sorted(schedule.nests, key=lambda n: n.statement):
        statement = given[nest.statement]
        tile = chosen_tile(find_tiles(statement, nest.statement, suppliers), nest)
        note = "; ".join(statement_text(given[n]) for n in sorted((nest.statement, *nest.fused)))
        inside = lower_nest(kernel, tile, nest, suppliers, names)
        if nest.carried:  # its innermost ordered loop turns inside
            around = statement.sequence[:-1], statement.ordered_loops[:-1]
            statement = replace(statement, sequence=around[0], ordered_loops=around[1])
        if nest.pipeline is not None:
            inside = in_pipeline(inside, nest.pipeline, machine)
        nests.append((statement, Block(note, inside)))
    nodes = in_ordered_loops(nests, lambda axis, inner: For(axis.name, axis.extent, inner))
    return assign_registers(nodes, machine)


def temps_of(kernel: Kernel, body: tuple[Node, ...]) -> tuple[Buffer, ...]:
    """The kernel's own arrays that a program touches."""
    touched = arrays_in(body)
    return tuple(
        Buffer(o.name, o.dtype, product(o.shape), "of the kernel")
        for o in kernel.operands
        if o.role == "temp" and o.name in touched
    )


def program_of(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    temps: tuple[Buffer, ...],
    names: Names,
    body: tuple[Node, ...],
) -> LoweredProgram:
    """A program with everything that its body needs; `names` have the buffers that it claims."""
    packed = {pack.source: replace(pack.target, role="in") for pack in names.packs}
    return LoweredProgram(
        kernel.name,
        kernel,
        machine.name,
        tuple((n, v) for n, v in sorted(sizes.items()) if isinstance(v, int)),
        symbols_of(kernel),
        tuple(packed.get(o.name) or tensor_of(o) for o in kernel.operands if o.role != "temp"),
        (*temps, *names.buffers),
        body,
        packs=tuple(packing_program(pack, kernel, machine, sizes) for pack in names.packs),
    )


def steady_states(
    kernel: Kernel, machine: Machine, schedule: Schedule
) -> tuple[tuple[NestSchedule, Steady | None], ...]:
    """Per nest the steady state of its main loop; None where it has no innermost loop of issues only."""
    suppliers, given = suppliers_of(kernel, machine), statements(kernel)
    found: list[tuple[NestSchedule, Steady | None]] = []
    for nest in schedule.nests:
        tile = chosen_tile(find_tiles(given[nest.statement], nest.statement, suppliers), nest)
        names = Names({p.name for p in kernel.params} | {o.name for o in kernel.operands})
        loop = None if nest.carried else main_loop(lower_nest(kernel, tile, nest, suppliers, names))
        found.append((nest, steady_of(loop, machine) if loop is not None else None))
    return tuple(found)
