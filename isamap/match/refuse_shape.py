"""Conditions on the two sides alone: what no instruction is laid over, and what lies over no statement.

An instruction of one plain statement performs a statement without a guard.
"""

from __future__ import annotations

from isamap.ir import Assign, Call, Cast, Expr, Instruction, converts_exactly, print_expr, print_stmt
from isamap.match.enumerate import heads_agree
from isamap.match.instructions import Pattern
from isamap.match.kernel_text import replace_by, text_of, without_guard
from isamap.match.rejection import Case, Cause
from isamap.match.unify import unify
from isamap.transform import Statement, identity_of, is_summed_everywhere, reads, statements


def refuse_instruction(case: Case) -> Cause | None:
    """Outputs, statements, loops and guards of an instruction that is not one plain statement."""
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
        message = f"goes through {axes} in order, each step with what the one before left"
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
    """The first statement of the instruction that none of the kernel's is like."""
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
    """A statement that is performed only where something holds."""
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
    """The value, or a factor of it, and what to take instead so that nothing changes."""
    chosen = assign.value
    if assign.op is None:
        return chosen, text_of(assign.target)
    if assign.op == "add" and isinstance(chosen, Call) and chosen.op == "mul":
        chosen = chosen.args[0]  # 0 times anything adds nothing, and one factor is moved as before
        while isinstance(chosen, Cast) and converts_exactly(chosen.value.dtype, chosen.dtype):
            chosen = chosen.value
        return chosen, "0"
    return chosen, print_expr(identity_of(assign.op, chosen.dtype))
