"""Index expressions simplified by the ranges of their symbols: `(2*i + p) / 2` is `i` when p is 0 or 1."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import assert_never

from isamap.ir import Call, Cast, Const, Expr, Index, IndexValue, Read, Scalar, substitute_expr
from isamap.ir.index import Atom, FloorDiv, MinMax, Mod

Interval = tuple[int, int]


def interval(index: Index, extents: Mapping[str, int]) -> Interval | None:
    """Smallest and largest value when each symbol runs over 0 … extent-1; None when a symbol has no range."""
    low = high = 0
    for monomial, coefficient in index.terms:
        ends = (coefficient, coefficient)
        for atom in monomial:
            bounds = _atom_interval(atom, extents)
            if bounds is None:
                return None
            corners = [a * b for a in ends for b in bounds]
            ends = (min(corners), max(corners))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _atom_interval(atom: Atom, extents: Mapping[str, int]) -> Interval | None:
    match atom:
        case str():
            return (0, extents[atom] - 1) if atom in extents else None
        case FloorDiv(value, divisor):
            inner = interval(value, extents)
            if inner is None or not divisor.value:
                return None
            return inner[0] // divisor.value, inner[1] // divisor.value
        case Mod(value, divisor):
            return (0, divisor.value - 1) if divisor.value else None
        case MinMax(op, left, right):
            a, b = interval(left, extents), interval(right, extents)
            if a is None or b is None:
                return None
            pick = min if op == "min" else max
            return pick(a[0], b[0]), pick(a[1], b[1])


def simplify(index: Index, extents: Mapping[str, int]) -> Index:
    """The same value with divisions removed whose result the ranges determine."""
    divided = {a: _simplify_atom(a, extents) for m, _ in index.terms for a in m if type(a) is not str}
    changed = {a for a, b in divided.items() if len(b.terms) != 1 or b.terms[0] != ((a,), 1)}
    if not changed:
        return index
    total = Index(tuple([t for t in index.terms if changed.isdisjoint(t[0])]))
    for monomial, coefficient in index.terms:
        if not changed.isdisjoint(monomial):
            term = Index.of(coefficient)
            for atom in monomial:
                term = term * (Index.of(atom) if type(atom) is str else divided[atom])
            total = total + term
    return total


def _simplify_atom(atom: Atom, extents: Mapping[str, int]) -> Index:
    match atom:
        case str():
            return Index.of(atom)
        case FloorDiv(value, divisor) | Mod(value, divisor):
            inner = simplify(value, extents)
            bounds = interval(inner, extents)
            if bounds and divisor.value and bounds[0] // divisor.value == bounds[1] // divisor.value:
                quotient = bounds[0] // divisor.value
                return Index.of(quotient) if isinstance(atom, FloorDiv) else inner - quotient * divisor.value
            if inner is value:
                return Index.of(atom)
            return inner.floordiv(divisor) if isinstance(atom, FloorDiv) else inner.mod(divisor)
        case MinMax():
            return Index.of(atom)


def simplify_expr(expr: Expr, extents: Mapping[str, int]) -> Expr:
    """An expression with its subscripts simplified."""
    match expr:
        case Read(buffer, index, dtype, fill):
            return Read(buffer, tuple(simplify(i, extents) for i in index), dtype, fill)
        case IndexValue(index, dtype):
            return IndexValue(simplify(index, extents), dtype)
        case Call(op, args, dtype, mode):
            return Call(op, tuple(simplify_expr(a, extents) for a in args), dtype, mode)
        case Cast(value, dtype, mode):
            return Cast(simplify_expr(value, extents), dtype, mode)
        case Const() | Scalar():
            return expr
        case _:
            assert_never(expr)


def laid_over(expr: Expr, coordinates: Mapping[str, Index], extents: Mapping[str, int]) -> Expr:
    """An expression over new coordinates, which have ranges, simplified: the same few are asked for often."""
    return _laid_over(expr, (*coordinates.items(),), (*extents.items(),))


@lru_cache(maxsize=1 << 15)
def _laid_over(
    expr: Expr, coordinates: tuple[tuple[str, Index], ...], extents: tuple[tuple[str, int], ...]
) -> Expr:
    return simplify_expr(substitute_expr(expr, dict(coordinates)), dict(extents))
