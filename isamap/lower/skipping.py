"""Register blocks that a guard leaves nothing to do: when one is performed at all.

    B[i, r] += select(i > k, -L[i, k] * B[k, r], 0)      for i by 15 { … hold … }

A block whose last i is not beyond k would only add zeros: half of all blocks here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from isamap.ir import Call, Const, Expr, Index, IndexValue
from isamap.ir.index import ZERO
from isamap.lower.nest_scope import Nest, Nodes
from isamap.lower.place import Place
from isamap.lower.program import Condition, If
from isamap.lower.steps import Copies, Step, Turns
from isamap.transform import identity_of

End = Literal["least", "most"]


def skipped(nest: Nest, inner: tuple[Step, ...], place: Place, nodes: Nodes) -> Nodes:
    """A register block, where some iteration of it may pass the statement's guard.

    `inner` are the steps in it. What it takes along beside its sum, or copies for other iterations, has to be
    done anyhow; so has what an ordered loop carries from one of its iterations to the next.
    """
    whole = nest.finish.first is None and nest.finish.partial == nest.finish.whole and nest.tile.held is None
    shared = any(isinstance(s, Copies) or (isinstance(s, Turns) and s.carried) for s in inner)
    if not whole or shared or nest.schedule.carried:
        return nodes
    axes = frozenset(axis.name for axis in nest.tile.statement.axes)
    conditions = tuple(c for c in _conditions(_guard(nest), axes, place) if not _is_certain(c))
    return (If(conditions, nodes),) if conditions else nodes


def _guard(nest: Nest) -> Expr | None:
    """What holds in each iteration that changes a sum."""
    assign = nest.tile.statement.assign
    match assign.op, assign.value:
        case str() as op, Call("select", (guard, _, Const() as nothing)):
            return guard if nothing.value == identity_of(op, nothing.dtype).value else None
        case _:
            return None


def _conditions(guard: Expr | None, axes: frozenset[str], place: Place) -> Iterator[Condition]:
    """What holds of a block if the guard, over axes of the statement, holds somewhere in it."""
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
    """The least or the most that an index is in a block.

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
    """Whether a condition holds whatever the counters and sizes are, none of which is negative."""
    left, sign, right = condition
    gap = right - left - (1 if sign == "<" else 0)
    return all(count >= 0 and all(isinstance(a, str) for a in atoms) for atoms, count in gap.terms)
