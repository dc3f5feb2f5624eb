"""Which mappings of a kernel a scheduler may choose from, and why it may not choose the others.

conv1d on a 16×16×16 product: 18 mappings, 12 offered; 6 not: "nothing brings operand `b` into `tile`"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.match import (
    Mapping as Mapped,
)
from isamap.match import (
    Suppliers,
    apply_mapping,
    pattern_of,
    profile_sizes,
    read_twice,
    statement_mappings,
    sums_can_be_padded,
    suppliers_of,
)
from isamap.plan.frame import profile_of
from isamap.plan.option import option_of, reorders
from isamap.plan.supplying import input_of
from isamap.transform import Statement, statements


@dataclass(frozen=True, slots=True)
class Offer:
    """A mapping of a statement; `why_not` is empty where a scheduler may choose it."""

    statement: int
    mapping: str
    kind: str
    why_not: str = ""


def offers(kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range]) -> tuple[Offer, ...]:
    """All mappings of a canonical kernel's statements onto a machine, with what becomes of each."""
    suppliers = suppliers_of(kernel, machine)
    profile = {name: profile_of(value) for name, value in sizes.items()}
    return tuple(
        Offer(number, m.ident, m.kind, _why_not(kernel, statement, m, suppliers, profile))
        for number, statement in enumerate(statements(kernel))
        for m in statement_mappings(statement, number, machine)
    )


def _why_not(
    kernel: Kernel, statement: Statement, mapping: Mapped, suppliers: Suppliers, profile: Mapping[str, int]
) -> str:
    pattern = pattern_of(suppliers.machine.instructions[mapping.instruction].instruction)
    assert pattern is not None
    tile = apply_mapping(statement, mapping, pattern, profile_sizes(statement))
    if tile is None:
        if read_twice(mapping.bindings):
            return "an operand is filled from two subscripts of one array"
        return "an operand's elements do not say which iterations they belong to, or its length is not known"
    if not sums_can_be_padded(tile):
        return "lanes that are left over would count: nothing is neutral to them"
    if kernel.strict and reorders(tile):
        return "the kernel is strict, and its sum would run in another order"
    if option_of(tile, suppliers, kernel, profile) is not None:
        return ""
    for operand in tile.inputs:
        if input_of(operand, tile, suppliers, kernel) is None:
            return f"nothing brings operand `{operand.name}` into `{operand.memory}`"
    return "nothing brings the result out of its register, or first contents into it"
