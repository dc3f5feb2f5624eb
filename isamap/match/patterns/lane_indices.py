"""Indices as values: the index values in the lanes of a register, such as element numbers.

    select(n <= m, S[m, n], -inf)     with lanes along n: i32(@n + %0) <= i32(@m), a comparison of two registers

An instruction of a description counts along its axes, and so performs every affine function of the lane:

    for i in 16 { z[i] = S + C * i32(i); }     is     wrap_i32(2*%0 + @n)     with C = 2 and S = wrap_i32(@n)

Both wrap around, so they agree in all bits. Comparisons of indices have 64 bits. Lanes compare them with 32, if
all indices of the kernel that are values fit (`have_short_indices`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from isamap.ir import DTYPES, I64, Call, Cast, Const, Expr, Index, IndexValue, Kernel, Scalar, is_nonnegative
from isamap.ir.evaluate import number_of
from isamap.ir.facts import find_sites, known_facts
from isamap.ir.walk import symbols, walk, with_parts
from isamap.match.patterns.unify import Binding, Bindings
from isamap.source.records import replace

SHORT = DTYPES["i32"]
COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


def bind_affine(pattern: Expr, subject: Expr, axes: Iterable[str]) -> Bindings | None:
    """Return the parameters with which an instruction computes an affine index along its axes, or None.

    The subject names the instruction's axes with `%`.
    """
    index = index_of(subject)
    counted = None if index is None else _polynomial(pattern)
    lanes = {axis: f"%{axis}" for axis in axes}
    if index is None or counted is None or not index.is_affine_in(lanes.values()):
        return None
    steps = [(counted.coefficient(axis), index.coefficient(lane)) for axis, lane in lanes.items()]
    first = index.substitute(dict.fromkeys(lanes.values(), 0))
    steps.append((counted.substitute(dict.fromkeys(lanes, 0)), first))
    found: dict[str, Index] = {}
    for own, theirs in steps:
        if own is None or theirs is None:
            return None
        if own.value is not None and own == theirs:
            continue
        if own.symbols != frozenset((str(own),)) or found.setdefault(str(own), theirs) != theirs:
            return None
    return tuple(Binding(name, (), _number_like(subject, index)) for name, index in sorted(found.items()))


def _polynomial(e: Expr) -> Index | None:
    """Return an integer expression of axes and parameters as a polynomial of them, or None for anything else."""
    match e:
        case Scalar(name, dtype) if dtype.is_integer:
            return Index.of(name)
        case Const(int(value)):
            return Index.of(value)
        case IndexValue(index) | Cast(IndexValue(index), _, "wrap"):
            return index
        case Call("add" | "mul" as op, (left, right)):
            a, b = _polynomial(left), _polynomial(right)
            return None if a is None or b is None else a + b if op == "add" else a * b
        case _:
            return None


def index_of(e: Expr) -> Index | None:
    """Return the index of which an expression has the low bits, or None."""
    match e:
        case IndexValue(index) | Cast(IndexValue(index), _, "wrap"):
            return index
        case _:
            return None


def _number_like(e: Expr, index: Index) -> Expr:
    """Return an index as a value, with the same cast as the given expression."""
    value = IndexValue(index, I64) if index.value is None else Const(index.value, I64)
    return number_of(replace(e, value=value)) if isinstance(e, Cast) else value


def have_short_indices(kernel: Kernel) -> bool:
    """Return whether each index that a kernel uses as a value is proved to fit 32 bits."""
    known = known_facts(kernel)
    for site in find_sites(kernel):
        values = (site.assign.value, *site.conditions)
        indices = [part.index for e in values for part in walk(e) if isinstance(part, IndexValue)]
        if not indices:
            continue
        extents = {name: extent.substitute(known.bindings) for name, extent in site.extents.items()}
        facts = known.facts.with_axes(extents)
        inside = [index.substitute(known.bindings) for index in indices]
        limits = [limit for i in inside for limit in (i - int(SHORT.low), int(SHORT.high) - i)]
        if not all(is_nonnegative(limit, facts) for limit in limits):
            return False
    return True


@lru_cache(maxsize=1 << 14)
def compare_by_lanes(e: Expr) -> Expr:
    """Return the expression with comparisons of short indices by lanes in 32 bits.

    A register has one comparison for each choice, so `select(p & q, a, b)` becomes `select(p, select(q, a, b), b)`.
    """
    match e:
        case Call("select", (condition, a, b)) if _is_by_lane(condition):
            match condition:
                case Call("and", (p, q)):
                    return compare_by_lanes(replace(e, args=(p, replace(e, args=(q, a, b)), b)))
                case Call("or", (p, q)):
                    return compare_by_lanes(replace(e, args=(p, a, replace(e, args=(q, a, b)))))
                case Call("not", (p,)):
                    return compare_by_lanes(replace(e, args=(p, b, a)))
                case Call(op, (left, right)) if op in COMPARISONS and left.dtype == I64:
                    sides = _shorten_index(left), _shorten_index(right)
                    if None not in sides:
                        condition = replace(condition, args=tuple(s for s in sides if s is not None))
                    return replace(e, args=(condition, compare_by_lanes(a), compare_by_lanes(b)))
                case _:
                    pass
        case Cast(IndexValue() as value, dtype) if dtype.is_float and _is_by_lane(value):
            return replace(e, value=_shorten_index(value) or value)
        case _:
            pass
    return with_parts(e, compare_by_lanes)


def _is_by_lane(e: Expr) -> bool:
    """Return whether an index in an expression depends on the lane."""
    return any(s.startswith("%") for part in walk(e) if isinstance(part, IndexValue) for s in symbols(part))


def _shorten_index(e: Expr) -> Expr | None:
    match e:
        case IndexValue():
            return Cast(e, SHORT, "wrap")
        case Const(int(value)) if SHORT.low <= value <= SHORT.high:
            return Const(value, SHORT)
        case _:
            return None
