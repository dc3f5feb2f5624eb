"""The mappings that AMOS's released code finds, so that published counts can be reproduced.

A point puts one kernel axis on each instruction axis; a mapping is a set of points, told apart by the union
of their kernel axes on each instruction axis. Conv1d on a matrix product has the points (n, c), (n, r) and
(p, c) for i and k, but not (p, r), for `X[n, c, p + r]` is no matrix of p and r; these three make six
mappings. Axes of one element count here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from isamap.ir import Cast, Expr, Index, Read
from isamap.ir.prove import Facts, is_nonnegative
from isamap.match.mappings.exact import largest
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.unify import Bindings
from isamap.transform import Statement, symbols

Point = tuple[str, ...]
"""A kernel axis for each instruction axis, in their order."""


def find_unions(
    pattern: Pattern, statement: Statement, number: int, pairings: Iterator[Bindings]
) -> Iterator[Mapping]:
    """All mappings of the pairings by AMOS's rule; where sizes are known, only those that fill their axes."""
    axes = tuple(a.name for a in pattern.axes)
    for bindings in pairings:
        points = set(find_points(pattern, statement, bindings))
        for union in _unions(points, len(axes)):
            if all(_is_filled(pattern, statement, a, on) for a, on in zip(axes, union, strict=True)):
                groups = tuple(AxisGroup((a,), on) for a, on in zip(axes, union, strict=True))
                yield Mapping(pattern.name, number, bindings, groups, (), "whole")


def find_points(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Point]:
    """Every tuple of different kernel axes, of the kinds of the instruction's, under which operands agree."""
    sums = {a.name for a in statement.reduction_axes}
    own_sums = {a.name for a in pattern.statement.reduction_axes}
    options = [
        [k.name for k in statement.axes if (k.name in sums) == (j.name in own_sums)] for j in pattern.axes
    ]
    pairs = [(b.pattern, _subscripts(b.subject)) for b in bindings]
    pairs.append((pattern.target.index, statement.assign.target.index))
    for point in product(*options):
        if len(set(point)) == len(point) and all(
            theirs is not None and _agree(own, theirs, pattern, statement, point) for own, theirs in pairs
        ):
            yield point


def _subscripts(subject: Expr) -> tuple[Index, ...] | None:
    """The subscripts of an element or its cast; () for what no axis changes, None for anything else."""
    while isinstance(subject, Cast):
        subject = subject.value
    if isinstance(subject, Read):
        return subject.index
    return None if symbols(subject) else ()


def _agree(
    own: tuple[Index, ...], theirs: tuple[Index, ...], pattern: Pattern, statement: Statement, point: Point
) -> bool:
    """Whether each subscript is a dimension of the tensor up to scale and shift, and the rest is constant."""
    runs = dict(zip((a.name for a in pattern.axes), point, strict=True))
    still: dict[str, Index | int] = {a.name: 0 for a in statement.axes if a.name not in point}
    moving = [i.substitute({j: Index.of(x) for j, x in runs.items()}) for i in own]
    moving = [i for i in moving if not i.symbols.isdisjoint(point)]
    left = [i.substitute(still) for i in theirs]
    left = [i for i in left if not i.symbols.isdisjoint(point)]
    return len(moving) == len(left) and any(
        all(_is_scaled(d, i, point) for d, i in zip(order, moving, strict=True))
        for order in permutations(left)
    )


def _is_scaled(dimension: Index, subscript: Index, point: Point) -> bool:
    """Whether `dimension` is `c * subscript + b` with c > 0."""
    axis = next(x for x in point if x in subscript.symbols)
    step, own = dimension.coefficient(axis), subscript.coefficient(axis)
    if step is None or own is None:
        return False
    scale = step.divide_exactly(own)
    if scale is None or not is_nonnegative(scale - 1, Facts()):
        return False
    return (dimension - scale * subscript).symbols.isdisjoint(point)


def _unions(points: set[Point], count: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Kernel axes per instruction axis of every non-empty set of points, each once.

    Axes are such a union when the points inside them reach all of them.
    """
    reached = [sorted({p[n] for p in points}) for n in range(count)]
    for union in product(*(_subsets(axes) for axes in reached)):
        inside = [p for p in points if all(x in on for x, on in zip(p, union, strict=True))]
        if inside and all({p[n] for p in inside} == set(on) for n, on in enumerate(union)):
            yield union


def _subsets(axes: list[str]) -> list[tuple[str, ...]]:
    return [tuple(a for n, a in enumerate(axes) if bits >> n & 1) for bits in range(1, 1 << len(axes))]


def _is_filled(pattern: Pattern, statement: Statement, axis: str, on: tuple[str, ...]) -> bool:
    """Whether fused extents reach the instruction's; True where either is not a number."""
    length = pattern.statement.axis(axis).extent.substitute(largest(pattern.instruction)).value
    extent = Index.of(1)
    for x in on:
        extent = extent * statement.axis(x).extent
    return length is None or extent.value is None or extent.value >= length
