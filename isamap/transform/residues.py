"""Guards by remainders of axes: the statement once for each remainder that they let through, without them.

    for i in P, r in R { y[i] += x[(i - r) / 2] * w[r] if (i - r) % 2 == 0; }

        becomes     for i in (P + 1) / 2, r in (R + 1) / 2 { y[2*i] += x[i - r] * w[2*r]; }
                    for i in P / 2, r in R / 2 { y[2*i + 1] += x[i - r] * w[2*r + 1]; }

Every iteration that the guard lets through is in one of them: each axis is cut as c*axis + remainder. What is
left are strides, which instructions have; a guard inside a sum stands in the way of all that compute the sum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import gcd, lcm, prod

from isamap.ir import (
    BOOL,
    Assign,
    Call,
    Const,
    Expr,
    Index,
    IndexValue,
    Kernel,
    substitute_expr,
    substitute_stmt,
)
from isamap.ir.atoms import Mod
from isamap.transform.shared_elements import Conflicts, is_wide, sums_in_any_order
from isamap.transform.statements import Statement

# Statements in place of one, and remainders that are looked at for them.
MOST_PARTS = 16
MOST_TRIED = 4096

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def by_remainders(statement: Statement, kernel: Kernel) -> tuple[Statement, ...]:
    """The statements in place of one whose guard asks for remainders of its axes; that one where none does.

    They may be performed in any order: iterations over unordered axes are independent of each other, and
    where several add to one element, the order of its sum is free.
    """
    conditions = conjuncts(statement.assign.guard)
    steps: dict[str, int] = {}
    split: list[Expr] = []
    for condition in conditions:
        periods = _periods(condition, statement)
        if periods:
            split.append(condition)
            steps |= {name: lcm(steps.get(name, 1), step) for name, step in periods.items()}
    if not steps or prod(steps.values()) > MOST_TRIED:
        return (statement,)
    chosen = [dict(zip(steps, at, strict=True)) for at in product(*(range(s) for s in steps.values()))]
    chosen = [at for at in chosen if all(_holds(c, _moved(steps, at)) for c in split)]
    if len(chosen) > MOST_PARTS or not _in_any_order(statement, kernel, chosen):
        return (statement,)
    extents = [_extents(statement, steps, at) for at in chosen]
    of = Conflicts.of(kernel)
    if any(e.value is None and not of.positive(e) for made in extents for e in made.values()):
        return (statement,)
    rest = tuple(c for c in conditions if c not in split)
    parts = tuple(
        _part(statement, made, _moved(steps, at), rest)
        for at, made in zip(chosen, extents, strict=True)
        if all(e.value != 0 for e in made.values())
    )
    return parts or (statement,)  # a kernel that performs nothing has a statement, too


def conjuncts(guard: Expr | None) -> tuple[Expr, ...]:
    """The conditions that have to hold together."""
    match guard:
        case None:
            return ()
        case Call("and", args):
            return tuple(c for a in args for c in conjuncts(a))
        case _:
            return (guard,)


def _periods(condition: Expr, statement: Statement) -> dict[str, int]:
    """After how many steps of each axis a condition says the same again, where it depends on nothing else."""
    match condition:
        case Call(op, (left, right)) if op in _COMPARISONS:
            remainders = [m for side in (left, right) for m in _remainders(side)]
        case _:
            return {}
    axes = [a.name for a in statement.axes]  # in their order, which that of the parts follows
    periods: dict[str, int] = {}
    for remainder in remainders:
        divisor = remainder.divisor.value
        if divisor is None:
            return {}
        for name in (n for n in axes if n in remainder.value.symbols):
            coefficient = remainder.value.coefficient(name)
            if coefficient is None or coefficient.value is None:
                return {}
            periods[name] = lcm(periods.get(name, 1), divisor // gcd(divisor, coefficient.value))
    start = _moved(periods, dict.fromkeys(periods, 0))
    return periods if _decided(substitute_expr(condition, start)) is not None else {}


def _remainders(side: Expr) -> Iterator[Mod]:
    if isinstance(side, IndexValue):
        yield from (atom for monomial, _ in side.index.terms for atom in monomial if isinstance(atom, Mod))


def _moved(steps: Mapping[str, int], at: Mapping[str, int]) -> dict[str, Index | int]:
    """What an axis is in the part of a remainder."""
    return {name: step * Index.of(name) + at[name] for name, step in steps.items()}


def _holds(condition: Expr, moved: Mapping[str, Index | int]) -> bool:
    decided = _decided(substitute_expr(condition, moved))
    assert decided is not None, "a condition that is decided for one remainder is so for all"
    return decided


def _decided(condition: Expr) -> bool | None:
    """Whether a comparison holds; None where it is not one of numbers."""
    match condition:
        case Call(op, (Const(int(left)), Const(int(right)))) if op in _COMPARISONS:
            return _COMPARISONS[op](left, right)
        case _:
            return None


def _in_any_order(statement: Statement, kernel: Kernel, chosen: list[dict[str, int]]) -> bool:
    """Whether the parts may add to their elements one after the other: what is rounded once is not in two."""
    if statement.assign.op is None:
        return True
    operand, summed = (
        kernel.operand(statement.assign.target.buffer),
        {a.name for a in statement.reduction_axes},
    )
    elements = [tuple((n, u) for n, u in at.items() if n not in summed) for at in chosen]
    alone = len(set(elements)) == len(elements)
    return alone or (sums_in_any_order(kernel, operand, statement.assign.op) and not is_wide(operand))


def _extents(statement: Statement, steps: Mapping[str, int], at: Mapping[str, int]) -> dict[str, Index]:
    """How often each axis that is cut has a remainder."""
    extents = {n: statement.axis(n).extent - at[n] for n in steps}
    found = {n: e.ceildiv(steps[n]) for n, e in extents.items()}
    return {n: Index.of(0) if (e.value or 0) < 0 else e for n, e in found.items()}


def _part(
    statement: Statement,
    extents: Mapping[str, Index],
    moved: Mapping[str, Index | int],
    rest: tuple[Expr, ...],
) -> Statement:
    guard: Expr | None = None
    for condition in rest:
        guard = condition if guard is None else Call("and", (guard, condition), BOOL)
    assign = substitute_stmt(replace(statement.assign, guard=guard), moved)
    assert isinstance(assign, Assign)
    axes = tuple(replace(a, extent=extents.get(a.name, a.extent)) for a in statement.axes)
    return replace(statement, axes=axes, assign=assign)
