"""Distribute loops over statements, fuse loops of several statements, and reorder statements.

    for m in M, n in N { T[m, n] = 0; }
    for m in M, n in N, k in K { T[m, n] += A[m, k] * B[k, n]; }

becomes, fused over m and n,

    for m in M, n in N {
      T[m, n] = 0;
      for k in K { T[m, n] += A[m, k] * B[k, n]; }
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from isamap.ir import Axis, Index, Kernel, Loop, Stmt, substitute_stmt
from isamap.source.records import replace
from isamap.transform.rewrite import Rewrite, accesses, alone, is_accepted, line_of, with_statements
from isamap.transform.shared_elements import Conflicts, never_meet, sums_in_any_order
from isamap.transform.statements import Statement, statements


def fission(kernel: Kernel) -> Rewrite | None:
    """Return the kernel with every statement in its own loop, or None if it already is."""
    after = with_statements(kernel, statements(kernel))
    if after.body == kernel.body or not is_accepted(kernel, after):
        return None
    several = [s for s in kernel.body if isinstance(s, Loop) and _has_several(s)]
    names = [", ".join(a.name for a in s.axes) for s in several]
    steps = tuple(f"fission: the loop over `{n}` becomes one loop for each of its statements" for n in names)
    return Rewrite(after, steps or ("fission: loops around loops become one loop each",))


def _has_several(loop: Loop) -> bool:
    if loop.ordered:
        return any(isinstance(s, Loop) and _has_several(s) for s in loop.body)
    return len(loop.body) > 1 or any(isinstance(s, Loop) and _has_several(s) for s in loop.body)


def reorderings(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with two adjacent independent statements exchanged, for each pair."""
    given, of = statements(kernel), Conflicts.of(kernel)
    for n, (a, b) in enumerate(pairwise(given)):
        if a.ordered_loops != b.ordered_loops or not never_meet(a, b, of):
            continue
        after = with_statements(kernel, (*given[:n], b, a, *given[n + 2 :]))
        if is_accepted(kernel, after):
            yield Rewrite(after, (f"reordering: `{line_of(b)}` before `{line_of(a)}`",))


# --- fusion -----------------------------------------------------------------------------------------------


def fusions(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with two adjacent statements in one loop, for each pair with legal common axes.

    Iterations of the common loop are proved independent by the verifier, which looks at the result; in an
    iteration the statements keep their order.
    """
    given = statements(kernel)
    of = Conflicts.of(kernel)
    for n, (a, b) in enumerate(pairwise(given)):
        if a.ordered_loops != b.ordered_loops or not _may_interleave(a, b, kernel):
            continue
        for common in _common_axes(a, b, of):
            after = _fuse_pair(kernel, given, n, common)
            if is_accepted(kernel, after):
                names = ", ".join(common)
                yield Rewrite(
                    after, (f"fusion: `{line_of(a)}` and `{line_of(b)}` share the loop over `{names}`",)
                )
                break


def _may_interleave(a: Statement, b: Statement, kernel: Kernel) -> bool:
    """Return whether the reductions of two statements into one operand may interleave."""
    target = a.assign.target.buffer
    if target != b.assign.target.buffer or a.assign.op is None:
        return True
    return sums_in_any_order(kernel, kernel.operand(target), a.assign.op)


def _common_axes(a: Statement, b: Statement, of: Conflicts) -> Iterator[dict[str, str]]:
    """Yield axes of a paired with axes of b that may be one loop: by a shared array, by name, by position."""
    tried: list[dict[str, str]] = []
    for found in (_by_array(a, b, of), _by_name(a, b, of), _by_place(a, b, of)):
        for pairs in (found, {x: y for x, y in found.items() if _is_kept(x, a) and _is_kept(y, b)}):
            if pairs and pairs not in tried and (_are_outermost(pairs, a, b) or not _has_order(a, b, of)):
                tried.append(pairs)
                yield pairs


def _has_order(a: Statement, b: Statement, of: Conflicts) -> bool:
    """Return whether one of two statements is a sum that rounds after each step."""
    return any(
        s.assign.op is not None
        and not sums_in_any_order(of.kernel, of.kernel.operand(s.assign.target.buffer), s.assign.op)
        for s in (a, b)
    )


def _by_array(a: Statement, b: Statement, of: Conflicts) -> dict[str, str]:
    found: dict[str, str] = {}
    for theirs in accesses(b):
        for mine in accesses(a):
            if mine.buffer == theirs.buffer and a.assign.target.buffer in (
                mine.buffer,
                b.assign.target.buffer,
            ):
                pairs = zip(mine.index, theirs.index, strict=True)
                for x, y in ((str(i), str(j)) for i, j in pairs):
                    if x not in found and y not in found.values() and _are_alike(x, y, a, b, of):
                        found[x] = y
    return found


def _by_name(a: Statement, b: Statement, of: Conflicts) -> dict[str, str]:
    return {x.name: x.name for x in a.axes if _are_alike(x.name, x.name, a, b, of)}


def _by_place(a: Statement, b: Statement, of: Conflicts) -> dict[str, str]:
    pairs = zip(a.axes, b.axes, strict=False)
    return {x.name: y.name for x, y in pairs if _are_alike(x.name, y.name, a, b, of)}


def _are_alike(x: str, y: str, a: Statement, b: Statement, of: Conflicts) -> bool:
    mine, its = {e.name: e.extent for e in a.axes}, {e.name: e.extent for e in b.axes}
    return x in mine and y in its and of.same(mine[x], its[y])


def _is_kept(axis: str, s: Statement) -> bool:
    return axis in {n for i in s.assign.target.index for n in i.symbols}


def _are_outermost(pairs: dict[str, str], a: Statement, b: Statement) -> bool:
    """Return whether the common axes are the outer ones of both statements, so that no sum changes its order."""
    count = len(pairs)
    return [x.name for x in a.axes[:count]] == [*pairs] and [y.name for y in b.axes[:count]] == [
        *pairs.values()
    ]


def _fuse_pair(kernel: Kernel, given: tuple[Statement, ...], at: int, common: dict[str, str]) -> Kernel:
    """Return the kernel with statements number `at` and `at + 1` in one loop over the common axes."""
    a, b = given[at], _rename_axes(given[at + 1], common, given[at])
    axes = tuple(x for x in a.axes if x.name in common)
    inner = tuple(alone(replace(s, axes=tuple(x for x in s.axes if x.name not in common))) for s in (a, b))
    loop = Loop(axes, inner)
    marked = replace(a, axes=(), assign=a.assign)
    after = with_statements(kernel, (*given[:at], marked, *given[at + 2 :]))
    return replace(after, body=tuple(_replace_marked(s, marked, loop) for s in after.body))


def _replace_marked(stmt: Stmt, mark: Statement, loop: Loop) -> Stmt:
    """Return the statement with the marked statement, compared by identity, replaced by a loop."""
    if stmt is mark.assign:
        return loop
    if isinstance(stmt, Loop):
        return replace(stmt, body=tuple(_replace_marked(s, mark, loop) for s in stmt.body))
    return stmt


def _rename_axes(b: Statement, common: dict[str, str], a: Statement) -> Statement:
    """Return the second statement with the first one's names for common axes. Its other axes get unused names."""
    names = {y: x for x, y in common.items()}
    taken = {*names.values(), *(x.name for x in (*a.axes, *a.sequence))}
    for axis in b.axes:
        if axis.name not in names and axis.name in taken:
            fresh = axis.name
            while fresh in taken or fresh in {y.name for y in b.axes}:
                fresh += "_"
            names[axis.name] = fresh
            taken.add(fresh)
    return rename_axes(b, names)


def rename_axes(s: Statement, names: dict[str, str]) -> Statement:
    """Return the statement with renamed unordered axes."""
    assign = substitute_stmt(s.assign, {old: Index.of(fresh) for old, fresh in names.items() if old != fresh})
    axes = tuple(Axis(names.get(x.name, x.name), x.extent, x.span) for x in s.axes)
    return replace(s, axes=axes, assign=assign)
