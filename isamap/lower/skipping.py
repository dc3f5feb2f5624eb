"""Skip register blocks in which a guard excludes every iteration.

    B[i, r] += select(i > k, -L[i, k] * B[k, r], 0)      for i by 15 { … hold … }

A block whose last i is not beyond k would only add zeros: half of all blocks here. So it is where the guard
stands behind the sum, and what is summed elsewhere is never looked at:

    T[i, j] += A[i, k] * A[j, k]                         C[i, j] = select(j <= i, T[i, j], C[i, j])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from isamap.ir import Assign, Call, Const, Expr, Index, IndexValue, Kernel, Read, substitute_expr
from isamap.ir.index import ZERO
from isamap.lower.nest_scope import Nest, Nodes, Scope
from isamap.lower.place import Place
from isamap.lower.program import Condition, If
from isamap.lower.steps import Copies, LoopNode, Step
from isamap.transform import Statement, identity_of, reads, statements, symbols

End = Literal["least", "most"]


def skipped(nest: Nest, inner: tuple[Step, ...], scope: Scope, nodes: Nodes) -> Nodes:
    """Return a register block, where some iteration of it may pass the statement's guard.

    `inner` are the steps in it. What is fused with its sum, or copied for other iterations, has to be done
    anyhow; so has what an ordered loop carries from one of its iterations to the next.
    """
    place = scope.place
    shared = any(work.work and work.innermost >= nest.schedule.hold for work in scope.dealt)
    shared |= any(isinstance(s, Copies) or (isinstance(s, LoopNode) and s.carried) for s in inner)
    if nest.tile.held is not None or shared or nest.schedule.carried:
        return nodes
    found: list[Condition] = []
    axes = frozenset(axis.name for axis in nest.tile.statement.axes)
    if nest.finish.first is None and nest.finish.partial == nest.finish.whole:
        found += _conditions(_adding(nest.tile.statement.assign), axes, place)
    if {w.target.buffer for w in nest.finish.whole} == {nest.tile.statement.assign.target.buffer}:
        found += _conditions(nest.seen, axes, place)
    conditions = tuple(c for c in found if not _is_certain(c))
    return (If(conditions, nodes),) if conditions else nodes


def _adding(assign: Assign) -> Expr | None:
    """Return the conditions that hold in each iteration that changes a sum."""
    match assign.op, assign.value:
        case str() as op, Call("select", (guard, _, Const() as nothing)):
            return guard if nothing.value == identity_of(op, nothing.dtype).value else None
        case _:
            return None


def seen_where(kernel: Kernel, statement: Statement) -> Expr | None:
    """Return the condition, over a statement's axes, under which elements of its target are ever read.

    None where it is not known.
    """
    target = statement.assign.target
    looking = [s for s in statements(kernel) if any(r.buffer == target.buffer for r in reads(s.assign.value))]
    if kernel.operand(target.buffer).role != "temp" or len(looking) != 1:
        return None
    match looking[0].assign.value:
        case Call("select", (guard, Read(_, index), other)) if not any(
            r.buffer == target.buffer for e in (guard, other) for r in reads(e)
        ):
            names = {str(theirs): own for theirs, own in zip(index, target.index, strict=True)}
            axes = {a.name for a in (*looking[0].axes, *looking[0].sequence)}
            other_array = looking[0].assign.target.buffer != target.buffer
            plain = len(names) == len(index) and names.keys() <= axes and other_array
            return substitute_expr(guard, names) if plain and symbols(guard) & axes <= names.keys() else None
        case _:
            return None


def _conditions(guard: Expr | None, axes: frozenset[str], place: Place) -> Iterator[Condition]:
    """Yield conditions on a block that hold if the guard, over axes of the statement, holds somewhere in it."""
    match guard:
        case Call("and", (left, right)):
            yield from _conditions(left, axes, place)
            yield from _conditions(right, axes, place)
        case Call("lt" | "le" | "gt" | "ge" | "eq" as op, (IndexValue(left), IndexValue(right))):
            least, most = (_end(left - right, axes, place, end) for end in ("least", "most"))
            if least is not None and op in ("lt", "le", "eq"):
                yield least, "<" if op == "lt" else "<=", ZERO
            if most is not None and op in ("gt", "ge", "eq"):
                yield ZERO, "<" if op == "gt" else "<=", most
        case _:
            return


def _end(difference: Index, axes: frozenset[str], place: Place, end: End) -> Index | None:
    """Return the least or the most that an index is in a block.

    None where it is no sum of multiples of axes, or one of them is looped over together with others.
    """
    ends: dict[str, Index] = {}
    for axis in difference.symbols & axes:
        slope = difference.coefficient(axis)
        if slope is None or slope.value is None or axis not in place.position:
            return None
        first = place.position[axis]
        ends[axis] = first if (slope.value > 0) == (end == "least") else first + place.left[axis] - 1
    return difference.substitute(ends)


def _is_certain(condition: Condition) -> bool:
    """Return whether a condition holds whatever the counters and sizes are, none of which is negative."""
    left, sign, right = condition
    gap = right - left - (1 if sign == "<" else 0)
    return all(count >= 0 and all(isinstance(a, str) for a in atoms) for atoms, count in gap.terms)
