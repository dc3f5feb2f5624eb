"""Flatten two dimensions of dense arrays: `W[c, 3, H]` has the same memory layout as `W[c, 3*H]`.

    for n in N, g in 3, j in H, c in C { x[n, g, j] += X[n, c] * W[c, g, j]; }

becomes, with `x: f32[N, 3*H]` and `W: f32[C, 3*H]`,

    for n in N, gj in 3*H, c in C { x[n, gj] += X[n, c] * W[c, gj]; }

Shapes of operands change by that, their bytes do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from isamap.ir import Axis, Index, Kernel, Operand, Read
from isamap.ir.walk import symbols
from isamap.source.records import replace
from isamap.transform.rewrite import Rewrite, accesses, free_name, is_accepted, map_accesses, with_statements
from isamap.transform.shared_elements import Conflicts
from isamap.transform.statements import Statement, statements

Dimensions = dict[str, int]
"""Arrays, with the first of two neighbouring dimensions that become one."""


def flattenings(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with two axes fused, for each pair that is adjacent in every array with either of them."""
    tried: set[frozenset[tuple[str, int]]] = set()
    for s in statements(kernel):
        for outer, inner in permutations(s.axes if s.reduction_axes else (), 2):
            found = _everywhere(kernel, _dimensions(kernel, s, outer, inner) or {})
            if found and frozenset(found.items()) not in tried:
                tried.add(frozenset(found.items()))
                yield from _flatten_axes(kernel, found, outer, inner)


def dense_form(kernel: Kernel) -> Rewrite:
    """Return a kernel of constant sizes with all axes fused that are contiguous in memory.

    Windows of one element are removed first: the `r` of `X[p + r]` if `r in 1`. Fused axes are one run of
    memory for an instruction, and one loop for a schedule.
    """
    found = Rewrite(kernel, ())
    if any(axis.extent.value is None for s in statements(kernel) for axis in s.axes):
        return found
    found = _without_single_windows(kernel)
    while following := next(flattenings(found.kernel), None):
        found = Rewrite(following.kernel, (*found.steps, *following.steps))
    return found


def _without_single_windows(kernel: Kernel) -> Rewrite:
    """Return the kernel without reductions over one element whose axis is added to another axis in subscripts."""
    given = statements(kernel)
    changed: list[Statement] = []
    gone: list[str] = []
    for s in given:
        combined = {n for r in accesses(s) for i in r.index if len(i.symbols) > 1 for n in i.symbols}
        single = {a.name: 0 for a in s.reduction_axes if a.extent.value == 1 and a.name in combined}

        def change(read: Read, single: dict[str, int] = single) -> Read:
            return replace(read, index=tuple(i.substitute(single) for i in read.index))

        kept = replace(map_accesses(s, change), axes=tuple(a for a in s.axes if a.name not in single))
        if single and not _misses_an_axis(s, kept):
            changed.append(kept)
            gone += [name for name in single if name not in gone]
        else:
            changed.append(s)
    if not gone:
        return Rewrite(kernel, ())
    names = ", ".join(f"`{name}`" for name in gone)
    return Rewrite(with_statements(kernel, changed), (f"windows of one element: no loop over {names}",))


def _dimensions(kernel: Kernel, s: Statement, outer: Axis, inner: Axis) -> Dimensions | None:
    """Return where two axes are adjacent subscripts, or None unless they are in all arrays that use them."""
    of = Conflicts.of(kernel)
    found: Dimensions = {}
    both = {outer.name, inner.name}
    for r in accesses(s):
        at = [d for d, i in enumerate(r.index) if both & i.symbols]
        if not at:
            continue
        if outer == inner:
            return None  # a diagonal
        if [str(r.index[d]) for d in at] != [outer.name, inner.name] or at[1] != at[0] + 1:
            return None
        if found.setdefault(r.buffer, at[0]) != at[0]:
            return None
        if not of.same(kernel.operand(r.buffer).shape[at[1]], inner.extent):
            return None
    return found


def _everywhere(kernel: Kernel, found: Dimensions) -> Dimensions:
    """Return the dimensions of all arrays in which the axes are fused, or {} if a statement uses them differently.

    A statement with a number instead of the outer axis, `x[n, 0, j]`, gets `x[n, j]`.
    """
    while found:
        more: Dimensions = dict(found)
        for s in statements(kernel):
            for r in accesses(s):
                at = found.get(r.buffer)
                if at is None or r.index[at].value is not None:
                    continue
                axes = {a.name: a for a in s.axes}
                pair = [axes.get(str(i)) for i in r.index[at : at + 2]]
                own = _dimensions(kernel, s, *(a for a in pair if a)) if all(pair) else None
                if own is None or any(more.setdefault(n, d) != d for n, d in own.items()):
                    return {}
        if more == found:
            return found
        found = more
    return found


def _flatten_axes(kernel: Kernel, found: Dimensions, outer: Axis, inner: Axis) -> Iterator[Rewrite]:
    given = statements(kernel)
    touched = [r for s in given for r in accesses(s) if r.buffer in found]
    if any(kernel.operand(n).strides is not None for n in found) or any(r.fill is not None for r in touched):
        return  # rows apart, or columns that do not exist: neighbours in the array are not in memory

    def change(read: Read) -> Read:
        at = found.get(read.buffer)
        if at is None:
            return read
        width = kernel.operand(read.buffer).shape[at + 1]
        joined = read.index[at] * width + read.index[at + 1]
        return replace(read, index=(*read.index[:at], joined, *read.index[at + 2 :]))

    operands = [_flat(o, found[o.name]) if o.name in found else o for o in kernel.operands]
    name = free_name(kernel, f"{outer.name}{inner.name}")
    changed = [_one_axis(s, found, name) if _is_fused(s, found) else map_accesses(s, change) for s in given]
    if any(_misses_an_axis(b, a) for b, a in zip(given, changed, strict=True)):
        return  # the axes are values as well, as in `f32(j)`
    after = with_statements(kernel, changed, operands)
    if is_accepted(kernel, after):
        arrays = ", ".join(f"`{n}`" for n in found)
        yield Rewrite(
            after, (f"flattening: `{outer.name}` and `{inner.name}` become `{name}`, one axis of {arrays}",)
        )


def _flat(o: Operand, at: int) -> Operand:
    given = None if o.role == "temp" else o.given or o.shape
    return replace(o, given=given, shape=(*o.shape[:at], o.shape[at] * o.shape[at + 1], *o.shape[at + 2 :]))


def _one_axis(s: Statement, found: Dimensions, name: str) -> Statement:
    """Return the statement with one axis in place of the two with which it accesses flattened arrays."""
    axes = {a.name: a for a in s.axes}
    used = [r.index[found[r.buffer]] for r in accesses(s) if r.buffer in found]
    outer = next((axes[str(i)] for i in used if str(i) in axes), None)
    if outer is None:
        return s
    inner = next(axes[str(r.index[found[r.buffer] + 1])] for r in accesses(s) if r.buffer in found)

    def change(read: Read) -> Read:
        at = found.get(read.buffer)
        if at is None:
            return read
        return replace(read, index=(*read.index[:at], Index.of(name), *read.index[at + 2 :]))

    fused = Axis(name, outer.extent * inner.extent)
    kept = [fused if a == inner else a for a in s.axes if a != outer]
    return replace(map_accesses(s, change), axes=tuple(kept))


def _is_fused(s: Statement, found: Dimensions) -> bool:
    """Return whether a statement accesses flattened arrays by two axes, never by a number as the outer subscript."""
    numbers = [r.index[found[r.buffer]].value is None for r in accesses(s) if r.buffer in found]
    return bool(numbers) and all(numbers)


def _misses_an_axis(before: Statement, after: Statement) -> bool:
    """Return whether a statement uses an axis that it lost by a change."""
    gone = {a.name for a in before.axes} - {a.name for a in after.axes}
    parts = (after.assign.value, *((after.assign.guard,) if after.assign.guard is not None else ()))
    return any(gone & symbols(e) for e in parts)
