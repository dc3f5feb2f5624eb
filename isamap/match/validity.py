"""The first condition of a valid mapping: elements of an issue stand for the kernel's elements one by one.

Iterations of the instruction that touch one element of an operand stand for kernel iterations that touch one
element of the tensor: an instruction that reads `a[p + r]` performs `X[p + r]`, but not `X[2*p + r]`. And no
two elements of an output stand for the same element of the tensor: `c[i, j]` is not `Y[i + j]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from isamap.ir import Call, Cast, Expr, Index, IndexValue, Read
from isamap.match.instructions import Pattern
from isamap.match.mapping import AxisGroup, Mapping
from isamap.transform import Statement, tells_apart

Row = tuple[Fraction, ...]


def elements_agree(pattern: Pattern, statement: Statement, mapping: Mapping) -> bool:
    """Whether elements of every operand in one issue and elements of its tensor belong together."""
    target = statement.assign.target
    return (
        all(_follows(b.pattern, tuple(_indices(b.subject)), pattern, mapping) for b in mapping.bindings)
        and _follows(pattern.target.index, target.index, pattern, mapping)
        and _is_written_once(pattern, statement, mapping)
    )


def _follows(own: tuple[Index, ...], theirs: tuple[Index, ...], pattern: Pattern, mapping: Mapping) -> bool:
    """Whether the operand's element, subscripts `own`, determines that of the tensor, subscripts `theirs`."""
    used = frozenset(s for i in own for s in i.symbols)
    extents = {a.name: a.extent for a in pattern.axes if a.name in used and a.name not in mapping.empty}
    return tells_apart(own, extents) or _spanned(theirs, own, mapping, tuple(extents), by_own=True)


def _is_written_once(pattern: Pattern, statement: Statement, mapping: Mapping) -> bool:
    """Whether the tensor's element determines that of the output."""
    own, theirs = pattern.target.index, statement.assign.target.index
    used = frozenset(s for i in own for s in i.symbols)
    groups = [g for g in mapping.groups if used & set(g.instruction_axes)]
    extents = {k: statement.axis(k).extent for g in groups for k in g.kernel_axes}
    axes = tuple(i for g in groups for i in g.instruction_axes)
    return tells_apart(theirs, extents) or _spanned(theirs, own, mapping, axes, by_own=False)


def _spanned(
    theirs: Sequence[Index], own: Sequence[Index], mapping: Mapping, axes: tuple[str, ...], *, by_own: bool
) -> bool:
    """Whether steps that leave one side's element as it is leave the other's: both are linear."""
    runs = {g.instruction_axes[0]: g.kernel_axes[0] for g in mapping.groups if _is_one_to_one(g)}
    if not all(a in runs for a in axes):
        return False
    mine = _rows(own, axes)
    kernel = _rows(theirs, tuple(runs[a] for a in axes))
    if mine is None or kernel is None:
        return False
    inner, outer = (kernel, mine) if by_own else (mine, kernel)
    return _rank([*outer, *inner]) == _rank(outer)


def _is_one_to_one(group: AxisGroup) -> bool:
    return len(group.instruction_axes) == len(group.kernel_axes) == 1


def _rows(subscripts: Sequence[Index], axes: tuple[str, ...]) -> list[Row] | None:
    """Steps of each subscript along the axes; None when one is not a number."""
    found: list[Row] = []
    for subscript in subscripts:
        steps = [subscript.coefficient(a) for a in axes]
        numbers = [s.value for s in steps if s is not None and s.value is not None]
        if len(numbers) != len(axes):
            return None
        found.append(tuple(Fraction(n) for n in numbers))
    return found


def _rank(rows: list[Row]) -> int:
    """How many of the rows do not depend on the others, by elimination."""
    left, rank = [list(r) for r in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in left if r[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        rank += 1
        for row in left:
            factor = row[column] / pivot[column]
            row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return rank


def _indices(e: Expr) -> Iterator[Index]:
    """All index expressions that an expression depends on."""
    match e:
        case Read(_, index):
            yield from index
        case IndexValue(index):
            yield index
        case Call(_, args):
            for a in args:
                yield from _indices(a)
        case Cast(value):
            yield from _indices(value)
        case _:
            pass
