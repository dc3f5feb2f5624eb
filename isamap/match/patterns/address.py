"""Addresses: the layout of an array's elements, and whether an instruction's memory operand has that layout.

`A[@m, %k]` with rows 64 elements apart starts at `64*@m` and goes on in steps of 1.

Index expressions are simplified by the ranges of their symbols: `(2*i + p) / 2` is `i` if p is 0 or 1.

Elements may wrap around. The relative places of the lanes then depend on the loop counters:

    X[(@n.w + %0) / 28, (@n.w + %0) % 28]

is one run of elements if `@n.w` is a multiple of 28, and otherwise two, unless the rows of X are contiguous,
so that the address is `@n.w + %0` again. No load can address two such runs: only lanes whose distance is a
multiple of 28 keep their distance in memory, and every other lane needs a separate move. If that takes too
many moves, the search is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import assert_never

from isamap.ir import Call, Cast, Const, Expr, Index, IndexValue, Operand, Read, Scalar, substitute_expr
from isamap.ir.index import ZERO, Atom, Element, FloorDiv, MinMax, Mod
from isamap.match.patterns.reach import Params
from isamap.match.patterns.unify import Binding
from isamap.source.records import dataclass
from isamap.transform import reads

Interval = tuple[int, int]


def interval(index: Index, extents: Mapping[str, int]) -> Interval | None:
    """Return the smallest and the largest value for symbols in 0 … extent-1, or None if a symbol has no range."""
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
        case Element(low=low, high=high):
            least, most = interval(low, extents), interval(high, extents)
            return (least[0], most[1]) if least and most else None


def simplify(index: Index, extents: Mapping[str, int]) -> Index:
    """Return an equal index without the divisions whose results the ranges determine."""
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
        case Element(at=at):
            return Index.of(atom.with_parts((simplify(at, extents), *atom.parts[1:])))
        case MinMax():
            return Index.of(atom)


def simplify_expr(expr: Expr, extents: Mapping[str, int]) -> Expr:
    """Return an expression with its subscripts simplified."""
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


def lay_over(expr: Expr, coordinates: Mapping[str, Index], extents: Mapping[str, int]) -> Expr:
    """Return a simplified expression with symbols replaced by expressions of new coordinates. It is cached."""
    return _laid_over(expr, (*coordinates.items(),), (*extents.items(),))


@lru_cache(maxsize=1 << 15)
def _laid_over(
    expr: Expr, coordinates: tuple[tuple[str, Index], ...], extents: tuple[tuple[str, int], ...]
) -> Expr:
    return simplify_expr(substitute_expr(expr, dict(coordinates)), dict(extents))


Strides = Mapping[str, tuple[Index, ...]]


@dataclass(frozen=True, slots=True)
class Location:
    """Elements in memory. Units: `offset` and `strides` (per operand axis) in elements."""

    buffer: str
    offset: Index
    strides: tuple[Index, ...]


def locate(
    strides_of: Strides, operand: Operand, binding: Binding, params: Params, limits: dict[str, int]
) -> Location | None:
    """Return where an operand in memory starts and its strides, or None if its shape does not fit."""
    subject = binding.subject
    if not isinstance(subject, Read) or subject.dtype != operand.dtype or subject.fill is not None:
        return None
    address = address_of(subject, strides_of)
    if address is None:
        return None
    names = [f"%{a}" for a in limits]
    address = simplify(address, {f"%{a}": e for a, e in limits.items()})
    if not address.is_affine_in(names):
        return None
    strides = operand_strides(operand, params)
    steps: dict[str, Index] = {a: address.coefficient(f"%{a}") or ZERO for a, e in limits.items() if e > 1}
    for position, stride in enumerate(strides):
        if stride is None:
            strides[position] = _solve_stride(binding.pattern, position, steps)
    for axis, step in steps.items():
        total = ZERO
        for index, stride in zip(binding.pattern, strides, strict=True):
            coefficient = index.coefficient(axis)
            if coefficient is None:
                return None
            if coefficient.terms:
                if stride is None:
                    return None
                total = total + coefficient * stride
        if total != step:
            return None
    offset = address.substitute(dict.fromkeys(names, 0))
    return Location(subject.buffer, offset, tuple(s if s is not None else ZERO for s in strides))


def address_of(read: Read, strides: Strides) -> Index | None:
    """Return the element offset of an access, or None for a buffer whose place is not known."""
    return _address(read.index, strides[read.buffer]) if read.buffer in strides else None


@lru_cache(maxsize=1 << 14)
def _address(subscripts: tuple[Index, ...], strides: tuple[Index, ...]) -> Index:
    return sum((index * stride for index, stride in zip(subscripts, strides, strict=True)), start=ZERO)


def operand_strides(operand: Operand, params: Params) -> list[Index | None]:
    """Return the strides of a memory operand in elements, or None for a stride that each issue gives."""
    shape = [s.substitute(params) for s in operand.shape]
    if operand.strides is not None:
        return [s.substitute(params) if s is not None else None for s in operand.strides]
    found: list[Index | None] = []
    step = Index.of(1)
    for size in reversed(shape):
        found.insert(0, step)
        step = step * size
    return found


def _solve_stride(subscripts: tuple[Index, ...], position: int, steps: dict[str, Index]) -> Index | None:
    """Return the stride of an operand axis, from an instruction axis that only this operand axis uses, or None."""
    for axis, step in steps.items():
        c = subscripts[position].coefficient(axis)
        alone = all(axis not in s.symbols for i, s in enumerate(subscripts) if i != position)
        if c is not None and c.value and alone:
            return ZERO if not step.terms else step.divide_exactly(c)
    return None


LEAST_RUN = 4  # elements in a row: interleaving shorter runs takes as many moves as single elements
MAX_LANES = 4096


def wraps(expr: Expr, shape: tuple[int, ...], strides: Strides) -> bool:
    """Return whether elements wrap around so often that a register would need too many moves at every position."""
    lanes = prod(shape)
    if not 1 < lanes <= MAX_LANES:
        return False
    return any(
        _residues(atom.value, atom.divisor.value, shape) > max(1, lanes // LEAST_RUN)
        for read in reads(expr)
        if any(isinstance(a, FloorDiv | Mod) for i in read.index for m, _ in i.terms for a in m)
        for atom in _divisions(address_of(read, strides) or ZERO)
    )


def _divisions(index: Index) -> Iterator[FloorDiv | Mod]:
    """Yield all quotients and remainders in an index, nested ones included."""
    for monomial, _ in index.terms:
        for atom in monomial:
            yield from _inside(atom)


def _inside(atom: Atom) -> Iterator[FloorDiv | Mod]:
    match atom:
        case str():
            pass
        case FloorDiv(value, divisor) | Mod(value, divisor):
            yield atom
            yield from _divisions(value)
            yield from _divisions(divisor)
        case MinMax(_, left, right):
            yield from _divisions(left)
            yield from _divisions(right)
        case Element(at=at):
            yield from _divisions(at)


@lru_cache(maxsize=1 << 14)
def _residues(value: Index, divisor: int | None, shape: tuple[int, ...]) -> int:
    """Return how many distinct remainders the lanes have, or 1 if the dividend has no such lanes."""
    if divisor is None or not any(is_lane(s) for s in value.symbols) or all(map(is_lane, value.symbols)):
        return 1
    moved = Index(tuple(t for t in value.terms if any(map(is_lane, Index((t,)).symbols))))
    if not all(map(is_lane, moved.symbols)):
        return 1  # how far a step goes is not known
    names = [f"%{i}" for i in range(len(shape))]
    if not moved.symbols <= set(names):
        return 1
    places = product(*(range(size) for size in shape))
    return len({moved.evaluate(dict(zip(names, place, strict=True))) % divisor for place in places})


def is_lane(symbol: str) -> bool:
    """Return whether a symbol is a coordinate of a register."""
    return symbol.startswith("%")
