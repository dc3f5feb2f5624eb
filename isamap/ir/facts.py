"""Facts for proofs: ranges of sizes, `where` clauses, lets, guards, and the loops around each assignment.

`where K % 32 == 0, M <= N` makes K a multiple of 32 (`32*K'`) and gives the fact `N - M >= 0`.

A site is an assignment with the loops and guards around it. `for m in M { for k in K if k < m { C[m] +=
A[m, k]; } }` has one site, with the axes m and k and the fact `m - k - 1 >= 0`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from isamap.ir import nodes as ir
from isamap.ir.dtypes import BOOL, I64
from isamap.ir.index import Index, Mod
from isamap.ir.prove import Facts
from isamap.ir.walk import reads
from isamap.source import Span, dataclass

R = TypeVar("R", bound=ir.Routine)


@dataclass(frozen=True, slots=True)
class FreeSizes:
    """A routine in terms of free sizes: facts about these, and each original name as an expression of them."""

    facts: Facts
    bindings: Mapping[str, Index | int]


def known_facts(routine: ir.Routine, constants: Iterable[ir.Param] = ()) -> FreeSizes:
    """Return the facts that hold in the whole routine, with expressions for lets and determined sizes."""
    params = [p for p in (*constants, *routine.params) if p.dtype is None]
    lows = {p.name: _low(p) for p in params}
    bindings: dict[str, Index | int] = {}
    for constraint in routine.where:
        _determine(constraint, lows, bindings)
    for let in routine.lets:
        bindings[let.name] = let.value.substitute(bindings)
    facts = [f.substitute(bindings) for p in params for f in _range_facts(p)]
    facts += [f.substitute(bindings) for c in routine.where for f in constraint_facts(c)]
    facts += [e.substitute(bindings) - 1 for o in routine.operands for e in o.shape if e.value is None]
    open_facts = tuple(dict.fromkeys(f for f in facts if f.value is None))
    return FreeSizes(Facts(lows=lows, nonnegative=open_facts), bindings)


def _low(p: ir.Param) -> int:
    if p.low is None:
        return 1
    return p.low.value if p.low.value is not None else 0


def _range_facts(p: ir.Param) -> list[Index]:
    name = Index.of(p.name)
    facts = [name - p.low] if p.low is not None and p.low.value is None else []
    return facts + ([p.high - name] if p.high is not None else [])


def _determine(c: ir.Constraint, lows: dict[str, int], bindings: dict[str, Index | int]) -> None:
    """Use an equality to replace a size: `K % 32 == 0` makes K = 32*K', `A == 2*B` replaces A."""
    if c.comparison != "==":
        return
    for side, other in ((c.left, c.right), (c.right, c.left)):
        match side.terms:
            case (((Mod(value, divisor),), 1),) if other.value == 0 and divisor.value:
                name = _single_symbol(value)
                if name is not None and name not in bindings:
                    multiple = f"{name}'{divisor.value}"
                    lows[multiple] = -(-lows.get(name, 1) // divisor.value)
                    bindings[name] = Index.of(multiple) * divisor.value
                    return
            case (((str() as name,), 1),) if name not in bindings and name not in other.symbols:
                if name in lows and not (other.symbols & bindings.keys()):
                    bindings[name] = other
                    return
            case _:
                pass


def _single_symbol(index: Index) -> str | None:
    match index.terms:
        case (((str() as name,), 1),):
            return name
        case _:
            return None


def constraint_facts(c: ir.Constraint) -> list[Index]:
    """Return the terms that are >= 0 if a comparison holds."""
    return _comparison_facts(c.comparison, c.left, c.right)


def _comparison_facts(comparison: str, left: Index, right: Index) -> list[Index]:
    match comparison:
        case "==" | "eq":
            return [left - right, right - left]
        case "<=" | "le":
            return [right - left]
        case "<" | "lt":
            return [right - left - 1]
        case ">=" | "ge":
            return [left - right]
        case ">" | "gt":
            return [left - right - 1]
        case _:
            return []


def guard_facts(guard: ir.Expr | None) -> list[Index]:
    """Return the terms that are >= 0 if a guard holds: its comparisons of index expressions, joined by `&`."""
    match guard:
        case ir.Call("and", (left, right), _, _, _):
            return guard_facts(left) + guard_facts(right)
        case ir.Call(op, (left, right), _, _, _):
            a, b = _index_of(left), _index_of(right)
            return _comparison_facts(op, a, b) if a is not None and b is not None else []
        case _:
            return []


def inside_conditions(read: ir.Read, shape: tuple[Index, ...]) -> tuple[tuple[ir.Expr, ir.Expr], ...]:
    """Return the conditions that each subscript is at least 0 and below the extent."""
    return tuple(
        (
            ir.Call("ge", (_index_value(index, read.span), ir.Const(0, I64)), BOOL),
            ir.Call("lt", (_index_value(index, read.span), _index_value(extent, read.span)), BOOL),
        )
        for index, extent in zip(read.index, shape, strict=True)
    )


def _index_value(index: Index, span: Span | None) -> ir.Expr:
    return ir.IndexValue(index, I64, span) if index.value is None else ir.Const(index.value, I64, span)


def unequal_gaps(guard: ir.Expr) -> list[Index]:
    """Return the terms that are nonzero if a guard holds: the differences of unequal expressions."""
    match guard:
        case ir.Call("and", (left, right), _, _, _):
            return unequal_gaps(left) + unequal_gaps(right)
        case ir.Call("ne", (left, right), _, _, _):
            a, b = _index_of(left), _index_of(right)
            return [a - b, b - a] if a is not None and b is not None else []
        case _:
            return []


def _index_of(e: ir.Expr) -> Index | None:
    match e:
        case ir.IndexValue(index, _, _):
            return index
        case ir.Const(int() as value, _, _):
            return Index.of(value)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class AxisAt:
    """An axis around a site. `loop` is the number of its loop, which distinguishes axes of equal names."""

    name: str
    extent: Index
    ordered: bool
    loop: int


@dataclass(frozen=True, slots=True)
class Site:
    """An assignment with the loops and guards around it.

    It runs where all `conditions` hold. `guards` are terms that are >= 0 there.
    """

    assign: ir.Assign
    axes: tuple[AxisAt, ...]
    guards: tuple[Index, ...]
    position: int
    conditions: tuple[ir.Expr, ...] = ()

    @property
    def extents(self) -> dict[str, Index]:
        return {a.name: a.extent for a in self.axes}

    @property
    def reads(self) -> tuple[ir.Read, ...]:
        """The accesses of the value and of the statement's own guard."""
        guard = self.assign.guard
        return (*reads(self.assign.value), *(reads(guard) if guard is not None else ()))


def find_sites(routine: ir.Routine) -> tuple[Site, ...]:
    """Return all assignments of a routine, in order."""
    sites: list[Site] = []
    loops = 0

    def visit(statement: ir.Stmt, axes: tuple[AxisAt, ...], conditions: tuple[ir.Expr, ...]) -> None:
        nonlocal loops
        match statement:
            case ir.Assign():
                own = _with_guard(conditions, statement.guard)
                sites.append(Site(statement, axes, facts_of(own), len(sites), own))
            case ir.Loop():
                loops += 1
                inner = tuple(AxisAt(a.name, a.extent, statement.ordered, loops) for a in statement.axes)
                for child in statement.body:
                    visit(child, (*axes, *inner), _with_guard(conditions, statement.guard))

    for statement in routine.body:
        visit(statement, (), ())
    return tuple(sites)


def _with_guard(conditions: tuple[ir.Expr, ...], guard: ir.Expr | None) -> tuple[ir.Expr, ...]:
    return conditions if guard is None else (*conditions, guard)


def facts_of(conditions: tuple[ir.Expr, ...]) -> tuple[Index, ...]:
    """Return the terms that are >= 0 if all conditions hold."""
    return tuple(fact for condition in conditions for fact in guard_facts(condition))


def loop_guards(routine: ir.Routine) -> Iterator[tuple[ir.Expr, tuple[AxisAt, ...], tuple[ir.Expr, ...]]]:
    """Yield each guard of a loop with the axes in scope and the conditions under which it is evaluated."""

    def visit(
        statement: ir.Stmt, axes: tuple[AxisAt, ...], conditions: tuple[ir.Expr, ...]
    ) -> Iterator[tuple[ir.Expr, tuple[AxisAt, ...], tuple[ir.Expr, ...]]]:
        if isinstance(statement, ir.Loop):
            inner = (*axes, *(AxisAt(a.name, a.extent, statement.ordered, 0) for a in statement.axes))
            if statement.guard is not None:
                yield statement.guard, inner, conditions
            for child in statement.body:
                yield from visit(child, inner, _with_guard(conditions, statement.guard))

    for statement in routine.body:
        yield from visit(statement, (), ())
