"""Find the first condition that an instruction does not meet for a statement, and an edit that meets it.

    fma_f64: takes a of f64; A[m, k] is f32

Conditions are tried in one order: one plain statement, operation, type of the sum, operand tree, types of the
operands, places for all axes, elements that belong together, sizes and preconditions; the moves that the
machine needs to execute a mapping. An instruction that fails later is nearer.

It also reports the types, conversions and operations of a statement that no instruction of a machine
supports:

    y[i] += f32(x[i]) * w[i] where x is of f16:   dot-16 has no instruction that reads or writes f16, as x is
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isamap.ir import Call, Cast, Expr, Kernel, Read
from isamap.ir.walk import walk
from isamap.machine import Machine, MachineInstruction
from isamap.match.mappings.enumerate import find_in_statement, find_mappings
from isamap.match.mappings.mapping import Mapping
from isamap.match.patterns.pattern import pattern_of, patterns_of
from isamap.match.refusals.axis_conditions import (
    refuse_axes,
    refuse_elements,
    refuse_flushing,
    refuse_guard,
    refuse_instruction,
    refuse_order,
    refuse_padding,
    refuse_parameters,
    refuse_preconditions,
)
from isamap.match.refusals.expression_conditions import refuse_tree
from isamap.match.refusals.heads import refuse_heads, refuse_product
from isamap.match.refusals.kernel_edits import abridge
from isamap.match.refusals.rejection import REASONS, Case, Cause, Rejection
from isamap.match.refusals.surroundings import Surroundings, refuse_around
from isamap.source.records import replace
from isamap.transform import Statement, reads

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
"""The conditions that are tested, in this order, for an instruction without a mapping."""

FURTHER: tuple[Callable[[Case], Cause | None], ...] = (
    refuse_product,
    refuse_order,
    refuse_flushing,
    refuse_padding,
    refuse_preconditions,
)
"""The conditions that are tested for an instruction with mappings: whether they are legal and executable."""


def refusals(
    kernel: Kernel, machine: Machine, mappings: tuple[Mapping, ...] | None = None
) -> tuple[Rejection, ...]:
    """Return a rejection for every statement and instruction without a whole or split mapping, nearest first.

    `mappings` are all mappings; they are searched if not given.
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
    """Return why an instruction does not perform a statement; None if it does, or if it is not meant to compute."""
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
    """Report that only the narrower counting mode excludes the mapping."""
    pattern = case.pattern
    assert pattern is not None
    found = find_in_statement(pattern, case.statement, case.number, kernel=case.kernel)
    first = next((m for m in found if m.kind != "degenerate"), None)
    if first is None:
        return None
    message = f"has mappings such as `{first.ident}`, which this way of counting leaves out"
    span, own = case.statement.assign.span, pattern.statement.assign.span
    return Cause("not-counted", message, span, own, "`--count complete`")


Ability = tuple[str, str, str]
"""An operation, or `cast`, the type it takes, and the type of its result."""


def lacking_abilities(statement: Statement, machine: Machine, *, in_lanes: bool = False) -> tuple[str, ...]:
    """Return the missing abilities in words: those that no instruction of the machine has; () if none is missing.

    Types come first, because a missing type has no operations. Innermost operations come first. With
    `in_lanes`, only instructions that perform several iterations in one issue count.
    """
    instructions = [
        item.instruction
        for item in machine.instructions.values()
        if not in_lanes or any(p.axes for p in patterns_of(item.instruction))
    ]
    how = " on several elements at once" if in_lanes else ""
    assign = statement.assign
    types = {o.dtype for instruction in instructions for o in instruction.operands}
    without: dict[str, dict[str, None]] = {}
    for r in (*reads(assign.value), assign.target):
        if r.dtype not in types:
            without.setdefault(str(r.dtype), {})[r.buffer] = None
    if without:
        return tuple(
            f"{machine.name} has no instruction that reads or writes {dtype}{how}, the type of "
            f"{', '.join(names)}"
            for dtype, names in without.items()
        )
    there = {a for i in instructions for p in patterns_of(i) for _, a in _abilities(p.statement)}
    found = {
        ability: f"{machine.name} has no instruction that {_words(ability)}{how}: `{abridge(e)}`"
        for e, ability in reversed(tuple(_abilities(statement)))
        if ability not in there
    }
    return tuple(reversed(found.values()))


def can_convert(machine: Machine, source: str, target: str) -> bool:
    """Return whether an instruction converts a type to another one."""
    every = (p for item in machine.instructions.values() for p in patterns_of(item.instruction))
    return any(ability == ("cast", source, target) for p in every for _, ability in _abilities(p.statement))


def adds_to_narrowed(machine: Machine) -> bool:
    """Return whether an instruction adds two numbers that it reads, and stores a narrower type."""
    assigns = (
        pattern.statement.assign
        for item in machine.instructions.values()
        for pattern in patterns_of(item.instruction)
    )
    return any(
        isinstance(e, Call) and e.op == "add" and all(isinstance(arg, Read) for arg in e.args)
        and e.dtype.bits > assign.target.dtype.bits
        for assign in assigns if assign.op is None for e in walk(assign.value)
    )  # fmt: skip


def _abilities(statement: Statement) -> Iterator[tuple[Expr, Ability]]:
    """Yield the operations of a statement with their places, innermost first."""
    assign = statement.assign
    yield from _operations(assign.value)
    if assign.op is not None:
        dtype = str(assign.target.dtype)
        yield assign.target, (assign.op, dtype, dtype)


def _operations(e: Expr) -> Iterator[tuple[Expr, Ability]]:
    match e:
        case Call(op, args):
            for a in args:
                yield from _operations(a)
            yield e, (op, str(args[0].dtype), str(e.dtype))
        case Cast(value):
            yield from _operations(value)
            yield e, ("cast", str(value.dtype), str(e.dtype))
        case _:
            return


def _words(ability: Ability) -> str:
    op, taken, result = ability
    return f"converts {taken} to {result}" if op == "cast" else f"computes `{op}` of {taken}"
