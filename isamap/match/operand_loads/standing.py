"""Expressions for prices: a value that does not depend on the lane becomes one symbol.

    X[(@n.w + ~0) / 56, @r + (@n.w + ~0) % 56, (@s.c + 2*~0 + %0) % 64]   ->   X[@0, @1, (@2 + %0) % 64]

The relative places of elements decide which instructions move them and for how long. The place of the first
element and the order of the loops do not. Mappings that differ in nothing else are priced once, which halves
the time for convolutions with their hundreds of mappings. Only prices use these expressions: the moves of a
program are searched at their real places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isamap.ir import Cast, DType, Expr, Index, Read
from isamap.ir.index import Atom, FloorDiv, Mod, Monomial
from isamap.match.patterns.address import is_lane
from isamap.source.records import replace

LOOPS = "@"  # symbols that start so are positions of loops: nothing is known of them but their names


def hide_position(expr: Expr, is_moving: Callable[[str], bool]) -> Expr:
    """Return an element of an array, or its cast, with each part that has no moving symbol as a symbol `@0`, ….

    Equal results mean that the same instructions load the elements at the same cost. Equal sums get equal
    symbols. Constants, divisions by a non-constant, and other expressions stay as they are.
    """
    if isinstance(expr, Cast):
        return replace(expr, value=hide_position(expr.value, is_moving))
    if not isinstance(expr, Read):
        return expr
    known: dict[Index, Index] = {}
    return replace(expr, index=tuple(_subscript(i, is_moving, known) for i in expr.index))


Lying = tuple[tuple[tuple[DType, str], ...], Expr | None, tuple[tuple[Index, Index], ...]]
"""The casts down to the element, its fill outside the array, and the subscripts of lanes with their strides."""


def lane_layout(expr: Expr, strides: Mapping[str, tuple[Index, ...]]) -> Lying | None:
    """Return the layout of elements over lanes, without the array's name, or None for a computed value.

    `X[@0, @1, @2 + %0 % 4, @3 + %0 / 4]` and `F[@0, @1 + %0 % 4, @2, @3 + %0 / 4]` have the same layout: four
    runs, at a distance that some stride gives. Strides are numbered in the order of their first use.
    """
    types: list[tuple[DType, str]] = []
    while isinstance(expr, Cast):
        types.append((expr.dtype, expr.mode))
        expr = expr.value
    types.append((expr.dtype, ""))
    if not isinstance(expr, Read) or expr.buffer not in strides:
        return None
    moving = [
        (index, stride)
        for index, stride in zip(expr.index, strides[expr.buffer], strict=True)
        if any(map(is_lane, index.symbols))
    ]
    positions: dict[Index, Index] = {}
    names: dict[str, Index | int] = {}
    found: list[tuple[Index, Index]] = []
    for index, stride in moving:
        for symbol in sorted(stride.symbols):
            names.setdefault(symbol, Index.of(f"#{len(names)}"))
        found.append((_subscript(index, is_lane, positions), stride.substitute(names)))
    return tuple(types), expr.fill, tuple(found)


def _subscript(index: Index, is_moving: Callable[[str], bool], known: dict[Index, Index]) -> Index:
    moving = tuple([t for t in index.terms if _moves(t[0], is_moving)])
    rest = index if not moving else Index(tuple([t for t in index.terms if t not in moving]))
    still = rest if rest.value is not None else known.setdefault(rest, Index.of(f"{LOOPS}{len(known)}"))
    total = still
    for monomial, coefficient in moving:
        term = Index.of(coefficient)
        for atom in monomial:
            term = term * _atom(atom, is_moving, known)
        total = total + term
    return total


def _moves(monomial: Monomial, is_moving: Callable[[str], bool]) -> bool:
    return any(
        is_moving(atom) if isinstance(atom, str) else any(map(is_moving, Index.of(atom).symbols))
        for atom in monomial
    )


def _atom(atom: Atom, is_moving: Callable[[str], bool], known: dict[Index, Index]) -> Index:
    """Return a factor with moving symbols. The dividends of its divisions are simplified."""
    match atom:
        case FloorDiv(value, divisor) if divisor.value is not None:
            return Index.of(FloorDiv(_subscript(value, is_moving, known), divisor))
        case Mod(value, divisor) if divisor.value is not None:
            return Index.of(Mod(_subscript(value, is_moving, known), divisor))
        case _:
            return Index.of(atom)
