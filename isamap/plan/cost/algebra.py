"""Modelled costs: expressions over the named decisions of a Problem.

    times(0.14, CeilDiv(Const(1024), Decision("nest0.unroll.m")))

Each reading of an expression is a module of its own, with one case analysis that names every node, so that a
new node breaks type checking: a number for one assignment (`number`), an array for many (`arrays`), bounds
for many boxes (`intervals`), equal parts as one object (`sharing`), and a solver's term
(`isamap.scheduler.translation.translate`). All operations grow with each of their parts (a quotient falls
with its divisor), and no value is below 0: bounds and translations rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import assert_never

from isamap.source.records import dataclass

Number = int | float


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A constant."""

    value: Number


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The value of a decision, by name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Add:
    """The sum of its parts."""

    parts: tuple[Cost, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Mul:
    """The product of its parts."""

    parts: tuple[Cost, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Max:
    """The largest of its parts."""

    parts: tuple[Cost, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CeilDiv:
    """`dividend / divisor`, rounded up. Both are integers."""

    dividend: Cost
    divisor: Cost


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """The branch that a decision's value selects."""

    decision: str
    branches: tuple[tuple[int, Cost], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Threshold:
    """`above` if `load` exceeds `limit`, else `below`, which never exceeds `above`."""

    load: Cost
    limit: int
    below: Cost
    above: Cost


@dataclass(frozen=True, slots=True, eq=False)
class OverBlocks:
    """The sum of `body` over the register blocks of a statement: whole blocks, and the shorter ones at axes' ends.

    `axes` are decisions by how many issues an axis is unrolled, each with the issues along that axis. With 7
    issues and a decision of 3, there are two whole blocks and one of 1: `body` counts twice with the decision
    3, and once with 1.
    """

    axes: tuple[tuple[str, int], ...]
    body: Cost


Cost = Const | Decision | Add | Mul | Max | CeilDiv | Cases | Threshold | OverBlocks


def parts_of(cost: Cost) -> tuple[Cost, ...]:
    """Return the direct subexpressions of a cost."""
    match cost:
        case Const() | Decision():
            return ()
        case Add(parts) | Mul(parts) | Max(parts):
            return parts
        case CeilDiv(dividend, divisor):
            return dividend, divisor
        case Cases(_, branches):
            return tuple(part for _, part in branches)
        case Threshold(load, _, below, above):
            return load, below, above
        case OverBlocks(_, body):
            return (body,)
        case _:
            assert_never(cost)


def decisions_in(cost: Cost) -> tuple[str, ...]:
    """Return the decisions that the root of an expression names, without those of its parts."""
    match cost:
        case Decision(name) | Cases(name, _):
            return (name,)
        case OverBlocks(axes, _):
            return tuple(name for name, _ in axes)
        case Const() | Add() | Mul() | Max() | CeilDiv() | Threshold():
            return ()
        case _:
            assert_never(cost)


def is_whole(cost: Cost, known: dict[int, bool]) -> bool:
    """Return whether an expression only has integer values. `known` has the answers for parts, by identity."""
    found = known.get(id(cost))
    if found is None:
        match cost:
            case Const(value):
                found = isinstance(value, int)
            case Threshold(_, _, below, above):
                found = is_whole(below, known) and is_whole(above, known)
            case Decision() | Add() | Mul() | Max() | CeilDiv() | Cases() | OverBlocks():
                found = all(is_whole(part, known) for part in parts_of(cost))
            case _:
                assert_never(cost)
        known[id(cost)] = found
    return found


def total(parts: Iterable[Cost]) -> Cost:
    """Return the sum of the parts without zeros."""
    kept = tuple(part for part in parts if not (isinstance(part, Const) and part.value == 0))
    return kept[0] if len(kept) == 1 else Add(kept) if kept else Const(0)


def times(*parts: Cost | Number) -> Cost:
    """Return the product of the parts with constants folded."""
    costs = [part if not isinstance(part, int | float) else Const(part) for part in parts]
    factor = prod(part.value for part in costs if isinstance(part, Const))
    kept = tuple(part for part in costs if not isinstance(part, Const))
    if factor == 0 or not kept:
        return Const(factor)
    if factor != 1:
        kept = (Const(factor), *kept)
    return kept[0] if len(kept) == 1 else Mul(kept)


def largest(parts: Iterable[Cost]) -> Cost:
    """Return the maximum of the parts, or 0 without parts."""
    kept = tuple(parts)
    return kept[0] if len(kept) == 1 else Max(kept) if kept else Const(0)
