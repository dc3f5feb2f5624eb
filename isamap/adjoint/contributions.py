"""Statements that add to the adjoints of an array, written as gathers where possible.

    y[p] += x[p*2 + r - 1] * w[r]      for p in P, r in R

adds `d_y[p] * w[r]` to the adjoint of an element of x for each element of y: a scatter. Turned round, each
element of x gathers: `d_x[i] += (d_y[(i - r + 1) / 2] else 0) * w[r] if (i - r + 1) % 2 == 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce

from isamap.adjoint.names import AdjointNames
from isamap.ir import Axis, Call, Cast, Const, Expr, Index, IndexValue, Read, Scalar, substitute_expr
from isamap.ir.dtypes import BOOL, I64
from isamap.ir.facts import inside_conditions
from isamap.ir.index import has_elements
from isamap.ir.walk import map_reads
from isamap.source.records import dataclass, replace

Shapes = Callable[[str], tuple[Index, ...]]
"""The shape of an array by its name."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """An addition to an array's element `index`: `value`, at each point of the axes where `guard` holds."""

    axes: tuple[Axis, ...]
    index: tuple[Index, ...]
    value: Expr
    guard: Expr | None

    @property
    def is_plain(self) -> bool:
        """True if each subscript is an axis of its own."""
        names = {a.name for a in self.axes}
        found = [str(i) for i in self.index]
        return len(set(found)) == len(found) and set(found) <= names


def contribution(
    axes: tuple[Axis, ...],
    read: Read,
    value: Expr,
    guard: Expr | None,
    shapes: Shapes,
    names: AdjointNames,
    selecting: Collection[str],
) -> Contribution:
    """Return the contribution to the element that is read. `selecting` are the axes that select results.

    Shapes: `shapes` has those of all arrays.
    """
    found, shape = Contribution(axes, read.index, value, guard), shapes(read.buffer)
    for dim, extent in enumerate(shape):
        along = Axis(names.axis(f"i{dim}", (*axes, *found.axes)), extent)
        if (turned := _run_along(found, dim, shapes, along, selecting)) is not None:
            found = turned
    if read.fill is not None:
        scattered = [d for d, i in enumerate(found.index) if str(i) not in {a.name for a in found.axes}]
        inside = inside_conditions(replace(read, index=found.index), shape)
        found = replace(found, guard=_all(found.guard, *(c for d in scattered for c in inside[d])))
    first = {str(i): n for n, i in enumerate(found.index)}
    ordered = sorted(found.axes, key=lambda a: first.get(a.name, len(first)))
    return replace(found, axes=tuple(ordered))


def _run_along(
    c: Contribution, dim: int, shapes: Shapes, along: Axis, selecting: Collection[str]
) -> Contribution | None:
    """Return the contribution with `along` running over dimension `dim` of the target, or None if it cannot."""
    names = {a.name for a in c.axes}
    subscript = c.index[dim]
    others = {s for n, i in enumerate(c.index) if n != dim for s in i.symbols}
    if subscript in map(Index.of, names - others) or not subscript.symbols & names:
        return None
    if has_elements(subscript):  # it would run over all of the target, and test each element
        return None
    own = [a for a in c.axes if a.name in subscript.symbols - others and subscript.coefficient(a.name)]
    # An axis that selects results leaves the shorter loops, of a filter and the like; and outside the array
    # of results adjoints are 0, which needs no condition.
    own.sort(key=lambda a: (a.name not in selecting, subscript.coefficient(a.name) != Index.of(1)))
    for axis in own:
        factor = subscript.coefficient(axis.name)
        assert factor is not None
        if not factor.symbols & names and (factor.value is None or factor.value > 0):
            return _solve_axis(c, dim, shapes, along, axis, factor)
    return None


def _solve_axis(
    c: Contribution, dim: int, shapes: Shapes, along: Axis, axis: Axis, factor: Index
) -> Contribution:
    """Return the contribution with `axis` replaced by a solution in `along`, the position in the target."""
    rest = c.index[dim] - factor * Index.of(axis.name)
    distance = Index.of(along.name) - rest
    solution = {axis.name: distance.floordiv(factor)}
    conditions: list[Expr] = []
    if factor.value != 1:
        conditions.append(_compare("eq", distance.mod(factor), Index.of(0)))
    value = _zero_outside(c.value, axis, shapes)
    if value is None:
        value = c.value
        conditions += [
            _compare("ge", solution[axis.name], Index.of(0)),
            _compare("lt", solution[axis.name], axis.extent),
        ]
    guard = substitute_expr(c.guard, solution) if c.guard is not None else None
    index = [i.substitute(solution) for i in c.index]
    index[dim] = Index.of(along.name)
    axes = tuple(along if a == axis else a for a in c.axes)
    return Contribution(axes, tuple(index), substitute_expr(value, solution), _all(guard, *conditions))


def _zero_outside(value: Expr, axis: Axis, shapes: Shapes) -> Expr | None:
    """Return a product with a factor that is 0 if `axis` leaves its range, or None if it is no such product."""
    factors = _factors(value)
    whole = (Index.of(axis.name), axis.extent)
    if factors is None or not any(whole in zip(r.index, shapes(r.buffer), strict=True) for r in factors):
        return None
    if any(r.fill is not None and r.fill.value != 0 for r in factors):
        return None

    def filled(r: Read) -> Expr:
        own = any(axis.name in i.symbols for i in r.index)
        return replace(r, fill=Const(0, r.dtype)) if own else r

    return map_reads(value, filled)


def _factors(e: Expr) -> list[Read] | None:
    """Return the elements whose product, with constants, is the expression, or None if it is no such product."""
    match e:
        case Read():
            return [e]
        case Const() | Scalar():
            return []
        case Cast(value, _, mode) if mode != "bits":
            return _factors(value)
        case Call("mul" | "neg", args):
            parts = [_factors(a) for a in args]
            known = [p for p in parts if p is not None]
            return [r for p in known for r in p] if len(known) == len(parts) else None
        case _:
            return None


def _compare(op: str, left: Index, right: Index) -> Expr:
    sides = [IndexValue(i, I64) if i.value is None else Const(i.value, I64) for i in (left, right)]
    return Call(op, tuple(sides), BOOL)


def _all(guard: Expr | None, *conditions: Expr) -> Expr | None:
    known: Sequence[Expr] = [c for c in (guard, *conditions) if c is not None]
    return reduce(lambda a, b: Call("and", (a, b), BOOL), known) if known else None
