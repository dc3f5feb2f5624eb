"""Rewrite the initial value of sums, and split sums over several gates.

    C[m, n] = bias[n];                               T[m, n] = 0;
    C[m, n] += A[m, k] * B[k, n];         ↔          T[m, n] += A[m, k] * B[k, n];
                                                     C[m, n] = T[m, n] + bias[n];

The left variant suits instructions that accumulate, the right one instructions that assign a sum. The right
variant rounds floats once more, so `strict` kernels and sums in narrow types stay unchanged.

    for g in 2, j in H, k in H { u[g, j] += h[k] * U[g, k, j]; }   for j in H, k in H { u[0, j] += …; }
    for j in H { r[j] = sigmoid(u[0, j]); }                     →  for j in H { r[j] = sigmoid(u[0, j]); }
    for j in H { v[j] = tanh(r[j] * u[1, j]); }                    for j in H, k in H { u[1, j] += …; }
                                                                   for j in H { v[j] = tanh(r[j] * u[1, j]); }

The second rewrite is the inverse of batching. It lets each gate's epilogue run on the accumulator
(`isamap.transform.companions`); with one sum for all gates, no tile has all inputs of a gate.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Const, Expr, Kernel, Operand, Read
from isamap.ir.printer import print_expr
from isamap.ir.substitute import substitute_expr, substitute_read, substitute_stmt
from isamap.ir.walk import map_reads, reads
from isamap.source.records import replace
from isamap.transform.guards import identity_of
from isamap.transform.rewrite import Rewrite, accesses, free_name, is_accepted, line_of, with_statements
from isamap.transform.shared_elements import (
    Conflicts,
    commute_with,
    is_wide,
    never_meet,
    sums_in_any_order,
    writes_all,
)
from isamap.transform.statements import Statement, statements


def splits(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with one sum computed in a new temporary that starts from the neutral element."""
    given = statements(kernel)
    for n, s in enumerate(given):
        a = s.assign
        target = kernel.operand(a.target.buffer)
        if a.op is None or not s.reduction_axes or a.op in ("max", "min"):
            continue
        if not sums_in_any_order(kernel, target, a.op) or not _is_plain(a.target, s):
            continue
        if any(r.buffer == target.name for r in accesses(s)[1:]) or _starts_from_identity(kernel, given, n):
            continue
        yield from _split_sum(kernel, given, n)


def _split_sum(kernel: Kernel, given: tuple[Statement, ...], n: int) -> Iterator[Rewrite]:
    s = given[n]
    a = s.assign
    assert a.op is not None, "only reductions are split"
    outer = tuple(x for x in s.axes if x not in s.reduction_axes)
    shape, dtype = tuple(x.extent for x in outer), s.accumulator
    if not all(map(Conflicts.of(kernel).positive, shape)):
        return
    operand = Operand(free_name(kernel, f"{a.target.buffer}_sum"), "temp", dtype, shape)
    cell = Read(operand.name, tuple(Index.of(x.name) for x in outer), dtype)
    nothing = identity_of(a.op, dtype)
    parts = (
        replace(s, axes=outer, assign=Assign(cell, None, nothing)),
        replace(s, assign=replace(a, target=cell)),
        replace(s, axes=outer, assign=Assign(a.target, a.op, cell)),
    )
    after = with_statements(kernel, (*given[:n], *parts, *given[n + 1 :]), (*kernel.operands, operand))
    if is_accepted(kernel, after):
        start = f"which starts from {print_expr(nothing)}"
        yield Rewrite(
            after, (f"splitting the initialisation: `{line_of(s)}` goes to `{operand.name}`, {start}",)
        )


def _is_plain(target: Read, s: Statement) -> bool:
    """Return whether each iteration of the target's axes has a separate element."""
    names = [str(i) for i in target.index]
    kept = {x.name for x in s.axes if x not in s.reduction_axes}
    return kept == {n for n in names if n in kept} and all(
        n in kept or not (i.symbols & kept) for n, i in zip(names, target.index, strict=True)
    )


def _starts_from_identity(kernel: Kernel, given: tuple[Statement, ...], n: int) -> bool:
    """Return whether the preceding write initialises the target with the neutral element."""
    a = given[n].assign
    assert a.op is not None, "only reductions start from something"
    name = a.target.buffer
    before = next((s for s in reversed(given[:n]) if s.assign.target.buffer == name), None)
    return (
        before is not None
        and before.assign.op is None
        and before.assign.value
        == identity_of(a.op, kernel.operand(name).accumulate or kernel.operand(name).dtype)
    )


def with_late_starts(kernel: Kernel) -> Kernel | None:
    """Return a kernel whose integer sums start from 0, or None if there are none.

    The only reader of such a sum adds the initial value. Integers wrap around, so the results are the same.

        Y[m, n] = b[n]; Y[m, n] += …; Z[m, n] = f(Y[m, n])  →  Y[m, n] = 0; …; Z[m, n] = f(Y[m, n] + b[n])
    """
    given, of, is_changed = list(statements(kernel)), Conflicts.of(kernel), False
    written = {s.assign.target.buffer for s in given}
    for n, s in enumerate(tuple(given)):
        a, temp = s.assign, kernel.operand(s.assign.target.buffer)
        own = [i for i, t in enumerate(given) if any(r.buffer == temp.name for r in accesses(t))]
        sums, reader = [given[i].assign for i in own[1:-1]], own[-1]
        seen = [r for r in accesses(given[reader])[1:] if r.buffer == temp.name]
        if (
            (temp.role, temp.dtype.is_integer, is_wide(temp)) != ("temp", True, False)
            or (own[0], a.op, s.sequence) != (n, None, ())
            or isinstance(a.value, Const)
            or _buffers(a.value) & written
            or not sums
            or any(one.op != "add" or temp.name in _buffers(one.value) for one in sums)
            or given[reader].assign.target.buffer == temp.name
            or len(seen) != 1
            or not writes_all([s], temp, of)
            or not all(str(i) in {x.name for x in s.axes} or i.value == 0 for i in a.target.index)
        ):
            continue
        there = {str(i): value for i, value in zip(a.target.index, seen[0].index, strict=True)}
        added = Call("add", (seen[0], substitute_expr(a.value, there)), temp.dtype)
        last = given[reader].assign
        value = map_reads(last.value, lambda r, one=seen[0], new=added: new if r == one else r)
        given[n] = replace(s, assign=replace(a, value=identity_of("add", temp.dtype)))
        given[reader] = replace(given[reader], assign=replace(last, value=value))
        is_changed = True
    after = with_statements(kernel, given)
    return after if is_changed and is_accepted(kernel, after) else None


# --- merging ----------------------------------------------------------------------------------------------


def merges(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with an addend of a finished sum used as the sum's initial value instead.

    The sum's temporary must have no other use, and the addend must not change in between.
    """
    given = statements(kernel)
    of = Conflicts.of(kernel)
    for n, s in enumerate(given):
        for part, other in _addends(s.assign):
            temp = kernel.operand(part.buffer)
            at = [i for i, t in enumerate(given) if any(r.buffer == temp.name for r in accesses(t))]
            if temp.role != "temp" or at[-1:] != [n] or len(at) < 3:
                continue
            found = _merge_sums(kernel, of, at, part, other)
            if found is not None:
                yield found


def _addends(a: Assign) -> Iterator[tuple[Read, Expr | None]]:
    """Yield the term that a statement adds to each access, or None for the access' own old value."""
    if a.guard is not None:
        return
    match a:
        case Assign(_, None, Call("add", (left, right))):
            for part, other in ((left, right), (right, left)):
                if isinstance(part, Read) and part.fill is None and part.buffer not in _buffers(other):
                    yield part, other
        case Assign(_, "add", Read(fill=None) as part):
            yield part, None
        case _:
            return


def _buffers(e: Expr) -> set[str]:
    return {r.buffer for r in reads(e)}


def _merge_sums(
    kernel: Kernel, of: Conflicts, at: list[int], part: Read, other: Expr | None
) -> Rewrite | None:
    given = statements(kernel)
    first, sums, last = given[at[0]], [given[i] for i in at[1:-1]], given[at[-1]]
    temp, target = kernel.operand(part.buffer), kernel.operand(last.assign.target.buffer)
    if not _may_start(kernel, of, first, sums, last, part):
        return None
    names = [str(i) for i in part.index]
    if sorted(names) != sorted(x.name for x in last.axes) or temp.dtype != target.dtype:
        return None
    # the last statement, taken to its sum: what it adds is there first
    between = [s for i, s in enumerate(given) if at[0] < i < at[-1] and i not in at]
    if not all(commute_with(s, between, of) for s in (first, *sums, last)):
        return None

    def move(s: Statement) -> Statement:
        there = dict(zip(names, s.assign.target.index, strict=True))
        return replace(s, assign=replace(s.assign, target=substitute_read(last.assign.target, there)))

    start = [] if other is None else [replace(last, assign=replace(last.assign, value=other))]
    rest = [*start, *map(move, sums)]
    kept = [*given[: at[0]], *between, *rest, *given[at[-1] + 1 :]]
    after = with_statements(kernel, kept, [o for o in kernel.operands if o.name != temp.name])
    if not is_accepted(kernel, after):
        return None
    source = "its old value" if other is None else f"`{line_of(start[0])}`"
    return Rewrite(after, (f"merging the initialisation: the sum of `{temp.name}` starts from {source}",))


def _may_start(
    kernel: Kernel, of: Conflicts, first: Statement, sums: list[Statement], last: Statement, part: Read
) -> bool:
    """Return whether a temporary is set to 0, summed up, and added once, all in the same ordered loops."""
    temp, target = kernel.operand(part.buffer), kernel.operand(last.assign.target.buffer)
    a = first.assign
    loops = {s.ordered_loops for s in (first, *sums, last)}
    untouched = not any(r.buffer == target.name for s in sums for r in accesses(s))
    return (
        len(loops) == 1
        and untouched
        and target.name not in {r.buffer for r in accesses(last)[1:]}
        and not is_wide(temp)
        and not is_wide(target)
        and sums_in_any_order(kernel, temp, "add")
        and isinstance(a.value, Const)
        and a.value.value == 0
        and a.op is None
        and writes_all([first], temp, of)
        and all(s.assign.op == "add" for s in sums)
        and all(r.buffer != temp.name for s in sums for r in accesses(s)[1:])
        and len([r for r in accesses(last) if r.buffer == temp.name]) == 1
        and writes_all([replace(last, assign=Assign(part, None, part))], temp, of)
    )


MOST_PARTS = 8
"""Of an axis with more values there are no statements of its own for each."""


def partings(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with one sum split along an axis, for each sum that others read at single values of it."""
    given = statements(kernel)
    for number, s in enumerate(given):
        dimension = _parted_dimension(given, number)
        # What accumulates in a wider type is rounded as a whole: one statement stays one.
        if dimension is None or is_wide(kernel.operand(s.assign.target.buffer)):
            continue
        after = with_statements(kernel, _part_writes(kernel, given, s, dimension))
        if is_accepted(kernel, after):
            count, axis = _axis_at(s, dimension) or (0, "")
            step = f"`{line_of(s)}` becomes {count} statements, one for each `{axis}`"
            yield Rewrite(after, (f"splitting: {step}, in front of its reader",))


def _parted_dimension(given: tuple[Statement, ...], number: int) -> int | None:
    """Return a dimension of a sum's array of which a later statement in the same loops needs one value only."""
    s = given[number]
    if s.assign.op is None or not s.reduction_axes or s.assign.guard is not None:
        return None
    target = s.assign.target
    later = [t for t in given[number + 1 :] if t.ordered_loops == s.ordered_loops]
    needed = [r for t in later for r in accesses(t)[1:] if r.buffer == target.buffer]
    for dimension in range(len(target.index)):
        found = _axis_at(s, dimension)
        if found is not None and any(r.index[dimension].value is not None for r in needed):
            return dimension
    return None


def _axis_at(s: Statement, dimension: int) -> tuple[int, str] | None:
    """Return extent and name of the axis that alone forms a subscript of the target, or None."""
    index = s.assign.target.index
    name = str(index[dimension])
    extent = next((a.extent.value for a in s.axes if a.name == name), None)
    elsewhere = any(name in i.symbols for d, i in enumerate(index) if d != dimension)
    return (extent, name) if extent is not None and 1 < extent <= MOST_PARTS and not elsewhere else None


def _part_writes(
    kernel: Kernel, given: tuple[Statement, ...], s: Statement, dimension: int
) -> tuple[Statement, ...]:
    """Return the statements with writes of the array in the loops of `s` split and moved to the latest place."""
    of, buffer = Conflicts.of(kernel), s.assign.target.buffer
    found: list[Statement] = []
    moved: list[Statement] = []
    for t in given:
        is_alike = t.ordered_loops == s.ordered_loops and t.assign.target.buffer == buffer
        axis = _axis_at(t, dimension) if is_alike else None
        parts = [t] if axis is None else [_of_one(t, axis[1], n) for n in range(axis[0])]
        found += parts
        moved += parts if axis is not None else []
    for part in reversed(moved):
        _move_late(found, part, of)
    return tuple(found)


def _of_one(s: Statement, axis: str, value: int) -> Statement:
    """Return the statement with one value of an axis."""
    assign = substitute_stmt(s.assign, {axis: Index.of(value)})
    assert isinstance(assign, Assign)
    return replace(s, axes=tuple(a for a in s.axes if a.name != axis), assign=assign)


def _move_late(order: list[Statement], s: Statement, of: Conflicts) -> None:
    """Move a statement as late as its dependents allow."""
    at = next(n for n, t in enumerate(order) if t is s)
    to = at
    while to + 1 < len(order) and order[to + 1].ordered_loops == s.ordered_loops:
        if not never_meet(s, order[to + 1], of):
            break
        to += 1
    else:
        return  # no statement here needs it
    order.insert(to, order.pop(at))
