"""What is said of a statement that nothing on a machine performs: the nearest instruction, and why not."""

from __future__ import annotations

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import refusals, statement_text
from isamap.source import Diagnostic, NoMapping
from isamap.transform import statements

STRICT_NOTE = (
    "the kernel is strict: its sum runs over one axis, in order, and every term is rounded, so that neither "
    "fused nor reordering instructions may perform it"
)


def no_mapping(kernel: Kernel, number: int, machine: Machine) -> NoMapping:
    """The error for a statement, by its number, that has no mapping which can be carried out."""
    statement = statements(kernel)[number]
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
