"""Why an instruction does not perform a statement: the first condition that fails, and an edit that meets it.

    fma_f64: takes a of f64; A[m, k] is f32

Conditions are tried in one order: one plain statement, operation, type of the sum, operand tree, types of
the operands, places for all axes, elements that belong together, preconditions. The later an instruction
fails the nearer it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.ir import OPS, Axis, Call, Cast, Expr, Instruction, Kernel, Read, print_expr
from isamap.machine import Machine
from isamap.match.enumerate import (
    find_candidates,
    heads_agree,
    instruction_signature,
    kernel_signature,
    may_run_on,
)
from isamap.match.find import find_mappings
from isamap.match.instructions import Pattern, pattern_of
from isamap.match.mapping import Mapping
from isamap.match.params import holds
from isamap.match.tiles import choose_params
from isamap.match.unify import Bindings, unify
from isamap.source import Edit, Span
from isamap.transform import Statement, statements

REASONS = (
    "several-statements",
    "operation-differs",
    "result-type-differs",
    "expression-differs",
    "types-differ",
    "axis-has-no-place",
    "elements-shared",
    "precondition-fails",
)
"""Codes of the conditions, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One instruction that cannot perform one statement, and the first condition that fails.

    `span` is that of the part of the statement, `instruction_span` that of the instruction's text. `edit` says
    what would help; `edits` are changes of the kernel's text after which the instruction performs it, () when
    there are none.
    """

    instruction: str
    statement: int
    reason: str
    message: str
    span: Span | None
    edit: str | None = None
    instruction_span: Span | None = None
    edits: tuple[Edit, ...] = ()


def refusals(
    kernel: Kernel, machine: Machine, mappings: tuple[Mapping, ...] | None = None
) -> tuple[Rejection, ...]:
    """A rejection for every statement and instruction without a whole or split mapping, nearest first.

    `mappings` are all that there are, looked for when they are not given.
    """
    known: dict[tuple[int, str], list[Mapping]] = {}
    for mapping in find_mappings(kernel, machine) if mappings is None else mappings:
        known.setdefault((mapping.statement, mapping.instruction), []).append(mapping)
    found: list[Rejection] = []
    for number, statement in enumerate(statements(kernel)):
        for item in machine.instructions.values():
            own = known.get((number, item.instruction.name), [])
            rejection = refusal(item.instruction, statement, number, own)
            if rejection is not None:
                found.append(rejection)
    return tuple(sorted(found, key=lambda r: (r.statement, -REASONS.index(r.reason))))


def refusal(
    instruction: Instruction, statement: Statement, number: int, mappings: list[Mapping]
) -> Rejection | None:
    """Why an instruction does not perform a statement; None when it does, or is not meant to compute."""
    if not any(o.role in ("out", "inout") for o in instruction.operands):
        return None
    pattern = pattern_of(instruction)
    if pattern is None:
        message = "is not one plain statement with one output: such instructions are not matched yet"
        return _rejection(instruction.name, number, "several-statements", message, statement.assign.span)
    if any(m.kind != "degenerate" for m in mappings):
        return _refuse_params(pattern, statement, number, mappings)
    return (
        _refuse_heads(pattern, statement, number)
        or _refuse_tree(pattern, statement, number)
        or _refuse_axes(pattern, statement, number)
        or _refuse_elements(pattern, statement, number)
    )


def _rejection(
    name: str, number: int, reason: str, message: str, span: Span | None, edit: str | None = None
) -> Rejection:
    return Rejection(name, number, reason, f"{name} {message}", span, edit)


# --- the conditions, in order -----------------------------------------------------------------------------


def _refuse_heads(pattern: Pattern, statement: Statement, number: int) -> Rejection | None:
    """Operation and type of the sum."""
    mine, theirs = pattern.statement.assign, statement.assign
    if mine.op != theirs.op:
        message = f"{_verb(mine.op)}; the statement {_verb(theirs.op)}"
        return _rejection(pattern.name, number, "operation-differs", message, theirs.span)
    if heads_agree(pattern, statement):
        return None
    wanted = theirs.target.dtype if theirs.op is None else statement.accumulator
    doing = "writes" if mine.op is None else "sums in"
    can_widen = mine.op is not None and mine.target.dtype == theirs.value.dtype
    edit = f"{theirs.target.buffer}: … accumulate {mine.target.dtype}" if can_widen else None
    message = f"{doing} {mine.target.dtype}; the statement {doing} {wanted}"
    return _rejection(pattern.name, number, "result-type-differs", message, theirs.target.span, edit)


def _verb(op: str | None) -> str:
    words = {"add": "sums up", "mul": "multiplies up", "max": "takes the maximum", "min": "takes the minimum"}
    return "assigns" if op is None else words.get(op, f"reduces by `{op}`")


def _refuse_tree(pattern: Pattern, statement: Statement, number: int) -> Rejection | None:
    """The operand tree, at the first node that differs."""
    if next(unify(pattern.value, statement.assign.value), None) is not None:
        return None
    reason, message, node, edit = _difference(pattern.value, statement.assign.value) or (
        "expression-differs",
        f"takes one operand twice in `{print_expr(pattern.value)}`, where the statement has two",
        statement.assign.value,
        None,
    )
    return _rejection(pattern.name, number, reason, message, node.span or statement.assign.span, edit)


Difference = tuple[str, str, Expr, str | None]


def _difference(pattern: Expr, subject: Expr) -> Difference | None:
    """Reason, words, the node of the statement and an edit for the first difference of two trees."""
    match pattern, subject:
        case (Call(op, args), Call(other, others)) if (op, pattern.mode) == (other, subject.mode):
            found = _of_arguments(args, others)
            if found and OPS[op].commutative:
                swapped = _of_arguments(args, others[::-1])
                return found if swapped is not None else None
            return found
        case (Cast(value), Cast(inner)) if (pattern.dtype, pattern.mode) == (subject.dtype, subject.mode):
            return _difference(value, inner)
        case (Read(), _):
            return None if pattern.dtype == subject.dtype else _of_types(pattern, subject)
        case (Cast(Read() as narrow), Read() | Cast(Read())):
            return _of_types(narrow, subject)
        case _ if pattern == subject:
            return None
        case _:
            words = f"computes `{print_expr(pattern)}` where the statement has `{print_expr(subject)}`"
            return "expression-differs", words, subject, None


def _of_types(operand: Read, subject: Expr) -> Difference:
    read = subject.value if isinstance(subject, Cast) else subject
    words = f"takes {operand.buffer} of {operand.dtype}; `{print_expr(read)}` is {read.dtype}"
    edit = f"{read.buffer}: {operand.dtype}[…]" if isinstance(read, Read) else None
    return "types-differ", words, subject, edit


def _of_arguments(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...]) -> Difference | None:
    pairs = zip(patterns, subjects, strict=True)
    return next((d for p, s in pairs if (d := _difference(p, s)) is not None), None)


def _refuse_axes(pattern: Pattern, statement: Statement, number: int) -> Rejection | None:
    """The first instruction axis on which no kernel axis can go, under the pairing that leaves fewest."""
    pairings = list(unify(pattern.value, statement.assign.value))
    missing = [list(_axes_without_place(pattern, statement, b)) for b in pairings]
    if not missing or not all(missing):
        return None
    fewest = min(missing, key=len)
    bindings = pairings[missing.index(fewest)]
    inputs, is_output = instruction_signature(fewest[0].name, pattern, bindings)
    indexed = [*sorted(inputs), *([pattern.target.buffer] if is_output else [])]
    stands = {b.name: print_expr(b.subject) for b in bindings}
    stands[pattern.target.buffer] = print_expr(statement.assign.target)
    names = " and ".join(f"{n} = {stands[n]}" for n in indexed)
    never = "" if is_output else f", not {pattern.target.buffer} = {stands[pattern.target.buffer]}"
    message = f"runs over {fewest[0].name} in {names}{never}: no axis of the statement does"
    return _rejection(pattern.name, number, "axis-has-no-place", message, statement.assign.span)


def _axes_without_place(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Axis]:
    given = [
        kernel_signature(a.name, statement.assign, bindings) for a in statement.axes if a.extent.value != 1
    ]
    for axis in pattern.axes:
        wanted = instruction_signature(axis.name, pattern, bindings)
        if not any(may_run_on(g, wanted) for g in given):
            yield axis


def _refuse_elements(pattern: Pattern, statement: Statement, number: int) -> Rejection | None:
    """Candidates there are, but in each some elements do not belong together."""
    if next(find_candidates(pattern, statement, number), None) is None:
        return None
    target = print_expr(statement.assign.target)
    message = (
        f"would meet in one element of `{target}` or of an input where its own iterations do not, "
        "or the other way round"
    )
    return _rejection(pattern.name, number, "elements-shared", message, statement.assign.target.span)


def _refuse_params(
    pattern: Pattern, statement: Statement, number: int, mappings: list[Mapping]
) -> Rejection | None:
    """Parameters that no mapping can give values that the instruction's `where` allows."""
    profile = {s: 2**20 for a in statement.axes for s in a.extent.symbols}
    if any(holds(pattern, choose_params(statement, m, pattern, profile)) for m in mappings):
        return None
    stated = ", ".join(f"{c.left} {c.comparison} {c.right}" for c in pattern.instruction.where)
    message = f"requires {stated}, which is not met"
    return _rejection(pattern.name, number, "precondition-fails", message, statement.assign.span)
