"""Where two expressions differ: the first node of an instruction's that a statement's does not agree with.

a[i] * 2 * b[i]        A[i] * 3 * B[i]        constant-differs: `2` where the statement has `3`
"""

from __future__ import annotations

from dataclasses import dataclass

from isamap.ir import OPS, Call, Cast, Const, Expr, IndexValue, Read, Scalar, passes_through, print_expr
from isamap.match.fitting import as_factor, needs_parentheses
from isamap.match.kernel_text import Edits, brief, replace_by, text_of, wrap
from isamap.match.rejection import OTHER

MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


@dataclass(frozen=True, slots=True)
class Difference:
    """Two nodes that differ, and how. `by_casts` says that casts are all that is missing there."""

    reason: str
    words: str
    pattern: Expr
    subject: Expr
    edit: str | None = None
    edits: Edits = ()
    by_casts: bool = False


def first_difference(pattern: Expr, subject: Expr) -> Difference | None:
    """The first difference of two expressions, operands of commutative operations in the nearer order."""
    match pattern, subject:
        case Read(), _ if pattern.dtype == subject.dtype:
            return None
        case (IndexValue(), _) | (Cast(IndexValue()), _):
            return None if pattern == subject else _immediate_differs(pattern, subject)
        case Call(op, args), Call(other, others) if op == other and len(args) == len(others):
            if pattern.mode != subject.mode:
                return _modes_differ(pattern, subject)
            return _calls_differ(pattern, subject)
        case Cast(value), Cast(inner) if pattern.dtype == subject.dtype:
            if pattern.mode != subject.mode:
                return _modes_differ(pattern, subject)
            if isinstance(value, Read) and passes_through(inner.dtype, value.dtype, pattern.dtype):
                return None
            return first_difference(value, inner)
        case (Read(), _) | (Cast(Read()), _):
            return _types_differ(pattern, subject)
        case Scalar(), _:
            return _parameter_differs(pattern, subject)
        case Const(), Const():
            return None if pattern == subject else _constants_differ(pattern, subject)
        case _:
            return _structures_differ(pattern, subject)


def _calls_differ(pattern: Call, subject: Call) -> Difference | None:
    straight = _of_arguments(pattern.args, subject.args)
    if straight is None or len(pattern.args) != 2:
        return straight
    swapped = _of_arguments(pattern.args, subject.args[::-1])
    if OPS[pattern.op].commutative:
        return None if swapped is None else max(straight, swapped, key=_nearness)
    if swapped is not None:
        return straight
    left, right = subject.args
    spelled = OPS[pattern.op].spelling
    text = f"{as_factor(right)} {spelled} {as_factor(left)}" if spelled else ""
    return Difference(
        "operands-reversed",
        f"computes `{print_expr(pattern)}`, which does not commute: the statement has its operands the other "
        f"way round, `{brief(subject)}`",
        pattern,
        subject,
        f"`{text}`, which is another value" if text else None,
        replace_by(subject, text) if text else (),
    )


def _nearness(found: Difference) -> int:
    """How much of the expressions agrees: differences of leaves are nearer than those of operations."""
    return (found.reason != "expression-differs") + 2 * found.by_casts


def _of_arguments(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...]) -> Difference | None:
    pairs = zip(patterns, subjects, strict=True)
    return next((d for p, s in pairs if (d := first_difference(p, s)) is not None), None)


# --- types ------------------------------------------------------------------------------------------------


def _types_differ(pattern: Expr, subject: Expr) -> Difference:
    leaf = pattern.value if isinstance(pattern, Cast) else pattern
    assert isinstance(leaf, Read)
    wanted = leaf.dtype
    same_outside = isinstance(pattern, Cast) and isinstance(subject, Cast) and pattern.dtype == subject.dtype
    inner = subject.value if same_outside and isinstance(subject, Cast) else subject
    shown = brief(inner)
    words = f"takes {leaf.buffer} of {wanted}; `{shown}` is {inner.dtype}"
    reason = "operand-type-differs"
    if isinstance(pattern, Cast) and inner.dtype == wanted:
        reason = "widening-differs"
        words = f"widens {leaf.buffer} from {wanted} to {pattern.dtype}; `{shown}` stays {wanted}"
    elif wanted.is_integer and inner.dtype.is_integer and wanted.bits == inner.dtype.bits:
        reason = "signedness-differs"
        words += f": {_signs(wanted.kind)} and {_signs(inner.dtype.kind)}"
    return Difference(reason, words, pattern, subject, by_casts=True)


def _signs(kind: str) -> str:
    return "signed" if kind == "int" else "unsigned"


def _modes_differ(pattern: Call | Cast, subject: Call | Cast) -> Difference:
    if isinstance(pattern, Cast) and isinstance(subject, Cast):
        mine, theirs = (_cast_text(c) for c in (pattern, subject))
        text = text_of(subject)
        changed = mine + text[len(theirs) :] if text.startswith(f"{theirs}(") else ""
    else:
        assert isinstance(pattern, Call)
        assert isinstance(subject, Call)
        mine, theirs = (f"{c.op}(…, {c.mode})" for c in (pattern, subject))
        head, comma, _ = text_of(subject).rpartition(",")
        changed = f"{head}{comma} {pattern.mode})" if comma else ""
    words = f"computes `{mine}`; the statement has `{theirs}`"
    edit = f"`{changed}`, which gives other values" if changed else None
    return Difference(
        "mode-differs", words, pattern, subject, edit, replace_by(subject, changed) if changed else ()
    )


def _cast_text(cast: Cast) -> str:
    return cast.dtype.name if cast.mode == "exact" else f"{cast.mode}_{cast.dtype}"


# --- constants and parameters -----------------------------------------------------------------------------


def _constants_differ(pattern: Const, subject: Const) -> Difference:
    mine, theirs = print_expr(pattern), text_of(subject)
    return Difference(
        "constant-differs",
        f"has the constant `{mine}` where the statement has `{theirs}`",
        pattern,
        subject,
        f"`{mine}`, which is another value" if pattern.dtype == subject.dtype else None,
        replace_by(subject, mine) if pattern.dtype == subject.dtype else (),
    )


def _parameter_differs(pattern: Scalar, subject: Expr) -> Difference | None:
    if isinstance(subject, (Const, Scalar, IndexValue)):
        if pattern.dtype == subject.dtype:
            return None
        words = (
            f"takes its parameter {pattern.name} of {pattern.dtype}; `{text_of(subject)}` is {subject.dtype}"
        )
        return Difference("operand-type-differs", words, pattern, subject)
    words = (
        f"takes {pattern.name} as a number that is the same for all elements; `{brief(subject)}` is read "
        "or computed"
    )
    advice = f"make it a scalar parameter: `scalar {pattern.name}: {pattern.dtype}`"
    return Difference("parameter-not-scalar", words, pattern, subject, advice)


def _immediate_differs(pattern: Expr, subject: Expr) -> Difference:
    words = (
        f"computes with its own `{print_expr(pattern)}`, which is no operand; the statement has "
        f"`{brief(subject)}`"
    )
    return Difference("immediate-differs", words, pattern, subject, OTHER)


# --- operations -------------------------------------------------------------------------------------------


def _structures_differ(pattern: Expr, subject: Expr) -> Difference:
    found = (
        _mirrored(pattern, subject)
        or _rounded_otherwise(pattern, subject)
        or _factor_missing(pattern, subject)
        or _factor_extra(pattern, subject)
    )
    if found is not None:
        return found
    words = f"computes `{print_expr(pattern)}` where the statement has `{brief(subject)}`"
    return Difference("expression-differs", words, pattern, subject, OTHER)


def _mirrored(pattern: Expr, subject: Expr) -> Difference | None:
    """`a < b` over `B > A`: the same written the other way round."""
    if not isinstance(pattern, Call) or not isinstance(subject, Call):
        return None
    if MIRRORED.get(pattern.op) != subject.op or _of_arguments(pattern.args, subject.args[::-1]) is not None:
        return None
    left, right = subject.args
    text = f"{as_factor(right)} {OPS[pattern.op].spelling} {as_factor(left)}"
    words = f"computes `{print_expr(pattern)}`; the statement has `{brief(subject)}`"
    edits = replace_by(subject, text)
    return Difference("comparison-mirrored", words, pattern, subject, f"`{text}`, the same", edits)


def _rounded_otherwise(pattern: Expr, subject: Expr) -> Difference | None:
    """`fma(a, b, c)` over `A * B + C`, or the other way round."""
    match pattern, subject:
        case Call("fma"), Call("add", (a, b)):
            product, rest = (a, b) if isinstance(a, Call) and a.op == "mul" else (b, a)
            if not isinstance(product, Call) or product.op != "mul":
                return None
            left, right = product.args
            text = f"fma({text_of(left)}, {text_of(right)}, {text_of(rest)})"
            often, other = "once", "twice"
        case Call("add"), Call("fma", (a, b, c)):
            text = f"{as_factor(a)} * {as_factor(b)} + {as_factor(c)}"
            often, other = "twice", "once"
        case _:
            return None
    words = f"rounds {often}, in `{print_expr(pattern)}`; the statement's `{brief(subject)}` rounds {other}"
    return Difference(
        "fused-rounding", words, pattern, subject, f"`{text}`, rounded {often}", replace_by(subject, text)
    )


def _factor_missing(pattern: Expr, subject: Expr) -> Difference | None:
    """`a * b` over `A`: one factor short."""
    if not isinstance(pattern, Call) or pattern.op != "mul":
        return None
    for mine, other in (pattern.args, pattern.args[::-1]):
        one = _one(other)
        if one is None or first_difference(mine, subject) is not None:
            continue
        inside = needs_parentheses(subject)
        edits = wrap(subject, "(" if inside else "", f") * {one}" if inside else f" * {one}")
        words = f"multiplies, `{print_expr(pattern)}`; the statement has one factor, `{brief(subject)}`"
        advice = f"`{as_factor(subject)} * {one}`"
        return Difference("factor-missing", words, pattern, subject, advice, edits)
    return None


def _one(pattern: Expr) -> str | None:
    """1 in the form that a factor of the instruction takes."""
    match pattern:
        case Read() | Scalar():
            return "1"
        case Cast(Read() as narrow):
            return f"{pattern.dtype}({narrow.dtype}(1))"
        case _:
            return None


def _factor_extra(pattern: Expr, subject: Expr) -> Difference | None:
    """`a + b` over `(A + B) * s`: one factor too many."""
    if not isinstance(subject, Call) or subject.op != "mul":
        return None
    for own, other in (subject.args, subject.args[::-1]):
        if isinstance(pattern, (Call, Cast)) and first_difference(pattern, own) is None:
            shown = brief(other)
            words = f"computes `{print_expr(pattern)}`; the statement multiplies that by `{shown}` besides"
            advice = f"multiply by `{shown}` in a statement of its own"
            return Difference("factor-extra", words, pattern, subject, advice)
    return None
