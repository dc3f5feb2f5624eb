"""Expression trees of instructions laid over those of kernels.

    pattern   f32(a[i]) * f32(b[i])        subject   f32(B[k, n]) * f32(A[m, k])

unifies twice, a with B and b with A, and a with A and b with B: products commute. An operand may stand for
any subexpression of its type; what computes that subexpression is not this module's concern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.ir import OPS, Call, Cast, Const, Expr, IndexValue, Read, Scalar, converts_exactly
from isamap.ir.index import Index


@dataclass(frozen=True, slots=True)
class Binding:
    """What an operand or parameter of an instruction stands for.

    `pattern` is the operand's subscript in the instruction, () for a parameter; `subject` the kernel's
    expression.
    """

    name: str
    pattern: tuple[Index, ...]
    subject: Expr


Bindings = tuple[Binding, ...]


def unify(pattern: Expr, subject: Expr) -> Iterator[Bindings]:
    """Every way in which `pattern` becomes `subject`, in a fixed order and without repetition."""
    seen: set[Bindings] = set()
    for found in _unify(pattern, subject, ()):
        ordered = tuple(sorted(found, key=lambda b: b.name))
        if ordered not in seen:
            seen.add(ordered)
            yield ordered


def heads_match(pattern: Expr, subject: Expr) -> bool:
    """Whether the outermost operations agree, as they must for the trees to unify: cheap, and asked first."""
    match pattern:
        case Call(op):
            return isinstance(subject, Call) and (op, pattern.mode) == (subject.op, subject.mode)
        case Cast():
            return isinstance(subject, Cast) and (pattern.dtype, pattern.mode) == (
                subject.dtype,
                subject.mode,
            )
        case Read():
            return pattern.dtype == subject.dtype
        case _:
            return True


def _unify(pattern: Expr, subject: Expr, bound: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Read(buffer, index):
            if pattern.dtype == subject.dtype:
                yield from _bind(Binding(buffer, index, subject), bound)
        case Scalar(name):
            if pattern.dtype == subject.dtype and isinstance(subject, (Const, Scalar, IndexValue)):
                yield from _bind(Binding(name, (), subject), bound)
        case Const():
            if pattern == subject:
                yield bound
        case IndexValue(index):
            # Axes and sizes of an instruction are its own, whatever they are called in the kernel.
            if pattern == subject and index.value is not None:
                yield bound
        case Cast():
            yield from _unify_cast(pattern, subject, bound)
        case Call(op, args):
            if isinstance(subject, Call) and (op, pattern.mode) == (subject.op, subject.mode):
                if pattern.dtype != subject.dtype:
                    return
                yield from _unify_all(args, subject.args, bound)
                if OPS[op].commutative and len(args) == 2:
                    yield from _unify_all(args, subject.args[::-1], bound)


def _unify_all(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _unify(patterns[0], subjects[0], bound):
        yield from _unify_all(patterns[1:], subjects[1:], found)


def _unify_cast(pattern: Cast, subject: Expr, bound: Bindings) -> Iterator[Bindings]:
    """Casts agree, or the pattern widens from a type that holds all values of the subject's narrower one."""
    if not isinstance(subject, Cast) or (pattern.dtype, pattern.mode) != (subject.dtype, subject.mode):
        return
    inner, wanted = subject.value, pattern.value.dtype
    if inner.dtype == wanted:
        yield from _unify(pattern.value, inner, bound)
    elif (
        converts_exactly(inner.dtype, wanted)
        and converts_exactly(wanted, pattern.dtype)
        and isinstance(pattern.value, Read)
    ):
        yield from _unify(pattern.value, Cast(inner, wanted), bound)


def _bind(new: Binding, bound: Bindings) -> Iterator[Bindings]:
    """An operand that occurs twice must stand for the same thing at the same subscript."""
    for old in bound:
        if old.name == new.name:
            if old == new:
                yield bound
            return
    yield (*bound, new)
