"""Kernel + machine + schedule → LoweredProgram."""

from __future__ import annotations

from isamap.ir import Index, Kernel, Operand, Range, product
from isamap.lower.names import Names
from isamap.lower.nest import lower_nest
from isamap.lower.program import Block, Buffer, For, LoweredProgram, Node, Tensor, arrays_in
from isamap.lower.registers import assign_registers
from isamap.machine import Machine
from isamap.match import Suppliers, layouts, statement_text, tensor_strides
from isamap.plan.build import chosen_tile, find_tiles
from isamap.plan.schedule import Schedule
from isamap.transform import Statement, in_ordered_loops, statements


def lower(
    kernel: Kernel, machine: Machine, schedule: Schedule, sizes: dict[str, int | Range]
) -> LoweredProgram:
    """The program that performs a canonical kernel as its schedule says.

    `kernel` has its sizes bound and its guards made explicit; `sizes` are those it was bound with.
    Raises: UsageProblem when the schedule names a mapping that the kernel does not have.
    """
    ordered = {a.name for s in statements(kernel) for a in s.sequence}
    reserved = {p.name for p in kernel.params} | {o.name for o in kernel.operands} | ordered
    names = Names(set(reserved))
    suppliers = Suppliers(machine, layouts(kernel))
    nests: list[tuple[Statement, Node]] = []
    given = statements(kernel)
    for nest in sorted(schedule.nests, key=lambda n: n.statement):
        statement = given[nest.statement]
        tile = chosen_tile(find_tiles(statement, nest.statement, suppliers), nest)
        note = "; ".join(statement_text(given[n]) for n in sorted((nest.statement, *nest.fused)))
        nests.append((statement, Block(note, lower_nest(kernel, tile, nest, suppliers, names))))
    nodes = in_ordered_loops(nests, lambda axis, inner: For(axis.name, axis.extent, inner))
    body = assign_registers(nodes, machine)
    touched = arrays_in(body)
    temps = tuple(
        Buffer(o.name, o.dtype, product(o.shape), "of the kernel")
        for o in kernel.operands
        if o.role == "temp" and o.name in touched
    )
    return LoweredProgram(
        kernel.name,
        kernel,
        machine.name,
        tuple((n, v) for n, v in sorted(sizes.items()) if isinstance(v, int)),
        tuple((p.name, _bound(p.low, 1), _bound(p.high, 2**31)) for p in kernel.params if p.kind == "size"),
        tuple(_tensor(o) for o in kernel.operands if o.role != "temp"),
        (*temps, *names.buffers),
        body,
    )


def _bound(value: Index | None, otherwise: int) -> int:
    return value.value if value is not None and value.value is not None else otherwise


def _tensor(operand: Operand) -> Tensor:
    assert operand.role != "temp"
    return Tensor(operand.name, operand.role, operand.dtype, operand.shape, tensor_strides(operand))
