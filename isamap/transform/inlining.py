"""Inline elementwise temporaries into their readers instead of storing them.

    for n in N { t[n] = 2 * x[n]; }
    for n in N { y[n] = max(t[n], 0); }         →         for n in N { y[n] = max(2 * x[n], 0); }

This saves one of two passes over memory. Recomputation is bounded: an element is read once, or takes a few
cheap operations for each reader. The results are bitwise equal, because the same operations round equally at
any place.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import OPS, Call, Expr, Index, Kernel, Operand, Read, substitute_expr
from isamap.ir.functions import count_nodes
from isamap.ir.walk import map_reads, reads, walk
from isamap.source.records import dataclass, replace
from isamap.transform.rewrite import Refusal, Rewrite, accesses, is_accepted, line_of, with_statements
from isamap.transform.shared_elements import Conflicts, is_wide, may_be_one
from isamap.transform.statements import Statement, statements

MOST_AGAIN = 8
"""Operations that may be performed again for an element, all of them cheap."""

MOST_NODES = 400
"""The most nodes of an inlined expression: instruction chains are searched for each of its parts."""


def inlinings(kernel: Kernel) -> Iterator[Rewrite]:
    """Yield the kernel with one temporary inlined, for each that allows it."""
    for temporary in _temporaries(kernel):
        found = _inline_temporary(kernel, temporary)
        if isinstance(found, Rewrite):
            yield found


def refused_inlinings(kernel: Kernel) -> Iterator[Refusal]:
    """Yield a refusal for each elementwise temporary that stays in memory, with the violated condition."""
    for temporary in _temporaries(kernel):
        found = _inline_temporary(kernel, temporary)
        if isinstance(found, str):
            yield Refusal("inlining", f"`{temporary.operand.name}` stays in memory: {found}")


def inline_temporaries(kernel: Kernel) -> Rewrite:
    """Return the kernel with all possible temporaries inlined into their readers, one by one."""
    found = Rewrite(kernel, ())
    while following := next(inlinings(found.kernel), None):
        found = Rewrite(following.kernel, (*found.steps, *following.steps))
    return found


@dataclass(frozen=True, slots=True)
class _Temporary:
    """A temporary that one elementwise statement fills, and the numbers of the statements that read it."""

    operand: Operand
    filled: int
    read: tuple[int, ...]


def _temporaries(kernel: Kernel) -> Iterator[_Temporary]:
    given = statements(kernel)
    for operand in kernel.operands:
        if operand.role != "temp" or is_wide(operand):
            continue
        at = [n for n, s in enumerate(given) if any(r.buffer == operand.name for r in accesses(s))]
        writes = [n for n in at if given[n].assign.target.buffer == operand.name]
        last = writes[-1] if writes else 0
        is_alone = writes == at[:1] or not any(given[n].ordered_loops for n in at)
        if is_alone and writes and last < at[-1] and _is_elementwise(given[last], is_alone=writes == at[:1]):
            yield _Temporary(operand, last, tuple(n for n in at if n > last))


def _is_elementwise(s: Statement, *, is_alone: bool) -> bool:
    """Return whether an iteration that its subscripts determine assigns each element once.

    A statement that is not the only one to write the temporary may change its own element.
    """
    target = s.assign.target
    names = [str(i) for i in target.index if i.symbols & {a.name for a in s.axes}]
    own = all(
        r.buffer != target.buffer or (not is_alone and r.index == target.index and r.fill is None)
        for r in accesses(s)[1:]
    )
    plain = sorted(names) == sorted(a.name for a in s.axes)
    return s.assign.op is None and s.assign.guard is None and own and plain


def _inline_temporary(kernel: Kernel, temporary: _Temporary) -> Rewrite | str:
    """Return the kernel without a temporary, or the violated condition."""
    given = list(statements(kernel))
    of, filling = Conflicts.of(kernel), given[temporary.filled]
    for n in temporary.read:
        between = given[temporary.filled + 1 : n]
        if (reason := _find_obstacle(filling, given[n], between, of)) is not None:
            return reason
    if (reason := _refuse_recomputing(filling, [given[n] for n in temporary.read])) is not None:
        return reason
    for n in temporary.read:
        given[n] = _put_in(filling, given[n])
        if count_nodes(given[n].assign.value) > MOST_NODES:
            return f"`{line_of(filling)}` would make an expression too long"
    del given[temporary.filled]
    name = temporary.operand.name
    used = any(r.buffer == name for s in given for r in accesses(s))
    after = with_statements(kernel, given, [o for o in kernel.operands if o.name != name or used])
    if not is_accepted(kernel, after):
        return f"an input of `{line_of(filling)}` changes while its values are used"
    step = f"inlining: `{line_of(filling)}` is computed where `{temporary.operand.name}` is read"
    return Rewrite(after, (step,))


def _put_in(filling: Statement, s: Statement) -> Statement:
    """Return a statement with the filling expression in place of the temporary's elements."""
    target = filling.assign.target

    def value_of(read: Read) -> Expr:
        if read.buffer != target.buffer:
            return read
        names = {a.name for a in filling.axes}
        there = {str(i): j for i, j in zip(target.index, read.index, strict=True) if i.symbols & names}
        return substitute_expr(filling.assign.value, there)

    return replace(s, assign=replace(s.assign, value=map_reads(s.assign.value, value_of)))


# --- conditions -------------------------------------------------------------------------------------------


def _find_obstacle(filling: Statement, s: Statement, between: list[Statement], of: Conflicts) -> str | None:
    """Return why a statement cannot compute its input itself, or None."""
    target, needed = filling.assign.target, reads(filling.assign.value)
    found = [r for r in accesses(s)[1:] if r.buffer == target.buffer]
    if s.ordered_loops != filling.ordered_loops or not all(_is_filled(filling, r, of) for r in found):
        return f"`{line_of(s)}` may read a value of another iteration there"
    if s.assign.guard is not None and any(r.buffer == target.buffer for r in reads(s.assign.guard)):
        return f"the condition of `{line_of(s)}` reads it"
    if any(r.fill is not None for r in found):
        return f"`{line_of(s)}` reads beyond it"
    if s.assign.op is not None and any(r.buffer == s.assign.target.buffer for r in needed):
        return f"`{line_of(s)}` changes its own inputs"
    for q in between:
        if any(may_be_one(q.assign.target, q, r, filling, of, in_turn=True) for r in needed):
            return f"`{line_of(q)}` changes its own inputs before `{line_of(s)}` reads it"
    return None


def _is_filled(filling: Statement, read: Read, of: Conflicts) -> bool:
    """Return whether this iteration of the ordered loops has written the element that is read."""
    axes = {a.name: a.extent for a in filling.axes}
    shape = of.kernel.operand(read.buffer).shape
    return all(
        (str(i) in axes and of.same(axes[str(i)], extent)) or (i == j and not i.symbols & axes.keys())
        for i, j, extent in zip(filling.assign.target.index, read.index, shape, strict=True)
    )


def _refuse_recomputing(filling: Statement, readers: list[Statement]) -> str | None:
    """Return why it takes too many operations to compute elements at each read, or None."""
    name, places = filling.assign.target.buffer, 0
    for s in readers:
        found = {r.index for r in accesses(s)[1:] if r.buffer == name}
        places += len(found)
        again = [a.name for a in s.axes if not all(_mentions(index, a.name) for index in found)]
        if again:
            each = ", ".join(f"`{a}`" for a in again)
            return f"`{line_of(s)}` would compute `{line_of(filling)}` again for each {each}"
    operations, slow = _operations(filling.assign.value)
    if places > 1 and (slow or (places - 1) * operations > MOST_AGAIN):
        return f"`{line_of(filling)}` would be computed {places} times for each element"
    return None


def _mentions(index: tuple[Index, ...], name: str) -> bool:
    return any(name in i.symbols for i in index)


def _operations(e: Expr) -> tuple[int, bool]:
    """Return the number of operations in an expression, and whether one of them is slow."""
    found = [OPS[part.op] for part in walk(e) if isinstance(part, Call)]
    return len(found), any(op.is_slow or op.ulp for op in found)
