"""Canonical form: a routine as a sequence of statements, each alone under all of its loops.

    for m in M, n in N { T[m, n] = 0;  for k in K { T[m, n] += A[m, k] * B[k, n]; } }

becomes `T[m, n] = 0` over (m, n) and `T[m, n] += …` over (m, n, k). Splitting a `for` between its statements
is always legal: the verifier has shown that its iterations are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import TypeVar

from isamap.ir.dtypes import BOOL, DType
from isamap.ir.index import Index, index_max
from isamap.ir.index_casts import as_performed
from isamap.ir.nodes import Assign, Axis, Call, Const, Expr, Loop, Read, Routine, Stmt
from isamap.ir.ops import OPS
from isamap.ir.substitute import substitute_stmt
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment under its loops.

    `sequence` are the axes of the ordered loops (`seq`) around it, outermost first; `axes` the unordered
    ones. `accumulator` is the type that the sum runs in. `ordered_loops` numbers the ordered loops around it
    within the routine: statements that share a number run together in each of that loop's iterations.
    """

    axes: tuple[Axis, ...]
    assign: Assign
    accumulator: DType
    sequence: tuple[Axis, ...] = ()
    ordered_loops: tuple[int, ...] = ()

    @property
    def is_reduction(self) -> bool:
        return self.assign.op is not None

    @property
    def reduction_axes(self) -> tuple[Axis, ...]:
        """The axes on which the target does not depend."""
        used = frozenset(s for i in self.assign.target.index for s in i.symbols)
        return tuple(a for a in self.axes if a.name not in used)

    def axis(self, name: str) -> Axis:
        """Return the axis with an existing name."""
        return next(a for a in self.axes if a.name == name)


def statements(routine: Routine) -> tuple[Statement, ...]:
    """Return all statements of a routine in order, with axis names unique within each statement."""
    return tuple(_flatten(routine, routine.body, Statement((), _NOTHING, BOOL), None, count()))


_NOTHING = Assign(Read("", (), BOOL), None, Read("", (), BOOL))


def _flatten(
    routine: Routine, body: tuple[Stmt, ...], around: Statement, guard: Expr | None, numbers: Iterator[int]
) -> Iterator[Statement]:
    """Yield the statements of a body inside the loops of `around`."""
    for stmt in body:
        match stmt:
            case Assign():
                operand = routine.operand(stmt.target.buffer)
                assign = as_performed(replace(stmt, guard=both_hold(guard, stmt.guard)))
                yield replace(around, assign=assign, accumulator=operand.accumulate or operand.dtype)
            case Loop():
                fresh, loop = _without_shadowing(stmt, {a.name for a in around.axes + around.sequence})
                if loop.ordered:
                    loops = (*around.ordered_loops, *(next(numbers) for _ in fresh))
                    inner = replace(around, sequence=(*around.sequence, *fresh), ordered_loops=loops)
                else:
                    inner = replace(around, axes=(*around.axes, *fresh))
                yield from _flatten(routine, loop.body, inner, both_hold(guard, loop.guard), numbers)


T = TypeVar("T")


def in_ordered_loops(
    items: Sequence[tuple[Statement, T]], build: Callable[[Axis, tuple[T, ...]], T], depth: int = 0
) -> tuple[T, ...]:
    """Return items inside the ordered loops that their statements share. `build` creates one loop."""
    found: list[T] = []
    for number, group in groupby(items, lambda i: (i[0].ordered_loops[depth:] or (None,))[0]):
        members = list(group)
        if number is None:
            found += [item for _, item in members]
        else:
            found.append(build(members[0][0].sequence[depth], in_ordered_loops(members, build, depth + 1)))
    return tuple(found)


def _without_shadowing(loop: Loop, taken: set[str]) -> tuple[tuple[Axis, ...], Loop]:
    """Return the loop with axes renamed whose names an outer loop uses."""
    renaming: dict[str, Index | int] = {}
    for axis in loop.axes:
        name = axis.name
        while name in taken:
            name += "_"
        taken.add(name)
        if name != axis.name:
            renaming[axis.name] = Index.of(name)
    renamed_axes = tuple(replace(a, name=str(renaming.get(a.name, a.name))) for a in loop.axes)
    if not renaming:
        return renamed_axes, loop
    body = tuple(substitute_stmt(s, renaming) for s in loop.body)
    return renamed_axes, replace(loop, axes=renamed_axes, body=body)


def both_hold(a: Expr | None, b: Expr | None) -> Expr | None:
    """Return the conjunction of two conditions. None is a condition that always holds."""
    if a is None or b is None:
        return a if b is None else b
    return Call("and", (a, b), BOOL)


def bounding_axes(given: Iterable[Statement]) -> dict[str, Index]:
    """Return the longest extent of each ordered axis on which extents of other axes depend, by name."""
    named = {name for s in given for a in (*s.axes, *s.sequence) for name in a.extent.symbols}
    found: dict[str, Index] = {}
    for axis in (a for s in given for a in s.sequence if a.name in named):
        found[axis.name] = index_max(found.get(axis.name, axis.extent), axis.extent)
    return found


def identity_of(op: str, dtype: DType) -> Const:
    """Return the neutral element of a reduction."""
    match OPS[op].identity:
        case "lowest":
            return Const(float("-inf") if dtype.is_float else dtype.low, dtype)
        case "highest":
            return Const(float("inf") if dtype.is_float else dtype.high, dtype)
        case "all_ones":
            return Const(-1 if dtype.kind == "int" else dtype.high, dtype)
        case number:
            assert isinstance(number, (int, float)), "an operation that reduces has an identity"
            return Const(float(number) if dtype.is_float else int(number), dtype)


def number_without_effect(op: str, at: int, dtype: DType) -> Const | None:
    """Return the number that has no effect as operand `at` of an operation, or None.

    Of float sums it is -0.0: x + 0.0 loses the sign of -0.0.
    """
    match op:
        case "add" if dtype.is_float:
            return Const(-0.0, dtype)
        case "sub" | "shl" | "shr" | "rounding_shift" if at == 1:
            return Const(0.0 if dtype.is_float else 0, dtype)
        case "div" if at == 1:
            return identity_of("mul", dtype)
        case "min" | "max" if dtype.is_float and not dtype.has_infinity:
            return None
        case _ if OPS[op].commutative and OPS[op].identity is not None:
            return identity_of(op, dtype)
        case _:
            return None
