"""Instructions that write parts of a register from different operands: interleaves, joins, two-lane shuffles.

    for l in 4, j in 8, p in 2 { z[16*l + 2*j + p] = select(p == 0, a[16*l + j], b[16*l + j]); }

has two pieces, z[16*l + 2*j] = a[16*l + j] and z[16*l + 2*j + 1] = b[16*l + j]. The requested contents of z
determine, piece by piece, the contents of a and b in the lanes that are read. Their other lanes may hold
anything.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import lru_cache
from itertools import product

from isamap.ir import Assign, Axis, Call, Cast, Const, Expr, Index, IndexValue, Instruction, Read
from isamap.ir.index import ZERO
from isamap.ir.substitute import substitute_stmt
from isamap.ir.walk import symbols_of_values
from isamap.match.patterns.pattern import Pattern
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, statements

MAX_CASES = 8
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

Lanes = frozenset[int]


@dataclass(frozen=True, slots=True)
class LaneBox:
    """The lanes of a register that a piece writes: `offset + sum of step * digit`, digits counting from 0.

    `digits` are (axis, step, count), the smallest step first. `full` says that no axis is cut short.
    """

    offset: int
    digits: tuple[tuple[str, int, int], ...]
    full: bool

    @property
    def limits(self) -> dict[str, int]:
        return {a: n for a, _, n in self.digits}

    @property
    def lanes(self) -> Lanes:
        return _lanes(self.offset, self.digits)


@lru_cache(maxsize=4096)
def pieces_of(instruction: Instruction) -> tuple[Pattern, ...]:
    """Return the pieces in which an instruction writes its only output, each from its own operand, or ()."""
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    reads_one = len(instruction.operands) < 3
    if reads_one or len(outputs) != 1 or outputs[0].role != "out" or len(outputs[0].shape) != 1:
        return ()
    found: list[Pattern] = []
    for statement in statements(instruction):
        if statement.assign.guard is not None or statement.sequence or statement.assign.op is not None:
            return ()
        cases = _cases(statement)
        if cases is None:
            return ()
        found += [Pattern(instruction, c) for c in cases]
    sources = [p.value.buffer for p in found if isinstance(p.value, Read)]
    if len(found) < 2 or len(sources) != len(found) or len(set(sources)) != len(sources):
        return ()
    return tuple(found)


def _cases(statement: Statement) -> list[Statement] | None:
    """Return the statement for every value of the axes in its conditions, or None if these contain more."""
    asked = _asked_axes(statement.assign.value)
    axes = [a for a in statement.axes if a.name in asked]
    if asked - {a.name for a in axes}:
        return None
    extents = [a.extent.value or MAX_CASES + 1 for a in axes]
    if any(e > MAX_CASES for e in extents):
        return None
    rest = tuple(a for a in statement.axes if a not in axes)
    found: list[Statement] = []
    for values in product(*(range(e) for e in extents)):
        fixed = substitute_stmt(
            statement.assign, {a.name: Index.of(v) for a, v in zip(axes, values, strict=True)}
        )
        assert isinstance(fixed, Assign)
        found.append(replace(statement, axes=rest, assign=replace(fixed, value=_choose_branch(fixed.value))))
    return found


def _asked_axes(value: Expr) -> frozenset[str]:
    """Return the axes in the conditions of a value."""
    match value:
        case Call("select", (condition, yes, no)):
            return symbols_of_values(condition) | _asked_axes(yes) | _asked_axes(no)
        case _:
            return frozenset()


def _choose_branch(value: Expr) -> Expr:
    """Return the branch that conditions without symbols select, or the value itself."""
    match value:
        case Call("select", (Call(op, (left, right)), yes, no)) if op in COMPARE:
            a, b = _number(left), _number(right)
            if a is None or b is None:
                return value
            return _choose_branch(yes if COMPARE[op](a, b) else no)
        case _:
            return value


def _number(value: Expr) -> int | None:
    match value:
        case IndexValue(index):
            return index.value
        case Const(number):
            return int(number)
        case Cast(inner):
            return _number(inner)
        case _:
            return None


# --- lanes ------------------------------------------------------------------------------------------------


def box_of(
    subscript: Index, axes: tuple[Axis, ...], lengths: Mapping[str, int], used: Lanes
) -> LaneBox | None:
    """Return the used lanes that a subscript covers as a box, or None if they are empty or no box."""
    return _box_of(subscript, axes, (*lengths.items(),), used)


@lru_cache(maxsize=16384)
def _box_of(
    subscript: Index, axes: tuple[Axis, ...], extents: tuple[tuple[str, int], ...], used: Lanes
) -> LaneBox | None:
    lengths = dict(extents)
    steps: list[tuple[str, int, int]] = []
    for axis in axes:
        step = subscript.coefficient(axis.name)
        if step is None or (step.terms and not step.value) or axis.name not in lengths:
            return None
        if step.value and lengths[axis.name] > 1:
            steps.append((axis.name, step.value, lengths[axis.name]))
    if subscript.substitute({a.name: 0 for a in axes}).value is None or any(s < 0 for _, s, _ in steps):
        return None
    steps.sort(key=lambda s: s[1])
    return _cut_box(subscript.constant, tuple(steps), used)


@lru_cache(maxsize=16384)
def _cut_box(offset: int, steps: tuple[tuple[str, int, int], ...], used: Lanes) -> LaneBox | None:
    points = [
        digits
        for digits in product(*(range(n) for _, _, n in steps))
        if offset + sum(d * s for d, (_, s, _) in zip(digits, steps, strict=True)) in used
    ]
    if not points:
        return None
    counts = [max(p[i] for p in points) + 1 for i in range(len(steps))]
    size = 1
    for count in counts:
        size *= count
    if size != len(points):
        return None
    cut = tuple((a, s, c) for (a, s, _), c in zip(steps, counts, strict=True))
    return LaneBox(offset, cut, cut == steps)


@lru_cache(maxsize=16384)
def _lanes(offset: int, digits: tuple[tuple[str, int, int], ...]) -> Lanes:
    places = product(*(range(n) for _, _, n in digits))
    return frozenset(
        offset + sum(d * s for d, (_, s, _) in zip(place, digits, strict=True)) for place in places
    )


def axes_at(box: LaneBox, lane: str) -> dict[str, Index] | None:
    """Return each axis of a box as an expression of the lane, or None if two places share a lane."""
    found: dict[str, Index] = {}
    cut = [(a, s, n) for a, s, n in box.digits if n > 1]
    for position, (axis, step, count) in enumerate(cut):
        quotient = (Index.of(lane) - box.offset).floordiv(step)
        if position + 1 < len(cut):
            above = cut[position + 1][1]
            if above % step or above // step < count:
                return None
            quotient = quotient.mod(above // step)
        found[axis] = quotient
    return found | {a: ZERO for a, _, n in box.digits if n == 1}
