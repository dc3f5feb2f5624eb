"""Why an instruction does not perform a statement: the first condition that fails, and an edit that meets it.

    fma_f64: takes a of f64; A[m, k] is f32

Conditions are tried in one order: one plain statement, operation, type of the sum, operand tree, types of
the operands, places for all axes, elements that belong together, sizes and preconditions; of mappings, what
the machine lacks to carry them out. The later an instruction fails the nearer it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from isamap.ir import Kernel
from isamap.machine import Machine, MachineInstruction
from isamap.match.enumerate import find_in_statement
from isamap.match.find import find_mappings
from isamap.match.instructions import pattern_of, patterns_of
from isamap.match.mapping import Mapping
from isamap.match.refuse_around import Surroundings, refuse_around
from isamap.match.refuse_axes import refuse_axes
from isamap.match.refuse_elements import refuse_elements
from isamap.match.refuse_heads import refuse_heads
from isamap.match.refuse_products import refuse_product
from isamap.match.refuse_shape import refuse_guard, refuse_instruction
from isamap.match.refuse_sizes import (
    refuse_flushing,
    refuse_order,
    refuse_padding,
    refuse_parameters,
    refuse_preconditions,
)
from isamap.match.refuse_tree import refuse_tree
from isamap.match.rejection import REASONS, Case, Cause, Rejection
from isamap.transform import Statement

CONDITIONS: tuple[Callable[[Case], Cause | None], ...] = (
    refuse_instruction,
    refuse_guard,
    refuse_heads,
    refuse_product,
    refuse_tree,
    refuse_axes,
    refuse_elements,
    refuse_parameters,
)
"""What is asked of an instruction that has no mapping, in order."""

FURTHER: tuple[Callable[[Case], Cause | None], ...] = (
    refuse_product,
    refuse_order,
    refuse_flushing,
    refuse_padding,
    refuse_preconditions,
)
"""What is asked of one that has mappings: whether they may, and can, be carried out."""


def refusals(
    kernel: Kernel, machine: Machine, mappings: tuple[Mapping, ...] | None = None
) -> tuple[Rejection, ...]:
    """A rejection for every statement and instruction without a whole or split mapping, nearest first.

    `mappings` are all that there are, looked for when they are not given.
    """
    known: dict[tuple[int, str], list[Mapping]] = {}
    for mapping in find_mappings(kernel, machine) if mappings is None else mappings:
        known.setdefault((mapping.statement, mapping.instruction), []).append(mapping)
    around = Surroundings(kernel, machine)
    found: list[Rejection] = []
    for number, statement in enumerate(around.statements):
        for item in machine.instructions.values():
            own = tuple(known.get((number, item.instruction.name), ()))
            rejection = refusal(around, item, statement, number, own)
            if rejection is not None:
                found.append(rejection)
    return tuple(sorted(found, key=lambda r: (r.statement, -REASONS.index(r.reason), not r.edits)))


def refusal(
    around: Surroundings,
    item: MachineInstruction,
    statement: Statement,
    number: int,
    mappings: tuple[Mapping, ...],
) -> Rejection | None:
    """Why an instruction does not perform a statement; None when it does, or is not meant to compute."""
    if not any(o.role in ("out", "inout") for o in item.instruction.operands):
        return None
    pattern = pattern_of(item.instruction)
    if pattern is None and (number, item.instruction.name) in around.grouped:
        return None
    others = tuple(s for n, s in enumerate(around.statements) if n != number)
    case = Case(around.kernel, around.machine, item, statement, number, mappings, pattern, others)
    cause = _first(case, around)
    if cause is None:
        return None
    name = item.instruction.name
    span = cause.span or statement.assign.span
    own = cause.instruction_span or item.instruction.span
    return Rejection(
        name, number, cause.reason, f"{name} {cause.message}", span, cause.edit, own, cause.edits
    )


def _first(case: Case, around: Surroundings) -> Cause | None:
    if case.performed:
        found = next((c for condition in FURTHER if (c := condition(case)) is not None), None)
        return found or refuse_around(case, around)
    if case.pattern is None and len(parts := patterns_of(case.item.instruction)) == 1:
        # Under a predicate alone an instruction does what it would without, in lanes where that holds.
        plain = replace(case, pattern=parts[0])
        found = next((c for condition in CONDITIONS[1:] if (c := condition(plain)) is not None), None)
        return found or refuse_instruction(case)
    found = next((c for condition in CONDITIONS if (c := condition(case)) is not None), None)
    return found or _not_counted(case)


def _not_counted(case: Case) -> Cause | None:
    """Nothing is wrong with it: the mappings that were given are those of a narrower way of counting."""
    pattern = case.pattern
    assert pattern is not None
    found = find_in_statement(pattern, case.statement, case.number, kernel=case.kernel)
    first = next((m for m in found if m.kind != "degenerate"), None)
    if first is None:
        return None
    message = f"has mappings such as `{first.ident}`, which this way of counting leaves out"
    span, own = case.statement.assign.span, pattern.statement.assign.span
    return Cause("not-counted", message, span, own, "`--count complete`")
