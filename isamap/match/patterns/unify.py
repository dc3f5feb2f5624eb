"""Unify expression trees of instructions with those of kernels.

    pattern   f32(a[i]) * f32(b[i])        subject   f32(B[k, n]) * f32(A[m, k])

unifies twice, a with B and b with A, and a with A and b with B: products commute. An operand may stand for
any subexpression of its type; other modules find the instructions that compute it. An operand read at two
subscripts, `a[2*i] + a[2*i + 1]`, stands for an expression at each of them. A parameter may stand for the number
that leaves its operation without effect:

    pattern   sat_i8(round(x[n] * s) + p)        subject   sat_i8(round(S[n] * 0.5)), where p is -0.0

Two expressions may be equal up to their subscripts:

    X[n] * 2  and  X[m + 1] * 2      equal if n is m + 1
X[n]      and  Z[n]              never
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir import OPS, Call, Cast, Const, Expr, IndexValue, Read, Scalar, converts_exactly, first_cast
from isamap.ir.evaluate import number_of
from isamap.ir.index import Index, has_elements
from isamap.source.records import dataclass
from isamap.transform import reads
from isamap.transform.statements import number_without_effect


@dataclass(frozen=True, slots=True)
class Binding:
    """The kernel's expression for a parameter, or for one read of an operand.

    `pattern` is the operand's subscript in the instruction, () for a parameter. `subject` is the kernel's
    expression.
    """

    name: str
    pattern: tuple[Index, ...]
    subject: Expr


Bindings = tuple[Binding, ...]


def unify(pattern: Expr, subject: Expr) -> Iterator[Bindings]:
    """Yield every way to substitute operands so that `pattern` becomes `subject`, in a fixed order, each once."""
    seen: set[Bindings] = set()
    for found in _unify(pattern, subject, ()):
        if _only_copies(pattern, subject, found):
            continue
        ordered = tuple(sorted(_as_written(found, pattern), key=lambda b: b.name))
        if ordered not in seen:
            seen.add(ordered)
            yield ordered


def _as_written(bindings: Bindings, pattern: Expr) -> Bindings:
    """Return the bindings in the order of the pattern's reads if an operand has several."""
    if not _reads_twice(bindings):
        return bindings
    written = [(r.buffer, r.index) for r in reads(pattern)]
    known = {read: written.index(read) for read in written}
    return tuple(sorted(bindings, key=lambda b: known.get((b.name, b.pattern), 0)))


def unify_once(pattern: Expr, subject: Expr) -> Iterator[Bindings]:
    """Yield the bindings in which each operand has one expression and one subscript."""
    return (found for found in unify(pattern, subject) if not _reads_twice(found))


def read_twice(bindings: Bindings) -> tuple[str, ...]:
    """Return the operands that are bound at several subscripts."""
    names = [b.name for b in bindings]
    return tuple(dict.fromkeys(n for n in names if names.count(n) > 1)) if _reads_twice(bindings) else ()


def places(bindings: Bindings) -> tuple[tuple[str, Binding], ...]:
    """Return each binding with the operand's name, followed by its subscript if several bindings share the name."""
    twice = read_twice(bindings)
    return tuple((_read_text(b) if b.name in twice else b.name, b) for b in bindings)


def _read_text(binding: Binding) -> str:
    return f"{binding.name}[{', '.join(map(str, binding.pattern))}]"


def _reads_twice(bindings: Bindings) -> bool:
    return len({b.name for b in bindings}) < len(bindings)


def heads_match(pattern: Expr, subject: Expr) -> bool:
    """Return whether the outermost operations agree. This cheap test comes before unification."""
    match pattern:
        case Call(op):
            alike = isinstance(subject, Call) and (op, pattern.mode) == (subject.op, subject.mode)
            return alike or any(
                not isinstance(rest, Read) and heads_match(rest, subject)
                for _, rest in _without_effect(pattern)
            )
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
            if pattern.dtype == subject.dtype and not any(map(has_elements, index)):  # else it looks up
                yield from _bind(Binding(buffer, index, subject), bound)
        case Scalar(name):
            number = number_of(subject)
            if pattern.dtype == number.dtype and _is_number(number):
                yield from _bind(Binding(name, (), number), bound)
        case Const():
            if pattern == subject:
                yield bound
        case IndexValue(index):
            # Axes and sizes of an instruction are its own, whatever they are called in the kernel.
            if pattern == subject and index.value is not None:
                yield bound
        case Cast():
            yield from _unify_cast(pattern, subject, bound)
        case Call():
            yield from _unify_call(pattern, subject, bound) if pattern.dtype == subject.dtype else ()


def _unify_call(pattern: Call, subject: Expr, bound: Bindings) -> Iterator[Bindings]:
    """Yield bindings under equal operations, then those with which the pattern's operation has no effect."""
    op, args = pattern.op, pattern.args
    if isinstance(subject, Call) and (op, pattern.mode) == (subject.op, subject.mode):
        yield from _unify_all(args, subject.args, bound)
        if OPS[op].commutative and len(args) == 2:
            yield from _unify_all(args, subject.args[::-1], bound)
    for number, rest in _without_effect(pattern):
        for found in _bind(number, bound):
            yield from _unify(rest, subject, found)


def _without_effect(pattern: Call) -> Iterator[tuple[Binding, Expr]]:
    """Yield each parameter with the number with which the operation returns its other operand, and this operand."""
    for at, arg in enumerate(pattern.args if len(pattern.args) == 2 else ()):
        number = number_without_effect(pattern.op, at, arg.dtype) if isinstance(arg, Scalar) else None
        if number is not None and isinstance(arg, Scalar) and pattern.args[1 - at].dtype == pattern.dtype:
            yield Binding(arg.name, (), number), pattern.args[1 - at]


def _only_copies(pattern: Expr, subject: Expr, bindings: Bindings) -> bool:
    """Return whether all operations of an instruction have no effect, so that one operand is the whole subject."""
    rest = pattern
    while isinstance(rest, Call):
        left = next((e for number, e in _without_effect(rest) if number in bindings), None)
        if left is None:
            return False
        rest = left
    return (
        isinstance(pattern, Call)
        and isinstance(rest, Read)
        and Binding(rest.buffer, rest.index, subject) in bindings
    )


def _is_number(e: Expr) -> bool:
    """Return whether an expression depends on no array: a number, a parameter, or an index."""
    if isinstance(e, Cast):
        return isinstance(e.value, IndexValue) and e.dtype.is_integer
    return isinstance(e, (Const, Scalar, IndexValue))


def _unify_all(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _unify(patterns[0], subjects[0], bound):
        yield from _unify_all(patterns[1:], subjects[1:], found)


def _unify_cast(pattern: Cast, subject: Expr, bound: Bindings) -> Iterator[Bindings]:
    """Yield bindings under equal casts, or under the last of two casts that equal the subject's."""
    if not isinstance(subject, Cast) or (pattern.dtype, pattern.mode) != (subject.dtype, subject.mode):
        return
    inner, required = subject.value, pattern.value.dtype
    if inner.dtype == required:
        yield from _unify(pattern.value, inner, bound)
    elif isinstance(pattern.value, Read) and (
        mode := first_cast(inner.dtype, required, pattern.dtype, pattern.mode)
    ):
        yield from _unify(pattern.value, Cast(inner, required, mode), bound)
    elif (
        isinstance(inner, Cast) and inner.mode != "bits" and converts_exactly(inner.value.dtype, inner.dtype)
    ):
        yield from _unify_cast(pattern, replace(subject, value=inner.value), bound)


def _bind(new: Binding, bound: Bindings) -> Iterator[Bindings]:
    """Yield the bindings with a new one, unless it contradicts an existing one at the same subscript."""
    for old in bound:
        if old.name == new.name and old.pattern == new.pattern:
            if old == new:
                yield bound
            return
    yield (*bound, new)


Pairs = tuple[tuple[Index, Index], ...]


def subscripts_to_agree(one: Expr, other: Expr) -> Pairs | None:
    """Return the pairs of subscripts that must be equal for two expressions to be equal, or None if they differ.

    Two reads with different fills outside an array have different values. A read without a fill is never
    outside.
    """
    match one, other:
        case Read(), Read():
            if one.buffer != other.buffer or (one.fill and other.fill and one.fill != other.fill):
                return None
            return tuple(zip(one.index, other.index, strict=True))
        case IndexValue(mine, dtype), IndexValue(theirs):
            return ((mine, theirs),) if dtype == other.dtype else None
        case Call(op, args), Call():
            alike = (op, one.mode, one.dtype) == (other.op, other.mode, other.dtype)
            return _all(args, other.args) if alike else None
        case Cast(value), Cast(its):
            alike = (one.dtype, one.mode) == (other.dtype, other.mode)
            return subscripts_to_agree(value, its) if alike else None
        case _:
            return () if one == other else None


def _all(mine: tuple[Expr, ...], theirs: tuple[Expr, ...]) -> Pairs | None:
    if len(mine) != len(theirs):
        return None
    found: list[tuple[Index, Index]] = []
    for a, b in zip(mine, theirs, strict=True):
        pairs = subscripts_to_agree(a, b)
        if pairs is None:
            return None
        found += pairs
    return tuple(found)
