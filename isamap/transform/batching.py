"""Batch statements that are instances of one statement, as one statement with an additional axis.

    for n in N, j in H, c in C { x[0, n, j] += X[n, c] * W[0, c, j]; }
    for n in N, j in H, c in C { x[1, n, j] += X[n, c] * W[1, c, j]; }

differ in constants that count up together, and become

    for b in 2, n in N, j in H, c in C { x[b, n, j] += X[n, c] * W[b, c, j]; }

If they differ in arrays instead (`r += …`, `z += …`), these arrays must become one array. For temporaries, the
rewrite declares it. For inputs and outputs, the refusal states the declaration that the kernel needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from isamap.ir import ZERO, Axis, Index, Kernel, Read
from isamap.source.records import replace
from isamap.transform.fusion import rename_axes
from isamap.transform.rewrite import (
    Refusal,
    Rewrite,
    accesses,
    free_name,
    is_accepted,
    line_of,
    map_accesses,
    with_statements,
)
from isamap.transform.shared_elements import Conflicts, is_wide, never_meet, sums_in_any_order, targets_meet
from isamap.transform.statements import Statement, statements


def batchings(kernel: Kernel) -> Iterator[Rewrite | Refusal]:
    """Yield the kernel with one group of similar statements merged, for each group, or a refusal with the reason."""
    given = statements(kernel)
    for group in _groups(given):
        stacks = _stacks([given[n] for n in group])
        if stacks is None:
            continue
        if stacks and not given[group[0]].reduction_axes:
            continue  # arrays are made one for the sake of a sum only
        fixed = [names for names in stacks if not _may_be_one(kernel, names)]
        if fixed:
            yield _refuse_group(kernel, [given[n] for n in group], fixed)
            continue
        found = _batch_group(kernel, group, stacks)
        if found is not None:
            yield found


# --- groups -----------------------------------------------------------------------------------------------


def _groups(given: Sequence[Statement]) -> Iterator[list[int]]:
    """Yield groups of statements that differ only in constants and arrays, and share their ordered loops."""
    groups: dict[object, list[int]] = {}
    for n, s in enumerate(given):
        groups.setdefault(_skeleton(s), []).append(n)
    for group in groups.values():
        yield from _runs(given, group)


def _runs(given: Sequence[Statement], group: list[int]) -> Iterator[list[int]]:
    """Yield the group split where constants stop increasing."""
    run: list[int] = []
    for n in group:
        if len(run) < 2 or _slopes([given[m] for m in (*run, n)]) is not None:
            run.append(n)
            continue
        yield run
        run = [n]
    if len(run) > 1:
        yield run


def _skeleton(s: Statement) -> object:
    """Return a statement without the names of axes and arrays, and without constants, for comparison."""
    names = {name: f"axis{i}" for i, name in enumerate(_axes_in_order(s))}
    own = rename_axes(s, names)
    axes = frozenset(names.values())
    blank = map_accesses(
        own, lambda r: replace(r, buffer="", index=tuple(i - _offset(i, axes) for i in r.index))
    )
    a = blank.assign
    extents = tuple(sorted((x.name, x.extent) for x in own.axes))
    ranks = tuple(r.dtype for r in accesses(s))
    return s.ordered_loops, extents, a.op, a.target, a.value, a.guard, s.accumulator, ranks


def _axes_in_order(s: Statement) -> list[str]:
    """Return the unordered axes: those in subscripts by first occurrence, then the others."""
    own = {x.name for x in s.axes}
    found: dict[str, None] = {}
    for r in accesses(s):
        for i in r.index:
            for name in (x for m, _ in i.terms for atom in m for x in sorted(Index.of(atom).symbols)):
                if name in own:
                    found[name] = None
    return [*found, *(x.name for x in s.axes if x.name not in found)]


def _offset(index: Index, axes: frozenset[str]) -> Index:
    """Return the terms of a subscript without axes."""
    kept = ((m, c) for m, c in index.terms if not Index(((m, 1),)).symbols & axes)
    return sum((Index((term,)) for term in kept), ZERO)


def _slopes(group: Sequence[Statement]) -> list[tuple[Index, ...]] | None:
    """Return the steps of all subscripts from one statement to the next, or None if they vary."""
    names = [frozenset(x.name for x in s.axes) for s in group]
    found: list[tuple[Index, ...]] = []
    for same in zip(*map(accesses, group), strict=True):
        steps: list[Index] = []
        for subscripts in zip(*(r.index for r in same), strict=True):
            values = [_offset(i, own) for i, own in zip(subscripts, names, strict=True)]
            step = values[1] - values[0]
            if any(b - a != step for a, b in pairwise(values)):
                return None
            steps.append(step)
        found.append(tuple(steps))
    return found


def _stacks(group: Sequence[Statement]) -> list[tuple[str, ...]] | None:
    """Return the arrays that must become one, in statement order, or None if they occur in different orders."""
    slopes = _slopes(group)
    if slopes is None:
        return None
    found: dict[tuple[str, ...], None] = {}
    for same in zip(*map(accesses, group), strict=True):
        names = tuple(r.buffer for r in same)
        if len(set(names)) == len(names):
            found[names] = None
        elif len(set(names)) > 1:
            return None
    stacked = [n for names in found for n in names]
    if len(set(stacked)) != len(stacked) or not (found or any(step.terms for s in slopes for step in s)):
        return None
    return list(found)


def _may_be_one(kernel: Kernel, names: Sequence[str]) -> bool:
    """Return whether arrays are temporaries of equal type and shape."""
    return all(kernel.operand(n).role == "temp" for n in names) and _are_equal(kernel, names)


def _are_equal(kernel: Kernel, names: Sequence[str]) -> bool:
    first, *others = (kernel.operand(n) for n in names)
    return first.strides is None and all(
        replace(o, name=first.name, span=None) == replace(first, span=None) for o in others
    )


# --- arrays made one --------------------------------------------------------------------------------------


def stack(kernel: Kernel, names: Sequence[str]) -> tuple[Kernel, str]:
    """Return the kernel with equal arrays merged into one with a leading axis, and that array's name."""
    first = kernel.operand(names[0])
    whole = "_".join(names)
    name = free_name(kernel, whole if len(whole) <= 24 else f"{names[0]}_to_{names[-1]}")
    place = {n: i for i, n in enumerate(names)}

    def change(read: Read) -> Read:
        if read.buffer not in place:
            return read
        return replace(read, buffer=name, index=(Index.of(place[read.buffer]), *read.index))

    stacked = replace(first, name=name, shape=(Index.of(len(names)), *first.shape))
    operands = [stacked if o.name == names[0] else o for o in kernel.operands if o.name not in names[1:]]
    return with_statements(kernel, [map_accesses(s, change) for s in statements(kernel)], operands), name


def _refuse_group(kernel: Kernel, group: Sequence[Statement], fixed: Sequence[tuple[str, ...]]) -> Refusal:
    """Return why similar statements are not merged, and the declarations that would allow it."""
    unequal = next((names for names in fixed if not _are_equal(kernel, names)), None)
    listed = " and ".join(_join_names(names) for names in fixed)
    about = f"{len(group)} statements such as `{line_of(group[0])}` are alike, but"
    if unequal is not None:
        reason = f"{about} {_join_names(unequal)} differ in role, type or shape"
        return Refusal("batching", reason, None, group[1].assign.span)
    edit = f"declare {' and '.join(_spell_declarations(kernel, names) for names in fixed)}"
    edited = kernel
    for names in fixed:
        edited, _ = stack(edited, names)
    reason = f"{about} {listed} are arrays of their own"
    return Refusal("batching", reason, edit, group[1].assign.span, edited)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{n}`" for n in names[:-1]) + f" and `{names[-1]}`"


def _spell_declarations(kernel: Kernel, names: Sequence[str]) -> str:
    stacked, name = stack(kernel, names)
    o = stacked.operand(name)
    extents = ", ".join(map(str, o.shape))
    return f"`{o.role} {name}: {o.dtype}[{extents}]` in place of {_join_names(names)}"


# --- merging ----------------------------------------------------------------------------------------------


def _batch_group(kernel: Kernel, group: list[int], stacks: Sequence[tuple[str, ...]]) -> Rewrite | None:
    original = kernel
    for names in stacks:
        kernel, _ = stack(kernel, names)
    given = statements(kernel)
    members = [given[n] for n in group]
    slopes = _slopes(members)
    if slopes is None or not _keep_order(kernel, members) or _share_roundings(kernel, members):
        return None
    merged = _merge_members(kernel, members, slopes)
    around = _around(given, group, Conflicts.of(kernel))
    if around is None:
        return None
    before, behind = ([given[n] for n in part] for part in around)
    kept = (*given[: group[0]], *before, merged, *behind, *given[group[-1] + 1 :])
    after = with_statements(kernel, kept)
    if not is_accepted(original, after, batched=True):
        return None
    steps = [f"stacking: {_join_names(names)} become one array" for names in stacks]
    return Rewrite(after, (*steps, f"batching: {len(group)} statements become `{line_of(merged)}`"))


def _merge_members(
    kernel: Kernel, members: Sequence[Statement], slopes: list[tuple[Index, ...]]
) -> Statement:
    """Return the first statement with an additional axis, along which its subscripts equal those of the others."""
    first = members[0]
    plain = with_statements(kernel, [first])
    axis = Axis(
        next((a for a in "gbeuvw" if free_name(plain, a) == a), free_name(plain, "g")), Index.of(len(members))
    )
    steps = iter(slopes)

    def change(read: Read) -> Read:
        grown = zip(read.index, next(steps), strict=True)
        return replace(read, index=tuple(i + Index.of(axis.name) * step for i, step in grown))

    return replace(map_accesses(first, change), axes=(axis, *first.axes))


def _keep_order(kernel: Kernel, members: Sequence[Statement]) -> bool:
    """Return whether all ordered sums are written in the same order."""
    a = members[0].assign
    if a.op is None or sums_in_any_order(kernel, kernel.operand(a.target.buffer), a.op):
        return True
    orders = {tuple(_axes_in_order(s).index(x.name) for x in s.axes) for s in members}
    return len(orders) == 1


def _share_roundings(kernel: Kernel, members: Sequence[Statement]) -> bool:
    """Return whether a merged sum would round where the separate ones do not."""
    of = Conflicts.of(kernel)
    wide = is_wide(kernel.operand(members[0].assign.target.buffer))
    return wide and any(targets_meet(a, b, of) for a, b in combinations(members, 2))


def _around(
    given: Sequence[Statement], group: list[int], of: Conflicts
) -> tuple[list[int], list[int]] | None:
    """Return the statements in between, to run before and after the group, or None if one must do both.

    A statement runs after the group if it conflicts with an earlier member, or with a statement that runs
    after it.
    """
    between = [n for n in range(group[0], group[-1]) if n not in group]
    if any(given[n].ordered_loops != given[group[0]].ordered_loops for n in between):
        return None  # in front of an ordered loop, or inside one
    behind = list(group)
    for n in between:
        if any(m < n and not never_meet(given[m], given[n], of) for m in behind):
            behind.append(n)
    before = list(group)
    for n in reversed(between):
        if any(m > n and not never_meet(given[n], given[m], of) for m in before):
            before.append(n)
    if set(before) & set(behind) - set(group):
        return None
    return [n for n in between if n not in behind], [n for n in between if n in behind]
