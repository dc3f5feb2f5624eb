"""The condition on the two expressions: they agree node by node, types included.

The first node that differs is named on both sides; where casts are all that is missing, they are the edit.
"""

from __future__ import annotations

from dataclasses import replace

from isamap.ir import Call, Cast, Const, Expr, Read, Scalar, print_expr
from isamap.match.difference import Difference, first_difference
from isamap.match.encoded import encoded_values
from isamap.match.fitting import fitting_casts
from isamap.match.kernel_text import brief, replace_by, text_of
from isamap.match.rejection import OTHER, Case, Cause
from isamap.match.unify import Bindings, unify
from isamap.transform import reads


def refuse_tree(case: Case) -> Cause | None:
    """The operand tree, at the first node that differs."""
    pattern = case.pattern
    assert pattern is not None
    subject = case.statement.assign.value
    laid = list(unify(pattern.value, subject))
    if any(encoded_values(pattern.instruction, bindings) is not None for bindings in laid):
        return None
    if laid:
        return _not_encodable(case, laid[0])
    found = first_difference(pattern.value, subject)
    if found is None:
        return _operand_twice(pattern.value, subject)
    if isinstance(found.pattern, Scalar) and found.reason == "parameter-not-scalar":
        found = _as_immediate(case, found, found.pattern.name)
    edit, edits = found.edit, found.edits
    if found.by_casts:
        casts = fitting_casts(pattern.value, subject)
        if casts is not None:
            edits, edit = casts, _cast_words(found)
        else:
            edit = OTHER
    return Cause(found.reason, found.words, found.subject.span, found.pattern.span, edit, edits)


def _not_encodable(case: Case, bindings: Bindings) -> Cause:
    """A parameter that would be encoded stands for what is no number, or no number in its range."""
    instruction = case.item.instruction
    binding = next(b for b in bindings if encoded_values(instruction, (b,)) is None)
    param, shown = instruction.param(binding.name), brief(binding.subject)
    if isinstance(binding.subject, Const):
        words = f"encodes {param.name} from {param.low or 1} to {param.high}; the statement has {shown}"
        return Cause("parameter-out-of-range", words, binding.subject.span, param.span, OTHER)
    words = f"has {param.name} encoded in itself, a number; `{shown}` is known at run time only"
    return Cause("immediate-differs", words, binding.subject.span, param.span, OTHER)


def _as_immediate(case: Case, found: Difference, name: str) -> Difference:
    """What is encoded in the instruction is no number that comes at run time either."""
    param = case.item.instruction.param(name)
    if param.kind != "imm":
        return found
    words = f"has {name} encoded in itself, a number; `{brief(found.subject)}` is read or computed"
    own = Scalar(name, found.pattern.dtype, param.span)
    return replace(found, reason="immediate-differs", words=words, pattern=own, edit=OTHER)


def _cast_words(found: Difference) -> str:
    casts = fitting_casts(found.pattern, found.subject) or ()
    if found.subject.span is None or not casts:
        return "cast it"
    text, start = found.subject.span.text, found.subject.span.start
    for e in sorted(casts, key=lambda e: -e.span.start):
        text = text[: e.span.start - start] + e.replacement + text[e.span.end - start :]
    return f"`{' '.join(text.split())}`"


def _operand_twice(pattern: Expr, subject: Expr) -> Cause:
    """All nodes agree, but one operand of the instruction would be two elements."""
    mine = reads(pattern)
    twice = next((r for r in mine if mine.count(r) > 1), None)
    name, theirs = ("", []) if twice is None else (twice.buffer, _standing_for(pattern, subject, twice))
    words = f"takes {name or 'one operand'} twice in `{print_expr(pattern)}`, where the statement has two"
    if len(theirs) < 2:
        return Cause("operand-twice", words, subject.span, pattern.span)
    first, second = theirs[0], theirs[1]
    words = f"takes {name} twice in `{print_expr(pattern)}`; `{brief(first)}` and `{brief(second)}` differ"
    edit = f"`{text_of(first)}` in both places, which is another value"
    edits = replace_by(second, text_of(first))
    return Cause("operand-twice", words, second.span, pattern.span, edit, edits)


def _standing_for(pattern: Expr, subject: Expr, wanted: Read) -> list[Expr]:
    """What an operand stands for where it is read so, operands paired in written order."""
    match pattern:
        case Read():
            return [subject] if pattern == wanted else []
        case _:
            mine, theirs = _parts(pattern), _parts(subject)
            if len(mine) != len(theirs):
                return []
            return [e for p, s in zip(mine, theirs, strict=True) for e in _standing_for(p, s, wanted)]


def _parts(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Call(_, args):
            return args
        case Cast(value):
            return (value,)
        case _:
            return ()
