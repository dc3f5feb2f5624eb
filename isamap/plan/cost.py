"""Modelled costs: expressions over the named decisions of a Problem.

    times(0.14, CeilDiv(Const(1024), Decision("nest0.unroll.m")))

An expression is evaluated for an assignment of numbers to decisions, and translated as it stands for a
solver. All operations grow with each of their parts (a quotient falls with its divisor), and no value is
below 0: bounds and translations rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import assert_never

from isamap.source import added

Assignment = Mapping[str, int]
Number = int | float


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number."""

    value: Number


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The number that is decided under a name."""

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
    """How often `divisor` fits into `dividend`, rounded up; both are whole numbers."""

    dividend: Cost
    divisor: Cost


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """The branch that belongs to a decision's value."""

    decision: str
    branches: tuple[tuple[int, Cost], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Threshold:
    """`above` where `load` exceeds `limit`, else `below`, which is never more."""

    load: Cost
    limit: int
    below: Cost
    above: Cost


@dataclass(frozen=True, slots=True, eq=False)
class OverBlocks:
    """The sum of `body` over the register blocks of a statement, whole ones and those cut short by the end of
    an axis.

    `axes` are the decisions how many issues an axis is unrolled by, each with the issues along that axis. Of
    7 issues unrolled by 3 there are two whole blocks and one of 1: `body` counts twice where the decision is
    3, and once where it is 1.
    """

    axes: tuple[tuple[str, int], ...]
    body: Cost


Cost = Const | Decision | Add | Mul | Max | CeilDiv | Cases | Threshold | OverBlocks


def evaluate(cost: Cost, assignment: Assignment) -> Number:
    """The value of an expression: whole where all its numbers are.

    Raises: KeyError for a decision that the assignment lacks or that has no branch.
    """
    return _evaluate(cost, assignment, {})


def _evaluate(cost: Cost, assignment: Assignment, known: dict[int, Number]) -> Number:
    """`known` holds the values of shared parts, by identity."""
    if id(cost) in known:
        return known[id(cost)]
    match cost:
        case Const(value):
            return value
        case Decision(name):
            return assignment[name]
        case Add(parts):
            value = added([_evaluate(part, assignment, known) for part in parts])
        case Mul(parts):
            value = prod([_evaluate(part, assignment, known) for part in parts])
        case Max(parts):
            value = max([_evaluate(part, assignment, known) for part in parts])
        case CeilDiv(dividend, divisor):
            value = -(-_evaluate(dividend, assignment, known) // _evaluate(divisor, assignment, known))
        case Cases(decision, branches):
            value = _evaluate(_branch(branches, assignment[decision]), assignment, known)
        case Threshold(load, limit, below, above):
            exceeds = _evaluate(load, assignment, known) > limit
            value = _evaluate(above if exceeds else below, assignment, known)
        case OverBlocks(axes, body):
            value = added([n * _evaluate(body, made, {}) for n, made in block_classes(axes, assignment)])
        case _:
            assert_never(cost)
    known[id(cost)] = value
    return value


def block_classes(
    axes: Sequence[tuple[str, int]], assignment: Assignment
) -> list[tuple[int, dict[str, int]]]:
    """The sizes of register blocks: how many blocks are alike, and the assignment with their own sizes."""
    found = [(1, dict(assignment))]
    for name, issues in axes:
        whole, rest = divmod(issues, assignment[name])
        kinds = [(whole, assignment[name])] * (whole > 0) + [(1, rest)] * (rest > 0)
        found = [(n * count, {**made, name: size}) for n, made in found for count, size in kinds]
    return found


def _branch(branches: tuple[tuple[int, Cost], ...], value: int) -> Cost:
    for key, branch in branches:
        if key == value:
            return branch
    raise KeyError(value)


def parts_of(cost: Cost) -> tuple[Cost, ...]:
    """What an expression is made of."""
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
    """The decisions that an expression names itself, not by its parts."""
    match cost:
        case Decision(name) | Cases(name, _):
            return (name,)
        case OverBlocks(axes, _):
            return tuple(name for name, _ in axes)
        case _:
            return ()


def total(parts: Iterable[Cost]) -> Cost:
    """The sum, without zeros."""
    kept = tuple(part for part in parts if not (isinstance(part, Const) and part.value == 0))
    return kept[0] if len(kept) == 1 else Add(kept) if kept else Const(0)


def times(*parts: Cost | Number) -> Cost:
    """The product, its constants multiplied into one."""
    costs = [part if not isinstance(part, int | float) else Const(part) for part in parts]
    factor = prod(part.value for part in costs if isinstance(part, Const))
    kept = tuple(part for part in costs if not isinstance(part, Const))
    if factor == 0 or not kept:
        return Const(factor)
    if factor != 1:
        kept = (Const(factor), *kept)
    return kept[0] if len(kept) == 1 else Mul(kept)


def largest(parts: Iterable[Cost]) -> Cost:
    """The maximum; 0 of nothing."""
    kept = tuple(parts)
    return kept[0] if len(kept) == 1 else Max(kept) if kept else Const(0)
