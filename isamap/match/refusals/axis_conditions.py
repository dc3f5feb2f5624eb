"""Conditions on axes: every instruction axis needs one of the statement that may run on it.

mma runs over j in b = F[c, r, s] and c = Y[n, c, p, q], but no axis of the statement is in these alone

Conditions on the two sides alone: what no instruction is laid over, and what lies over no statement.

An instruction of one plain statement performs a statement without a guard.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import Assign, Axis, Call, Cast, Expr, Instruction, converts_exactly, print_expr, print_stmt
from isamap.match.mappings.enumerate import (
    Signature,
    heads_agree,
    instruction_signature,
    kernel_signature,
    may_run_on,
)
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.unify import Bindings, places, unify
from isamap.match.refusals.kernel_edits import are_legal, brief, replace_by, text_of, unorder, without_guard
from isamap.match.refusals.rejection import OTHER, Case, Cause
from isamap.source.records import dataclass
from isamap.transform import Statement, identity_of, is_summed_everywhere, reads, statements


@dataclass(frozen=True, slots=True)
class _Homeless:
    """Instruction axes on which no statement axis may run, under one pairing of the operands."""

    bindings: Bindings
    axes: tuple[Axis, ...]


def refuse_axes(case: Case) -> Cause | None:
    """Return the first instruction axis without a place, under the pairing that leaves fewest."""
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    missing = [
        _Homeless(b, tuple(_axes_without_place(pattern, statement, b)))
        for b in unify(pattern.value, statement.assign.value)
    ]
    if not missing or not all(m.axes for m in missing):
        return None
    fewest = min(missing, key=lambda m: len(m.axes))
    axis = fewest.axes[0]
    required = instruction_signature(axis.name, pattern, fewest.bindings)
    runs = _runs_over(case, axis, required, fewest.bindings)
    return (
        _ordered(case, axis, required, fewest, runs)
        or _of_one(case, axis, required, fewest, runs)
        or _in_every_operand(case, axis, required, fewest, runs)
        or _nothing_like_it(case, axis, required, fewest, runs)
    )


def _axes_without_place(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Axis]:
    given = [
        kernel_signature(a.name, statement.assign, bindings) for a in statement.axes if a.extent.value != 1
    ]
    for axis in pattern.axes:
        required = instruction_signature(axis.name, pattern, bindings)
        if axis.extent.value != 1 and not any(may_run_on(g, required) for g in given):
            yield axis


def _runs_over(case: Case, axis: Axis, required: Signature, bindings: Bindings) -> str:
    """Return words on an axis' uses: `runs over j in b = F[c, r, s] and c = Y[n, c, p, q]`."""
    pattern = case.pattern
    assert pattern is not None
    inputs, is_output = required
    indexed = [*sorted(inputs), *([pattern.target.buffer] if is_output else [])]
    stands = {name: brief(b.subject) for name, b in places(bindings)}
    stands[pattern.target.buffer] = brief(case.statement.assign.target)
    names = " and ".join(f"{n} = {stands[n]}" for n in indexed if n in stands) or "no operand"
    never = "" if is_output else f", not {pattern.target.buffer} = {stands[pattern.target.buffer]}"
    return f"runs over {axis.name} in {names}{never}"


def _fitting(case: Case, axes: tuple[Axis, ...], required: Signature, bindings: Bindings) -> Axis | None:
    """Return the first of some axes of the statement that may run on the instruction's."""
    assign = case.statement.assign
    return next((a for a in axes if may_run_on(kernel_signature(a.name, assign, bindings), required)), None)


def _ordered(case: Case, axis: Axis, required: Signature, missing: _Homeless, runs: str) -> Cause | None:
    found = _fitting(case, case.statement.sequence, required, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and `seq` keeps that in order"
    edits = unorder(case.kernel, found.name)
    edit = f"`for {found.name} in {found.extent}`, for the order does not matter"
    if not edits or not are_legal(case.kernel, edits):
        edits, edit = (), f"another instruction: steps of {found.name} use the results of earlier ones"
    return Cause("ordered-axis", message, found.span, axis.span, edit, edits)


def _of_one(case: Case, axis: Axis, required: Signature, missing: _Homeless, runs: str) -> Cause | None:
    single = tuple(a for a in case.statement.axes if a.extent.value == 1)
    found = _fitting(case, single, required, missing.bindings)
    if found is None:
        return None
    message = f"{runs}: only {found.name} does, and its extent is 1{_utilisation(missing.axes)}"
    edit = f"more than one {found.name} at a time, as in a batch"
    return Cause("axis-of-one", message, found.span, axis.span, edit)


def _in_every_operand(
    case: Case, axis: Axis, required: Signature, missing: _Homeless, runs: str
) -> Cause | None:
    """Depthwise: an axis is in all operands that the instruction's is in, and in others besides."""
    bindings, assign = missing.bindings, case.statement.assign
    everywhere = frozenset(name for name, b in places(bindings) if b.pattern)
    found = next(
        (
            a
            for a in case.statement.axes
            if a.extent.value != 1
            and (given := kernel_signature(a.name, assign, bindings))[1] == required[1]
            and given[0] >= everywhere > required[0]
        ),
        None,
    )
    if found is None:
        return None
    others = sorted(everywhere - required[0])
    also = " and ".join(f"{name} = {brief(b.subject)}" for name, b in places(bindings) if name in others)
    message = f"{runs}: {found.name} does, but in {also} as well{_utilisation(missing.axes)}"
    edit = f"an axis besides {found.name} that {also} does not have, as a channel multiplier"
    return Cause("axis-in-every-operand", message, found.span, axis.span, edit)


def _nothing_like_it(case: Case, axis: Axis, required: Signature, missing: _Homeless, runs: str) -> Cause:
    pattern, statement = case.pattern, case.statement
    assert pattern is not None
    span, used = statement.assign.span, _utilisation(missing.axes)
    summed = [a for a in statement.reduction_axes if a.extent.value != 1]
    if not required[1] and not summed:
        message = f"{runs}: the statement has no axis that is reduced{used}"
        edit = "another instruction, element by element"
        return Cause("reduction-missing", message, span, axis.span, edit)
    if required[1] and required[0]:
        names = " and ".join(sorted(required[0]))
        message = f"{runs}: no axis of the statement is in these alone{used}"
        edit = f"a batch: several {names} at once, with an axis of their own in the result"
        return Cause("batch-missing", message, span, axis.span, edit)
    message = f"{runs}: no axis of the statement does{used}"
    return Cause("axis-has-no-place", message, span, axis.span, OTHER)


def _utilisation(axes: tuple[Axis, ...]) -> str:
    """Return a note on the share of lanes that are busy when these axes have length one."""
    lanes = 1
    for axis in axes:
        lanes *= axis.extent.value or 1
    return f"; {100 / lanes:.3g} % of it would be busy" if lanes > 1 else ""


def refuse_instruction(case: Case) -> Cause | None:
    """Return the cause for an instruction that is not one plain statement; None for others."""
    if case.pattern is not None:
        return None
    instruction = case.item.instruction
    parts = statements(instruction)
    where = case.statement.assign.span
    lacking = _lacking(case, instruction, parts)
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    if len(outputs) > 1 and lacking is not None:
        names = " and ".join(o.name for o in outputs)
        message = f"writes {names}; no statement of the kernel does `{_line(lacking)}` beside"
        edit = "that statement in the kernel, over the same axes, or another instruction"
        return Cause("several-outputs", message, where, lacking.assign.span, edit)
    if len(parts) > 1:
        number = len(parts)
        message = f"performs {number} statements at once, which do not follow each other so in the kernel"
        if lacking is not None:
            message = f"performs {number} statements at once; none of the kernel's is `{_line(lacking)}`"
        edit = "the same statements in the kernel, over the same axes, or another instruction"
        return Cause("several-statements", message, where, (lacking or parts[0]).assign.span, edit)
    ordered = next((p for p in parts if p.sequence), None)
    if ordered is not None:
        axes = ", ".join(a.name for a in ordered.sequence)
        message = f"goes through {axes} in order, each step with the result of the one before"
        edit = "another instruction, without `seq`"
        return Cause("instruction-ordered", message, where, ordered.assign.span, edit)
    guarded = next((p.assign.guard for p in parts if p.assign.guard is not None), None)
    if guarded is not None:
        message = f"does nothing where `{print_expr(guarded)}` is false; the statement has no such mask"
        edit = "a condition behind the statement, or the instruction without a predicate"
        return Cause("instruction-guarded", message, where, guarded.span, edit)
    message = f"writes {len(outputs)} operands at once"
    return Cause("several-outputs", message, where, instruction.span)


def _lacking(case: Case, instruction: Instruction, parts: tuple[Statement, ...]) -> Statement | None:
    """Return the first statement of the instruction that none of the kernel's is like."""
    own = (case.statement, *case.others)
    for part in parts:
        pattern = Pattern(instruction, part)
        if not any(
            heads_agree(pattern, s) and next(unify(pattern.value, s.assign.value), None) is not None
            for s in own
        ):
            return part
    return None


def _line(statement: Statement) -> str:
    return print_stmt(statement.assign).strip().rstrip(";")


def refuse_guard(case: Case) -> Cause | None:
    """Return a statement that is performed only where something holds."""
    assign = case.statement.assign
    guard = assign.guard
    if guard is None:
        return None
    assert case.pattern is not None
    shown = text_of(guard) if guard.span is not None else print_expr(guard)
    span = guard.span or assign.span
    by_data = bool(reads(guard))
    condition = "what is stored in memory" if by_data else "where it stands"
    message = f"has no mask; the statement is performed only if `{shown}`, which depends on {condition}"
    if is_summed_everywhere(case.statement, case.kernel):
        message += "; compiled, it is summed everywhere, and stored where that holds"
    chosen, nothing = _chosen(assign)
    text = f"select({shown}, {text_of(chosen)}, {nothing})"
    dropped = without_guard(case.kernel, assign)
    edits = (*replace_by(chosen, text), *dropped) if dropped else ()
    reason = "guard-reads-data" if by_data else "statement-guarded"
    edit = f"`{text}` instead of `{text_of(chosen)}`, without the condition"
    return Cause(reason, message, span, case.pattern.statement.assign.span, edit, edits)


def _chosen(assign: Assign) -> tuple[Expr, str]:
    """Return the value, or a factor of it, and what to take instead so that nothing changes."""
    chosen = assign.value
    if assign.op is None:
        return chosen, text_of(assign.target)
    if assign.op == "add" and isinstance(chosen, Call) and chosen.op == "mul":
        chosen = chosen.args[0]  # 0 times anything adds nothing, and one factor is moved as before
        while isinstance(chosen, Cast) and converts_exactly(chosen.value.dtype, chosen.dtype):
            chosen = chosen.value
        return chosen, "0"
    return chosen, print_expr(identity_of(assign.op, chosen.dtype))
