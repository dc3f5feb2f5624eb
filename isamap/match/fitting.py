"""Casts that make an expression of a kernel one that an instruction's expression can be laid over.

`f32(a[i]) * f32(b[i])` of bf16 operands over `A[i] * B[i]` of f32 gives `f32(bf16(A[i])) * f32(bf16(B[i]))`.
"""

from __future__ import annotations

from isamap.ir import (
    BOOL,
    OPS,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    IndexValue,
    Read,
    Scalar,
    converts_exactly,
    passes_through,
)
from isamap.match.kernel_text import Edits, text_of, wrap
from isamap.source import Edit, Span


def fitting_casts(pattern: Expr, subject: Expr) -> Edits | None:
    """The edits after which the expressions agree; None when more than casts is missing."""
    match pattern, subject:
        case Call(op, args), Call(other, others):
            if (op, pattern.mode, len(args)) != (other, subject.mode, len(others)):
                return None
            found = _of_arguments(args, others)
            if OPS[op].commutative and len(args) == 2 and found != ():
                swapped = _of_arguments(args, others[::-1])
                found = min((f for f in (found, swapped) if f is not None), key=len, default=None)
            return found
        case Read(), _:
            return _converted(subject, pattern.dtype)
        case Scalar(), Const() | Scalar() | IndexValue():
            return () if pattern.dtype == subject.dtype else None
        case Cast(value), Cast(inner) if (pattern.dtype, pattern.mode) == (subject.dtype, subject.mode):
            if isinstance(value, Read) and passes_through(inner.dtype, value.dtype, pattern.dtype):
                return ()
            return fitting_casts(value, inner)
        case Call(), Cast(inner) if inner.dtype == pattern.dtype:
            outside, inside = _unwrapped(subject, inner), fitting_casts(pattern, inner)
            return (*outside, *inside) if outside is not None and inside is not None else None
        case Cast(value), _:
            inner = fitting_casts(value, subject)
            return None if inner is None else _around(subject, pattern.dtype, pattern.mode, inner)
        case _:
            return () if pattern == subject else None


def _of_arguments(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...]) -> Edits | None:
    found: list[Edit] = []
    for p, s in zip(patterns, subjects, strict=True):
        edits = fitting_casts(p, s)
        if edits is None:
            return None
        found += edits
    return tuple(found)


def _converted(subject: Expr, dtype: DType) -> Edits | None:
    """The subject cast to a type, or without a cast that it has."""
    if subject.dtype == dtype:
        return ()
    inner = subject
    while isinstance(inner, Cast):
        inner = inner.value
        if inner.dtype == dtype:
            return _unwrapped(subject, inner)
    if isinstance(subject, Const) or dtype == BOOL:  # a number becomes a bool by a comparison
        return None
    return wrap(subject, f"{cast_name(subject.dtype, dtype)}(", ")")


def _unwrapped(outer: Expr, inner: Expr) -> Edits | None:
    if outer.span is None or inner.span is None:
        return None
    source = outer.span.source
    before = Span(source, outer.span.start, inner.span.start)
    return (Edit(before, ""), Edit(Span(source, inner.span.end, outer.span.end), ""))


def _around(subject: Expr, dtype: DType, mode: str, inner: Edits) -> Edits | None:
    """A cast around what is edited inside; edits at one place are put together."""
    name = dtype.name if mode == "exact" else f"{mode}_{dtype}"
    if not inner:
        return wrap(subject, f"{name}(", ")")
    if subject.span is None:
        return None
    changed = subject.span.text
    for e in sorted(inner, key=lambda e: -e.span.start):
        at, end = e.span.start - subject.span.start, e.span.end - subject.span.start
        changed = changed[:at] + e.replacement + changed[end:]
    return (Edit(subject.span, f"{name}({changed})"),)


def cast_name(source: DType, target: DType) -> str:
    """The cast as it is written: plain where no value is lost but by rounding, else saturating."""
    plain = target.is_float or converts_exactly(source, target)
    return target.name if plain else f"sat_{target}"


def needs_parentheses(expr: Expr) -> bool:
    """Whether an expression cannot stand as a factor as it is written."""
    infix = isinstance(expr, Call) and OPS[expr.op].spelling is not None
    return infix or (isinstance(expr, Read) and expr.fill is not None)


def as_factor(expr: Expr) -> str:
    """An expression as the kernel writes it, fit to stand in a product."""
    text = text_of(expr)
    return f"({text})" if needs_parentheses(expr) else text
