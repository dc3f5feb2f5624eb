"""Access counts as formulas over a kernel's sizes, under the loops of one schedule.

A product whose sums stay in registers for 256 steps of k reads M·N·⌈K/256⌉ elements of C from memory. All
tiles of an axis together have as many elements as the axis, for any loops. An axis that does not move an
operand contributes its number of tiles. Only the convention whose levels load their tile at each entry
(`entry`) has such a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import cast

from sympy import Add, Expr, Integer, Max, Min, Mod, Mul, Symbol, ceiling, floor, nan

from isamap.ir import Atom, Element, FloorDiv, Index, MinMax
from isamap.ir import index as ir
from isamap.plan.access_counts import Convention, count_fused, levels_of
from isamap.plan.loop_nest import CountedOperand, LoopNest, NestLoop, Subscript, axes_of
from isamap.source.records import dataclass

Extents = Mapping[str, Expr]
_BRACKETS = {"ceiling(": ("⌈", "⌉"), "floor(": ("⌊", "⌋"), "(": ("(", ")")}


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The accesses of one level to one operand as formulas. Units: elements. None if no formula is exact."""

    level: str
    operand: str
    tensor: str
    reads: Expr | None
    fills: Expr | None
    updates: Expr | None
    drains: Expr | None


@dataclass(frozen=True, slots=True)
class ClosedForms:
    """A statement's formulas: `issues`, the counts of each level, and `home_bytes`, the arrays' traffic.

    An axis whose extent is not a single size has the symbol `extent_AXIS`, which `extents` explains.
    """

    statement: int
    extents: Extents
    issues: Expr
    home_bytes: Expr | None
    counts: tuple[ClosedForm, ...]


def closed_forms(
    statement: int, nest: LoopNest, sizes: Mapping[str, Index], convention: Convention
) -> ClosedForms | None:
    """Return the formulas of a nest for axes with the lengths in `sizes`, or None under another convention.

    At the nest's own sizes they equal the counts of `count_accesses`.
    """
    if (convention.refill, convention.latch) != ("entry", "entry") or not convention.first_read:
        return None
    lengths = {axis: _extent(sizes.get(axis, Index.of(extent))) for axis, extent in nest.axes}
    named = {axis: length for axis, length in lengths.items() if not length.is_Atom}
    extents = {axis: _size(f"extent_{axis}") if axis in named else lengths[axis] for axis in lengths}
    issues = Mul(*(_pieces(nest.loops, axis, extents) for axis, _ in nest.axes))
    counts = tuple(form for operand in nest.operands for form in _of_operand(nest, operand, extents))
    explained = {str(extents[axis]): length for axis, length in named.items()}
    return ClosedForms(statement, explained, issues, _home_bytes(nest, counts), counts)


def formula(form: Expr | None) -> str:
    """Return a formula in mathematical notation, such as 2·M·N·⌈K/256⌉, or a dash for None."""
    return "–" if form is None else _bracket(str(form).replace("**", "^").replace("*", "·"))


def _bracket(text: str) -> str:
    ends: list[str] = []

    def bracket(found: re.Match[str]) -> str:
        if found[0] == ")":
            return ends.pop()
        begin, end = _BRACKETS[found[0]]
        ends.append(end)
        return begin

    return re.sub(r"ceiling\(|floor\(|\(|\)", bracket, text)


def _extent(size: Index) -> Expr:
    """Return the SymPy expression of a size."""
    return Add(*(Mul(Integer(factor), *map(_atom, monomial)) for monomial, factor in size.terms))


def _size(name: str) -> Expr:
    return Symbol(name, integer=True, nonnegative=True)


def _atom(atom: Atom) -> Expr:
    match atom:
        case str():
            return _size(atom)
        case FloorDiv(value, divisor):
            return floor(_extent(value) / _extent(divisor))
        case ir.Mod(value, divisor):
            return Mod(_extent(value), _extent(divisor))
        case MinMax("min", left, right):
            return cast("Expr", Min(_extent(left), _extent(right)))
        case MinMax(_, left, right):
            return cast("Expr", Max(_extent(left), _extent(right)))
        case Element():
            return _size(str(atom))


def _of_operand(nest: LoopNest, operand: CountedOperand, extents: Extents) -> Iterator[ClosedForm]:
    places = range(1, len(operand.keeps) + 1)
    moved = [Integer(0), *(_moved_elements(nest, operand, position, extents) or nan for position in places)]
    sums = _filled_elements(operand, (), extents) or nan if operand.role == "update" else Integer(0)
    whole = nan if any(keep.copied for keep in operand.keeps) and operand.fused is not None else sums
    updated = {axis for subscript in operand.subscripts for axis in axes_of(subscript)}
    reads = operand.fused.reads if operand.fused else ()
    fused = [count_fused(r, extents, updated, lambda axis: _pieces(nest.loops, axis, extents)) for r in reads]
    fused = [(Integer(1) * loaded, Integer(1) * used) for loaded, used in fused]
    for level, name, tensor, *counts, _ in levels_of(operand, moved, sums, whole, fused):
        yield ClosedForm(level, name, tensor, *(None if count == nan else count for count in counts))


def _home_bytes(nest: LoopNest, counts: tuple[ClosedForm, ...]) -> Expr | None:
    total: Expr = Integer(0)
    for operand in nest.operands:
        sizes = {
            operand.tensor: operand.element_bytes,
            **dict(operand.fused.results if operand.fused else ()),
            **{read.tensor: read.element_bytes for read in (operand.fused.reads if operand.fused else ())},
        }
        for one in (c for c in counts if (c.operand, c.level) == (operand.name, operand.keeps[0].level)):
            if one.reads is None or one.updates is None:
                return None
            total += sizes[one.tensor] * (one.reads + one.updates)
    return total


def _moved_elements(nest: LoopNest, operand: CountedOperand, position: int, extents: Extents) -> Expr | None:
    """Return a formula for the elements that an operand's level at `position`, or the datapath, loads, or None."""
    keeps = operand.keeps
    outer = nest.loops[: keeps[position].depth] if position < len(keeps) else nest.loops
    if not any(keep.copied for keep in keeps[: position + 1]):
        tiles = {loop.axis: loop.step for loop in nest.loops}
        wide = any(
            len(axes_of(s)) > 1 and any(tiles.get(a, 1) > 1 for a in axes_of(s)) for s in operand.subscripts
        )
        is_loaded = position < len(keeps) and keeps[position].loaded
        is_gathered = bool(operand.gathered[1]) and position == 1
        return None if is_gathered or (is_loaded and wide) else _filled_elements(operand, outer, extents)
    if operand.windows:
        return None
    used = {axis for subscript in operand.subscripts for axis in axes_of(subscript)}
    is_copy = position < len(keeps) and keeps[position].copied
    read = {axis: _pieces(nest.loops, axis, extents) for axis in extents}
    whole = dict(operand.lengths)  # an issue writes no more along them than is left
    lengths = (
        extents if is_copy else {axis: extents[axis] if axis in whole else n for axis, n in read.items()}
    )
    tile = Integer(1 if is_copy else operand.tile_elements // prod(whole.values()))
    return Mul(tile, *(lengths[a] if a in used else _pieces(outer, a, extents) for a in extents))


def _filled_elements(operand: CountedOperand, outer: tuple[NestLoop, ...], extents: Extents) -> Expr | None:
    """Return a formula for the elements that a level inside these loops loads over the whole nest, or None."""
    linear = [whole for whole in operand.subscripts if not isinstance(whole, Index)]
    moving = [tuple((a, f) for a, f in whole if a in extents and f) for whole in linear]
    used = [axis for subscript in moving for axis, _ in subscript]
    # Two axes of the tensor move together, as in A[i, i], or a subscript divides.
    if len(used) != len(set(used)) or len(linear) < len(operand.subscripts):
        return None
    parts = [_image(subscript, outer, extents) for subscript in moving]
    still = [_pieces(outer, axis, extents) for axis in extents if axis not in used]
    known = [part for part in parts if part is not None]
    return Mul(*known, *still) if len(known) == len(parts) else None


def _image(subscript: Subscript, outer: tuple[NestLoop, ...], extents: Extents) -> Expr | None:
    """Return the number of elements that all tiles cover along a tensor axis, or None if tiles leave gaps.

    Pieces of lengths a and b of two axes that move it by one element each access a + b - 1 elements. The sum
    over all pairs of pieces is A·(pieces of B) + B·(pieces of A) - (pieces of A)·(pieces of B).
    """
    if len({abs(factor) for _, factor in subscript}) > 1:
        return None
    pieces = {axis: _pieces(outer, axis, extents) for axis, _ in subscript}
    lengths = (Mul(extents[axis], *(n for other, n in pieces.items() if other != axis)) for axis in pieces)
    return Add(*lengths, Mul(Integer(1 - len(pieces)), *pieces.values()))


def _pieces(loops: tuple[NestLoop, ...], axis: str, extents: Extents) -> Expr:
    """Return the number of tiles into which nested loops split an axis."""
    return _divide_extent(extents[axis], tuple(loop.step for loop in loops if loop.axis == axis))


def _divide_extent(extent: Expr, steps: tuple[int, ...]) -> Expr:
    if not steps:
        return Integer(1)
    step, *inner = steps
    if not inner:
        return ceiling(extent / step)
    if step % inner[0] == 0:  # blocks end where tiles end
        return _divide_extent(extent, tuple(inner))
    whole, last = floor(extent / step), Mod(extent, step)
    return whole * _divide_extent(Integer(step), tuple(inner)) + _divide_extent(last, tuple(inner))
