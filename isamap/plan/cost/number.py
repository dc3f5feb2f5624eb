"""Evaluate a cost for one assignment. The result is an integer if all numbers in the cost are integers.

evaluate(times(0.5, Decision("nest0.unroll.m")), {"nest0.unroll.m": 3})  ->  1.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import assert_never

from isamap.plan.cost import algebra
from isamap.source import add_up

Assignment = Mapping[str, int]


def evaluate(cost: algebra.Cost, assignment: Assignment) -> algebra.Number:
    """Return the value of an expression, an integer if all its numbers are integers.

    Raises: KeyError for a decision that the assignment lacks or that has no branch.
    """
    return _evaluate(cost, assignment, {})


def _evaluate(cost: algebra.Cost, assignment: Assignment, known: dict[int, algebra.Number]) -> algebra.Number:
    """Return the value of a cost. `known` holds the values of shared parts, by identity."""
    if id(cost) in known:
        return known[id(cost)]
    match cost:
        case algebra.Const(value):
            return value
        case algebra.Decision(name):
            return assignment[name]
        case algebra.Add(parts):
            value = add_up([_evaluate(part, assignment, known) for part in parts])
        case algebra.Mul(parts):
            value = prod([_evaluate(part, assignment, known) for part in parts])
        case algebra.Max(parts):
            value = max([_evaluate(part, assignment, known) for part in parts])
        case algebra.CeilDiv(dividend, divisor):
            value = -(-_evaluate(dividend, assignment, known) // _evaluate(divisor, assignment, known))
        case algebra.Cases(decision, branches):
            value = _evaluate(_branch(branches, assignment[decision]), assignment, known)
        case algebra.Threshold(load, limit, below, above):
            exceeds = _evaluate(load, assignment, known) > limit
            value = _evaluate(above if exceeds else below, assignment, known)
        case algebra.OverBlocks(axes, body):
            value = add_up([n * _evaluate(body, made, {}) for n, made in block_classes(axes, assignment)])
        case _:
            assert_never(cost)
    known[id(cost)] = value
    return value


def block_classes(
    axes: Sequence[tuple[str, int]], assignment: Assignment
) -> list[tuple[int, dict[str, int]]]:
    """Return the classes of register blocks: the number of equal blocks, and the assignment with their sizes."""
    found = [(1, dict(assignment))]
    for name, issues in axes:
        whole, rest = divmod(issues, assignment[name])
        kinds = [(whole, assignment[name])] * (whole > 0) + [(1, rest)] * (rest > 0)
        found = [(n * count, {**made, name: size}) for n, made in found for count, size in kinds]
    return found


def _branch(branches: tuple[tuple[int, algebra.Cost], ...], value: int) -> algebra.Cost:
    for key, branch in branches:
        if key == value:
            return branch
    raise KeyError(value)
