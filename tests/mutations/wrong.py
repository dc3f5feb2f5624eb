"""Wrong functions: each is called with the right one first, and then with what that is called with.

always(True)(right, *args)      says yes to everything
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from isamap.ir import OPS, Const, Index, Read
from isamap.ir.index import ZERO
from isamap.match import AxisGroup
from isamap.match.mappings.exact import Sides
from isamap.match.patterns.unify import Binding

Wrong = Callable[..., Any]


def always(value: object) -> Wrong:
    """Whatever is asked, the same answer."""

    def wrong(right: Any, *args: Any, **named: Any) -> Any:
        return value

    return wrong


# --- conditions of validity -------------------------------------------------------------------------------


def saying(change: Callable[[Sides], Sides]) -> Wrong:
    """Conditions on other subscripts than those of the statement."""

    def wrong(right: Any, *args: Any) -> Any:
        return tuple(replace(c, sides=change(c.sides)) for c in right(*args))

    return wrong


def without(is_dropped: Callable[[Any], bool]) -> Wrong:
    """Return all conditions but some."""

    def wrong(right: Any, *args: Any) -> Any:
        return tuple(c for c in right(*args) if not is_dropped(c))

    return wrong


def steps(change: Callable[[int, int], int]) -> Callable[[Sides], Sides]:
    """Return the kernel's subscripts with the steps of their axes changed; they are counted from 0."""

    def changed(index: Index) -> Index:
        return Index(tuple((m, change(n, c) if m else c) for n, (m, c) in enumerate(index.terms)))

    def stepped(sides: Sides) -> Sides:
        other = sides.other and stepped(sides.other)
        return Sides(sides.given, tuple(changed(i) for i in sides.required), other)

    return stepped


def lanes(change: Callable[[int], int]) -> Wrong:
    """Instruction axes of other lengths."""

    def wrong(right: Any, *args: Any) -> Any:
        space = right(*args)
        return replace(space, lengths=tuple((a, n and change(n)) for a, n in space.lengths))

    return wrong


def at_the_start(right: Any, *args: Any) -> Any:
    """Blocks that begin at the first iteration, and nowhere else."""
    said = right(*args)
    return None if said is None else said.replace(">= 0", "= 0")


def first_only(right: Any, *args: Any) -> Any:
    """Return one order of fusion."""
    return [next(iter(right(*args)))]


# --- trees and heads --------------------------------------------------------------------------------------


def commuting(*names: str) -> Wrong:
    """Return the table of operations, of which only these commute."""

    def wrong(right: Any) -> Any:
        return {n: replace(op, commutative=n in names) for n, op in OPS.items()}

    return wrong


def of_any_type(right: Any, pattern: Any, statement: Any) -> Any:
    return pattern.statement.assign.op == statement.assign.op


def of_any_operation(right: Any, pattern: Any, statement: Any) -> Any:
    expected = statement.accumulator, statement.assign.value.dtype
    return (pattern.target.dtype, pattern.value.dtype) == expected


def binding(change: Callable[[Binding], Binding]) -> Wrong:
    """Operands that stand for something else, or at other subscripts."""

    def wrong(right: Any, *args: Any) -> Any:
        return (tuple(map(change, found)) for found in right(*args))

    return wrong


def without_fill(b: Binding) -> Binding:
    return replace(b, subject=replace(b.subject, fill=None)) if isinstance(b.subject, Read) else b


def transposed(b: Binding) -> Binding:
    return replace(b, pattern=b.pattern[::-1])


def what_comes_first(right: Any, new: Binding, bound: tuple[Binding, ...]) -> Iterator[tuple[Binding, ...]]:
    """Yield an operand that is read twice, but asked only once what it stands for."""
    yield bound if any(b.name == new.name for b in bound) else (*bound, new)


def without_guard(right: Any, pattern: Any, statement: Any, *args: Any) -> Any:
    return right(pattern, replace(statement, assign=replace(statement.assign, guard=None)), *args)


def without_where(right: Any, instruction: Any) -> Any:
    return right(replace(instruction, where=()))


def all_of_them(right: Any, found: Any, count: int) -> Any:
    return found


# --- places -----------------------------------------------------------------------------------------------


def each_a_class(right: Any, *args: Any) -> Any:
    return tuple((a,) for members in right(*args) for a in members)


def all_one_class(right: Any, *args: Any) -> Any:
    return (tuple(a for members in right(*args) for a in members),)


def in_two_places(right: Any, *args: Any) -> Any:
    """Kernel axes that run on one instruction axis run on the others as well."""
    groups = right(*args)
    every = tuple(x for g in groups for x in g.kernel_axes)
    return tuple(AxisGroup(g.instruction_axes, every) for g in groups)


# --- guards, fills and padding ----------------------------------------------------------------------------


def zero(right: Any, op: str, dtype: Any) -> Any:
    return Const(0.0, dtype)


def unguarded(right: Any, *args: Any) -> Any:
    return args[-1].assign.value


def filled_with_zero(right: Any, builder: Any, read: Any, fill: Any, *args: Any) -> Any:
    return right(builder, read, Const(0.0, fill.dtype), *args)


def zeros(right: Any, *args: Any, **named: Any) -> Any:
    """Zero in place of whatever leaves a reduction as it is."""
    found = right(*args, **named)
    return found and {name: replace(fill, value=0.0) for name, fill in found.items()}


def of_nothing(right: Any, buffer: Any, offset: Any, count: Any) -> Any:
    return right(buffer, offset, ZERO)


def of_one_read(right: Any, *args: Any) -> Any:
    """Only what each operand stands for at one subscript."""
    return (found for found in right(*args) if len({b.name for b in found}) == len(found))
