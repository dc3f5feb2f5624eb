"""Split sums at the edges of an array. Terms beyond an edge are 0 and are omitted instead of padded.

    for p in 6, r in 3 { Y[p] += (X[p + r - 1] else 0) * F[r]; }

becomes three sums, none of which reads beyond X, so that nothing is copied into a padded array:

    for p in 1, r in 2 { Y[p] += X[p + r] * F[r + 1]; }
    for p in 4, r in 3 { Y[p + 1] += X[p + r] * F[r]; }
    for p in 1, r in 2 { Y[p + 5] += X[p + r + 4] * F[r]; }

A statement that only initialises the sum is cut with it, so that each part has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, product

from isamap.ir import Assign, Axis, Call, Cast, Const, Expr, Index, Kernel, Read, verify
from isamap.ir.walk import map_reads, reads
from isamap.source.records import dataclass, replace
from isamap.transform.rewrite import Rewrite, map_accesses, with_statements
from isamap.transform.statements import Statement, statements

MOST_PARTS = 9
"""Nine are the middle, four sides and four corners of an image; more parts are more to match and to plan."""


@dataclass(frozen=True, slots=True)
class EdgeRange:
    """A range of an output axis, with the range of the reduction axis for which every access is in bounds."""

    axis: str
    start: int
    length: int
    summed: str
    first: int
    count: int


def edges_apart(kernel: Kernel) -> Rewrite | None:
    """Return the kernel with sums that read 0 beyond an array split at its edges, or None without such a sum.

    Products of 0 and infinity are left out as well, for which the kernel as written adds a NaN.
    """
    given, changed, cut = statements(kernel), list[Statement](), list[str]()
    if kernel.strict or any(s.sequence for s in given):
        return None
    for s in given:
        cuts = _cuts(s, kernel)
        if not cuts:
            changed.append(s)
            continue
        start = changed.pop() if changed and _only_sets(changed[-1], s) else None
        for parts in product(*cuts):
            changed += [_part(start, parts)] if start is not None else []
            changed.append(_part(replace(s, assign=_without_fills(s.assign)), parts))
        cut.append(s.assign.target.buffer)
    if not cut:
        return None
    after = with_statements(kernel, changed)
    steps = tuple(f"edges apart: sums into `{name}` that meet an edge stand by themselves" for name in cut)
    return None if verify(after) else Rewrite(after, steps)


def _cuts(s: Statement, kernel: Kernel) -> list[list[EdgeRange]]:
    """Return the parts of each subscript that leaves the array, or [] if they are unknown."""
    filled = [r for r in reads(s.assign.value) if r.fill is not None]
    if s.assign.op != "add" or s.assign.guard is not None or len(filled) != 1:
        return []
    (read,) = filled
    if not (isinstance(read.fill, Const) and read.fill.value == 0) or not _is_factor(s.assign.value, read):
        return []
    found: list[list[EdgeRange]] = []
    for index, size in zip(read.index, kernel.operand(read.buffer).shape, strict=True):
        parts = _parts(s, index, size.value)
        if parts is None:
            return []
        found += [parts] if parts else []
    used = [name for parts in found for name in (parts[0].axis, parts[0].summed)] if all(found) else []
    count = 1
    for parts in found:
        count *= len(parts)
    return found if used and len(set(used)) == len(used) and 1 < count <= MOST_PARTS else []


def _parts(s: Statement, index: Index, size: int | None) -> list[EdgeRange] | None:
    """Return the parts along one subscript, [] if it stays inside, or None if they are unknown."""
    extents = {a.name: a.extent.value for a in s.axes}
    summed = {a.name for a in s.reduction_axes}
    names = sorted(index.symbols, key=lambda name: name in summed)
    if size is None or any(extents.get(name) is None for name in names):
        return None
    numbers = {name: extents[name] or 0 for name in names}
    corners = [dict(zip(names, at, strict=True)) for at in product(*((0, numbers[n] - 1) for n in names))]
    if all(0 <= index.evaluate(corner) < size for corner in corners) and _is_linear(index):
        return []
    if len(names) != 2 or names[0] in summed or names[1] not in summed or not _is_linear(index):
        return None
    axis, term = names

    def inside(at: int) -> tuple[int, int]:
        valid = [t for t in range(numbers[term]) if 0 <= index.evaluate({axis: at, term: t}) < size]
        return (valid[0], len(valid)) if valid else (0, 0)

    found: list[EdgeRange] = []
    for (first, count), places in groupby(range(numbers[axis]), inside):
        run = list(places)
        if count == 0:
            return None  # sums of nothing: the padded form has them
        found.append(EdgeRange(axis, run[0], len(run), term, first, count))
    return found


def _is_linear(index: Index) -> bool:
    return all(
        len(monomial) <= 1 and all(type(atom) is str for atom in monomial) for monomial, _ in index.terms
    )


def _part(s: Statement, parts: Sequence[EdgeRange]) -> Statement:
    """Return the statement over these ranges. An output axis of one iteration is removed."""
    moved: dict[str, Index | int] = {}
    extents: dict[str, int] = {}
    for part in parts:
        moved[part.axis] = part.start if part.length == 1 else Index.of(part.axis) + part.start
        moved[part.summed] = Index.of(part.summed) + part.first
        extents |= {part.axis: part.length, part.summed: part.count}

    def change(read: Read) -> Read:
        return replace(read, index=tuple(i.substitute(moved) for i in read.index))

    single = {part.axis for part in parts if part.length == 1}
    axes = tuple(_resize_axis(a, extents) for a in s.axes if a.name not in single)
    return replace(map_accesses(s, change), axes=axes)


def _resize_axis(axis: Axis, extents: Mapping[str, int]) -> Axis:
    return replace(axis, extent=Index.of(extents[axis.name])) if axis.name in extents else axis


def _only_sets(s: Statement, after: Statement) -> bool:
    """Return whether a statement only assigns a constant to each element into which the next one sums."""
    target = after.assign.target
    axes = {a.name: a.extent for a in after.axes}
    return (
        s.assign.op is None
        and s.assign.guard is None
        and isinstance(s.assign.value, Const)
        and replace(s.assign.target, span=None) == replace(target, span=None)
        and all(axes.get(a.name) == a.extent for a in s.axes)
    )


def _without_fills(assign: Assign) -> Assign:
    return replace(assign, value=map_reads(assign.value, lambda read: replace(read, fill=None)))


def _is_factor(value: Expr, read: Read) -> bool:
    """Return whether a value is a product with the read as a factor, hence 0 if the read is 0."""
    match value:
        case Read():
            return value == read
        case Cast(inner):
            return _is_factor(inner, read)
        case Call("mul", args):
            return any(_is_factor(a, read) for a in args)
        case _:
            return False
