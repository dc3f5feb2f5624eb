"""Conditions on the two statements as a whole: what is done with the result, and in which type.

vmul: assigns; the statement sums up          fma_f64: sums in f64; the statement sums in f32
"""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import OPS, REDUCTIONS, Assign, Call, Const, DType, print_expr
from isamap.ir import Read as Access
from isamap.match.enumerate import find_in_statement, heads_agree
from isamap.match.fitting import as_factor, fitting_casts
from isamap.match.kernel_text import (
    Edits,
    accumulate_in,
    replace_operator,
    replace_statement,
    retype,
    text_of,
)
from isamap.match.rejection import OTHER, Case, Cause
from isamap.transform import identity_of, reads

_SYMBOL = {op: f"{symbol}=" for symbol, op in REDUCTIONS.items()}


def refuse_heads(case: Case) -> Cause | None:
    """Operation and type of the result."""
    pattern = case.pattern
    assert pattern is not None
    if heads_agree(pattern, case.statement):
        return None
    mine, theirs = pattern.statement.assign, case.statement.assign
    if mine.op == theirs.op:
        return _types_of_result(case, mine, theirs)
    if mine.op is None:
        return _assigns_only(case, mine, theirs)
    if theirs.op is None:
        return _accumulates_only(case, mine, theirs)
    changed = f"{text_of(theirs.target)} {_SYMBOL[mine.op]} {text_of(theirs.value)}"
    would = _performs(case, replace(theirs, op=mine.op))
    return Cause(
        "operation-differs",
        f"{verb(mine.op)}; the statement {verb(theirs.op)}",
        theirs.span,
        mine.span,
        f"`{changed}`, which is another value" if would else OTHER,
        replace_operator(theirs, _SYMBOL[mine.op]) if would else (),
    )


def verb(op: str | None) -> str:
    """What a statement with `op=` does."""
    words = {"add": "sums up", "mul": "multiplies up", "max": "takes the maximum", "min": "takes the minimum"}
    return "assigns" if op is None else words.get(op, f"reduces by `{op}`")


def _performs(case: Case, assign: Assign) -> bool:
    """Whether the instruction would perform the statement with another assignment."""
    assert case.pattern is not None
    statement = replace(case.statement, assign=assign)
    return any(
        m.kind != "degenerate"
        for m in find_in_statement(case.pattern, statement, case.number, kernel=case.kernel)
    )


# --- one of the two accumulates ---------------------------------------------------------------------------


def _assigns_only(case: Case, mine: Assign, theirs: Assign) -> Cause:
    assert theirs.op is not None
    message = f"assigns; the statement {verb(theirs.op)}"
    plain = Call(theirs.op, (theirs.target, theirs.value), theirs.value.dtype)
    if not case.statement.reduction_axes and _performs(case, replace(theirs, op=None, value=plain)):
        target, value = text_of(theirs.target), as_factor(theirs.value)
        text = f"{target} = {_combined(theirs.op, target, value)};"
        return Cause(
            "assigns-only", message, theirs.span, mine.span, f"`{text}`", replace_statement(theirs, text)
        )
    edit = "another instruction, that accumulates: this one may compute an operand of it"
    return Cause("assigns-only", message, theirs.span, mine.span, edit)


def _combined(op: str, left: str, right: str) -> str:
    spelled = OPS[op].spelling
    return f"{left} {spelled} {right}" if spelled else f"{op}({left}, {right})"


def _accumulates_only(case: Case, mine: Assign, theirs: Assign) -> Cause:
    """`C = C + A * B` is written `C += A * B`; else what is accumulated into needs a first value."""
    assert mine.op is not None
    message = f"{verb(mine.op)}; the statement assigns"
    rest = _added(theirs, mine.op)
    target = text_of(theirs.target)
    if rest is not None:
        if not _performs(case, replace(theirs, op=mine.op, value=rest)):
            return Cause("accumulates-only", message, theirs.span, mine.span, OTHER)
        text = f"{target} {_SYMBOL[mine.op]} {text_of(rest)};"
        return Cause(
            "accumulates-only", message, theirs.span, mine.span, f"`{text}`", replace_statement(theirs, text)
        )
    if not _performs(case, replace(theirs, op=mine.op)):
        return Cause("accumulates-only", message, theirs.span, mine.span, OTHER)
    first = f"{target} = {_literal(identity_of(mine.op, theirs.target.dtype))};"
    text = f"{first} {target} {_SYMBOL[mine.op]} {text_of(theirs.value)};"
    return Cause(
        "accumulates-only",
        message,
        theirs.span,
        mine.span,
        f"initialise apart: `{text}`",
        replace_statement(theirs, text),
    )


def _added(assign: Assign, op: str) -> Call | Access | None:
    """What is combined with the old value of the target."""
    value = assign.value
    if not isinstance(value, Call) or value.op != op or len(value.args) != 2:
        return None
    for own, rest in (value.args, value.args[::-1]):
        if own == assign.target and isinstance(rest, (Call, Access)):
            return rest
    return None


def _literal(value: Const) -> str:
    return print_expr(value)


# --- types ------------------------------------------------------------------------------------------------


def _types_of_result(case: Case, mine: Assign, theirs: Assign) -> Cause:
    wanted = mine.target.dtype
    casts = fitting_casts(mine.value, theirs.value)
    name = theirs.target.buffer
    if theirs.op is None:
        message = f"writes {wanted}; the statement writes {theirs.target.dtype}"
        alone = _is_alone(case, name)
        edits = _both(retype(case.kernel, name, wanted), casts) if alone else ()
        edit = f"declare `{name}: {wanted}`" if alone else OTHER
        return Cause("result-type-differs", message, theirs.target.span, mine.target.span, edit, edits)
    message = f"sums in {wanted}; the statement sums in {case.statement.accumulator}"
    clause = _both(accumulate_in(case.kernel, name, wanted), casts)
    edit = f"declare `{name} … accumulate {wanted}`" if clause else f"declare `{name}: {wanted}`"
    edits = clause or _both(retype(case.kernel, name, wanted), casts)
    if not _is_possible(theirs.target.dtype, wanted) or not (clause or _is_alone(case, name)):
        edit, edits = OTHER, ()
    return Cause("accumulator-type-differs", message, theirs.target.span, mine.target.span, edit, edits)


def _is_alone(case: Case, name: str) -> bool:
    """Whether no other statement uses an array, so that its type is a matter of this one."""
    assigns = [s.assign for s in case.others]
    return all(name != r.buffer for a in assigns for r in (a.target, *reads(a.value)))


def _is_possible(own: DType, wanted: DType) -> bool:
    """Sums of floats do not become sums of integers by another declaration."""
    return own.is_float == wanted.is_float


def _both(declared: Edits, casts: Edits | None) -> Edits:
    return (*declared, *casts) if declared and casts is not None else ()
