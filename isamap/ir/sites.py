"""Where things happen: every assignment with the loops and guards around it, in the order of the text.

`for m in M { for k in K if k < m { C[m] += A[m, k]; } }` has one site, with axes m and k and the fact
`m - k - 1 >= 0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.ir.facts import guard_facts
from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Loop, Read, Routine, Scalar, Stmt


@dataclass(frozen=True, slots=True)
class AxisAt:
    """An axis around a site; `loop` numbers its loop, so that two axes of one name can be told apart."""

    name: str
    extent: Index
    ordered: bool
    loop: int


@dataclass(frozen=True, slots=True)
class Site:
    """An assignment and what stands around it.

    It runs where all `conditions` hold; `guards` are terms that are >= 0 there.
    """

    assign: Assign
    axes: tuple[AxisAt, ...]
    guards: tuple[Index, ...]
    position: int
    conditions: tuple[Expr, ...] = ()

    @property
    def extents(self) -> dict[str, Index]:
        return {a.name: a.extent for a in self.axes}

    @property
    def reads(self) -> tuple[Read, ...]:
        """The accesses of the value and of the statement's own guard."""
        guard = self.assign.guard
        return (*reads_of(self.assign.value), *(reads_of(guard) if guard is not None else ()))


def find_sites(routine: Routine) -> tuple[Site, ...]:
    """All assignments of a routine, in order."""
    sites: list[Site] = []
    loops = 0

    def visit(statement: Stmt, axes: tuple[AxisAt, ...], conditions: tuple[Expr, ...]) -> None:
        nonlocal loops
        match statement:
            case Assign():
                own = _with_guard(conditions, statement.guard)
                sites.append(Site(statement, axes, facts_of(own), len(sites), own))
            case Loop():
                loops += 1
                inner = tuple(AxisAt(a.name, a.extent, statement.ordered, loops) for a in statement.axes)
                for child in statement.body:
                    visit(child, (*axes, *inner), _with_guard(conditions, statement.guard))

    for statement in routine.body:
        visit(statement, (), ())
    return tuple(sites)


def _with_guard(conditions: tuple[Expr, ...], guard: Expr | None) -> tuple[Expr, ...]:
    return conditions if guard is None else (*conditions, guard)


def facts_of(conditions: tuple[Expr, ...]) -> tuple[Index, ...]:
    """The terms that are >= 0 where all conditions hold."""
    return tuple(fact for condition in conditions for fact in guard_facts(condition))


def reads_of(e: Expr) -> Iterator[Read]:
    """The accesses in an expression, from left to right."""
    match e:
        case Read():
            yield e
        case Cast(value, _, _, _):
            yield from reads_of(value)
        case Call(_, args, _, _, _):
            for arg in args:
                yield from reads_of(arg)
        case Const() | IndexValue() | Scalar():
            return


def loop_guards(routine: Routine) -> Iterator[tuple[Expr, tuple[AxisAt, ...], tuple[Expr, ...]]]:
    """Guards of loops with the axes in scope and the conditions under which it is evaluated."""

    def visit(
        statement: Stmt, axes: tuple[AxisAt, ...], conditions: tuple[Expr, ...]
    ) -> Iterator[tuple[Expr, tuple[AxisAt, ...], tuple[Expr, ...]]]:
        if isinstance(statement, Loop):
            inner = (*axes, *(AxisAt(a.name, a.extent, statement.ordered, 0) for a in statement.axes))
            if statement.guard is not None:
                yield statement.guard, inner, conditions
            for child in statement.body:
                yield from visit(child, inner, _with_guard(conditions, statement.guard))

    for statement in routine.body:
        yield from visit(statement, (), ())
