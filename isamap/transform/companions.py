"""Elementwise statements that can be fused with a sum: computed tile by tile on the accumulator.

    for m in M, n in N { C[m, n] = bias[n]; }                               0: initial value of the sum
    for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }            1: the sum
    for m in M, n in N { C[m, n] = max(C[m, n], 0); }                       2: reads finished elements only

Each element of the sum is used by one iteration of each of the others. Therefore the order "all of 0, all of
1, all of 2" may become "0, 1, 2 for one tile, then for the next".
"""

from __future__ import annotations

from collections.abc import Sequence

from isamap.ir import OPS, Call, Expr, Index, Kernel, Read, substitute_expr, substitute_read
from isamap.ir.walk import map_reads, reads
from isamap.source.records import dataclass
from isamap.transform.rewrite import accesses
from isamap.transform.shared_elements import Conflicts, is_wide, may_be_one, never_meet
from isamap.transform.statements import Statement, statements

HELD = "$held"
"""The pseudo-buffer whose only element stands for the finished sum in the values of fused statements."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A statement that can be fused with a sum, written over the sum's axes.

    `needs` are the numbers of companions that must be fused as well. `value` has their values substituted
    for reads of their targets. `starts` is true if the statement assigns the sum's initial value. The other
    companions read the finished sum as HELD.
    """

    number: int
    target: Read
    value: Expr
    needs: tuple[int, ...] = ()
    starts: bool = False


@dataclass(frozen=True, slots=True)
class CompanionValues:
    """The values that remain after a sum and its companions.

    `writes` are targets and values over the sum's axes, in an order in which none reads what an earlier one
    has written. Arrays that are not read later are left out. `first` is the sum's initial value, if a
    companion assigns it.
    """

    writes: tuple[tuple[Read, Expr], ...]
    first: Expr | None


def companions(kernel: Kernel, number: int) -> tuple[Companion, ...]:
    """Return the companions of statement `number` of a canonical kernel, in the order of the text."""
    given, of = statements(kernel), Conflicts.of(kernel)
    s = given[number]
    if not _is_plain_sum(s, of):
        return ()
    start = _start(given, number, of)
    found: list[Companion] = [start] if start is not None else []
    for later in range(number + 1, len(given)):
        if given[later].ordered_loops != s.ordered_loops:
            break
        made = _follower(given, number, later, tuple(found), of)
        if made is not None:
            found.append(made)
    return tuple(found)


def why_apart(kernel: Kernel, number: int, later: int) -> str:
    """Return why the sum `number` does not fuse a later statement that reads it, or "" if it does."""
    given, of = statements(kernel), Conflicts.of(kernel)
    s, c = given[number], given[later]
    own = s.assign.target
    read = next(r for r in accesses(c) if r.buffer == own.buffer)
    reduced = "".join(f"`{axis.name}`" for axis in c.reduction_axes[:1])
    reasons = (
        (any(one.number == later for one in companions(kernel, number)), ""),
        (not _is_plain_sum(s, of), f"`{own.buffer}` has no axis of statement {number} for each subscript"),
        (c.ordered_loops != s.ordered_loops, "an ordered loop is around one of them alone"),
        (reduced, f"it reduces over {reduced}, and needs elements of several tiles"),
        (
            _rename_axes(read, c, own, s, of) is None,
            f"its iterations are not one for each element of `{own.buffer}`",
        ),
        (True, "a statement in between, or this one, accesses the same elements in a different order"),
    )
    return next(reason for holds, reason in reasons if holds)


def fused_result(kernel: Kernel, number: int, chosen: Sequence[int]) -> CompanionValues:
    """Return the result of the sum `number` with the chosen fused statements and all that they need."""
    given, of = statements(kernel), Conflicts.of(kernel)
    target = given[number].assign.target
    taken = [c for c in companions(kernel, number) if c.number in chosen]
    values: dict[str, tuple[Read, Expr]] = {target.buffer: (target, _as_accumulated(target))}
    for c in taken:
        if not c.starts:
            values[c.target.buffer] = (c.target, c.value)
    inside = {number, *chosen}
    lasting = {o.name for o in kernel.operands if o.role != "temp"}
    others = [t for n, t in enumerate(given) if n not in inside]
    carried = _carried_reads(given, number, taken, of)
    lasting |= {w.buffer for w, _ in values.values() if _is_needed(w, given[number], others, carried, of)}
    writes = tuple(pair for buffer, pair in values.items() if buffer in lasting)
    return CompanionValues(writes, next((c.value for c in taken if c.starts), None))


def _is_needed(
    written: Read, s: Statement, others: Sequence[Statement], carried: Sequence[Read], of: Conflicts
) -> bool:
    """Return whether other statements, or later iterations, read elements that a fused statement writes."""
    if any(may_be_one(written, s, r, s, of, in_turn=False) for r in carried):
        return True
    return any(may_be_one(written, s, r, t, of, in_turn=False) for t in others for r in _needed_by(t))


def _carried_reads(
    given: Sequence[Statement], number: int, taken: Sequence[Companion], of: Conflicts
) -> tuple[Read, ...]:
    """Return reads, over the sum's axes, of elements that earlier iterations of ordered loops may have written."""
    s = given[number]
    if not s.sequence:
        return ()
    own = () if _start(given, number, of) is not None else (s.assign.target,)
    passed = (r for c in taken for r in reads(c.value) if r.buffer != HELD)
    return (*own, *accesses(s)[1:], *passed)


def _needed_by(s: Statement) -> tuple[Read, ...]:
    """Return the elements that a statement reads, including the target of a reduction."""
    return accesses(s) if s.assign.op is not None else accesses(s)[1:]


def _as_accumulated(target: Read) -> Read:
    return Read(HELD, (), target.dtype)


# --- conditions -------------------------------------------------------------------------------------------


def _is_plain_sum(s: Statement, of: Conflicts) -> bool:
    """Return whether each element of the target is a sum over iterations of its own."""
    if s.assign.op is None or s.assign.guard is not None or not s.reduction_axes:
        return False
    if any(r.buffer == s.assign.target.buffer for r in accesses(s)[1:]):
        return False
    names = [a.name for a in s.axes if a not in s.reduction_axes]
    subscripts = [i for i in s.assign.target.index if i.symbols & set(names)]
    plain = sorted(str(i - i.constant) for i in subscripts) == sorted(names)
    return plain and all(of.positive(a.extent) for a in s.reduction_axes)


def _rename_axes(read: Read, c: Statement, own: Read, s: Statement, of: Conflicts) -> dict[str, Index] | None:
    """Return the axes of c in terms of those of the sum s, such that two accesses are one element, or None.

    The result is None unless c has exactly one iteration for each element.
    """
    theirs, mine = {a.name: a.extent for a in c.axes}, {a.name: a.extent for a in s.axes}
    names: dict[str, Index] = {}
    for i, j in zip(read.index, own.index, strict=True):
        start = i.constant  # of parts of an array, as `p + 1`
        a, b = str(i - start), str(j - start)
        if a in theirs and b in mine and a not in names and of.same(theirs[a], mine[b]):
            names[a] = j - start
        elif i != j or i.symbols & theirs.keys() or j.symbols & mine.keys():
            return None
    return names if names.keys() == theirs.keys() else None


def _start(given: Sequence[Statement], number: int, of: Conflicts) -> Companion | None:
    """Return the statement that initialises every element of the sum, if it can be fused, or None."""
    s = given[number]
    own = s.assign.target
    before = [n for n in range(number) if any(r.buffer == own.buffer for r in accesses(given[n]))]
    if not before:
        return None
    c = given[before[-1]]
    plain = c.assign.op is None and c.assign.guard is None and c.ordered_loops == s.ordered_loops
    if not plain or any(r.buffer == own.buffer for r in accesses(c)[1:]):
        return None
    between = given[before[-1] + 1 : number]
    if not all(q.ordered_loops == s.ordered_loops and never_meet(c, q, of) for q in between):
        return None
    names = _rename_axes(c.assign.target, c, own, s, of)
    if names is None:
        return None
    return Companion(before[-1], own, substitute_expr(c.assign.value, names), starts=True)


def _follower(
    given: Sequence[Statement], number: int, later: int, taken: tuple[Companion, ...], of: Conflicts
) -> Companion | None:
    """Return a later statement as a companion, given those before it, or None if its order matters."""
    s, c = given[number], given[later]
    value = _value_of(c, of)
    if value is None or c.assign.guard is not None or c.reduction_axes:
        return None
    followers = [t for t in taken if not t.starts]
    known = {s.assign.target.buffer: s.assign.target} | {t.target.buffer: t.target for t in followers}
    seen = [r for r in reads(value) if r.buffer in known]
    names = _rename_axes(seen[0], c, known[seen[0].buffer], s, of) if seen else None
    if names is None or any(may_be_one(c.assign.target, c, r, s, of, in_turn=True) for r in accesses(s)[1:]):
        return None
    target, value = substitute_read(c.assign.target, names), substitute_expr(value, names)
    touched = (target, *reads(value))
    if any(r.buffer in known and r.index != known[r.buffer].index for r in touched):
        return None
    skipped = [given[n] for n in range(number + 1, later) if n not in [t.number for t in taken]]
    if not all(never_meet(c, q, of) for q in skipped):
        return None
    return _compose(Companion(later, target, value), s, taken)


def _value_of(c: Statement, of: Conflicts) -> Expr | None:
    """Return the value of an elementwise statement, such as C + b for `C += b`, or None if it rounds in between."""
    a = c.assign
    if a.op is None:
        return a.value
    wide = is_wide(of.kernel.operand(a.target.buffer))
    return None if wide or OPS[a.op].arity != 2 else Call(a.op, (a.target, a.value), a.target.dtype)


def _compose(c: Companion, s: Statement, taken: tuple[Companion, ...]) -> Companion | None:
    """Return the companion with its prerequisites substituted, or None if arrays are written alternately."""
    values: dict[str, Expr] = {s.assign.target.buffer: _as_accumulated(s.assign.target)}
    needs: set[int] = set()
    mine = {r.buffer for r in reads(c.value)}
    for t in taken:
        its = {r.buffer for r in reads(t.value)}
        if t.starts:
            if c.target.buffer in its:
                return None
            continue
        values[t.target.buffer] = t.value
        if t.target.buffer in mine | {c.target.buffer} or c.target.buffer in its:
            needs |= {t.number, *t.needs}
    value = map_reads(c.value, lambda r: values.get(r.buffer, r))
    written = {t.target.buffer for t in taken if not t.starts}
    if written & {r.buffer for r in reads(value)}:
        return None
    return Companion(c.number, c.target, value, tuple(sorted(needs)))
