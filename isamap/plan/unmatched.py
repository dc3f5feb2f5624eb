"""What is said of a statement that nothing on a machine performs: the nearest instruction, and why not."""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import Suppliers, layouts, refusals, statement_mappings, statement_text, tile_of, uncleared
from isamap.source import Diagnostic, NoMapping
from isamap.transform import Statement, statements

STRICT_NOTE = (
    "the kernel is strict: its sum runs over one axis, in order, and every term is rounded, so that neither "
    "fused nor reordering instructions may perform it"
)


def no_mapping(kernel: Kernel, number: int, machine: Machine) -> NoMapping:
    """The error for a statement, by its number, that has no mapping which can be carried out."""
    statement = statements(kernel)[number]
    if (lacking := _uncleared(kernel, statement, number, machine)) is not None:
        return lacking
    notes = [STRICT_NOTE] if kernel.strict and statement.assign.op is not None else []
    notes += [r.message for r in refusals(kernel, machine) if r.statement == number][:1]
    return NoMapping(
        Diagnostic(
            "no-mapping",
            f"{machine.name} cannot perform `{statement_text(statement)}`",
            statement.assign.span,
            notes=tuple(notes),
            help=f"`isamap match --explain --hw {machine.called}` says what each instruction lacks",
        )
    )


def _uncleared(kernel: Kernel, statement: Statement, number: int, machine: Machine) -> NoMapping | None:
    """The error where tiles would have to be filled up with zeros, and no instruction writes them."""
    suppliers = Suppliers(machine, layouts(kernel))
    for mapping in statement_mappings(statement, number, machine):
        tile = tile_of(statement, mapping, machine)
        lacking = uncleared(tile, suppliers) if tile is not None else None
        if lacking is not None:
            return NoMapping(replace(lacking.diagnostics[0], span=statement.assign.span))
    return None
