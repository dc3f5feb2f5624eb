"""Literals of a CP-SAT model for decisions, and sums over register blocks in terms of them.

A sum over register blocks, the cut ones included, is not a product that a solver would have to relax: per way to
decide what else it depends on, it is one number for each register block, of which exactly one is picked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING

from isamap.plan.cost import Assignment, Cases, Cost, Decision, OverBlocks, decisions_in, evaluate, parts_of
from isamap.scheduler.translation.linear_terms import (
    LinearTerm,
    equal,
    picked_sum,
    select_by_literal,
    switch_term,
)
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.translation.linear_terms import Literal

Values = Sequence[tuple["Literal", int]]
"""Ways to decide one thing that a cost tells apart: a literal that holds for it, and one of its values."""


@dataclass(frozen=True, slots=True)
class Literals:
    """The decisions of an option as literals.

    `joint` lists, per axis, what may be decided about it at once: exactly one literal holds, and makes these
    decisions. `axis_of` names the axis of each such decision. `single` has the literals of every other
    decision, per value. `blocks` are the register blocks: exactly one holds, and says how axes are unrolled
    that are not summed over.
    """

    joint: Mapping[str, Sequence[tuple[Literal, Assignment]]]
    axis_of: Mapping[str, str]
    single: Mapping[str, Mapping[int, Literal]]
    blocks: Sequence[tuple[Literal, Assignment]]


def by_value(model: cp_model.CpModel, literals: Literals, name: str) -> Mapping[int, Literal]:
    """Return a literal for each value of a decision."""
    if name in literals.single:
        return literals.single[name]
    ways = _ways(literals, name)
    return {value: any_of(model, ways, [value]) for value in ways}


def over_blocks(
    model: cp_model.CpModel, literals: Literals, cost: OverBlocks, factor: float | None
) -> LinearTerm:
    """Return `factor` times a sum over register blocks, rounded down. Without a factor, the sum is a whole number."""
    own = set(literals.blocks[0][1])
    names = sorted({name for node in nodes_of(cost.body) for name in decisions_in(node)} - own)
    open_ones = [(name, _told_apart(model, literals, cost.body, name)) for name in names]
    return _branch_term(model, literals, (cost, factor), open_ones, {})


def _branch_term(
    model: cp_model.CpModel,
    literals: Literals,
    rounded: tuple[OverBlocks, float | None],
    open_ones: Sequence[tuple[str, Values]],
    made: Assignment,
) -> LinearTerm:
    """Return the term for some values of the decisions other than register blocks."""
    cost, factor = rounded
    if not open_ones:
        numbers = [(at, evaluate(cost, {**block, **made})) for at, block in literals.blocks]
        if factor is None:
            return select_by_literal(model, [(at, int(number)) for at, number in numbers])
        return picked_sum([(at, floor(factor * number)) for at, number in numbers])
    (name, values), *rest = open_ones
    branches = [
        (at, _branch_term(model, literals, rounded, rest, {**made, name: value})) for at, value in values
    ]
    return equal(model, branches) if factor is None else switch_term(model, branches)


def _told_apart(model: cp_model.CpModel, literals: Literals, body: Cost, name: str) -> Values:
    """Return the values of a decision in groups, in which every part of the body has equal values."""
    ways = _ways(literals, name)
    branches = [
        dict(node.branches) for node in nodes_of(body) if isinstance(node, Cases) and node.decision == name
    ]
    plain = any(isinstance(node, Decision) and node.name == name for node in nodes_of(body))
    groups: dict[tuple[int, ...], list[int]] = {}
    for value in ways:
        alike = (value,) if plain else tuple(id(own[value]) for own in branches)
        groups.setdefault(alike, []).append(value)
    return [(any_of(model, ways, values), values[0]) for values in groups.values()]


def _ways(literals: Literals, name: str) -> dict[int, list[Literal]]:
    """Return, for each value of a decision, literals of which exactly one is true if it has that value."""
    if name in literals.single:
        return {value: [literal] for value, literal in literals.single[name].items()}
    found: dict[int, list[Literal]] = {}
    for literal, made in literals.joint[literals.axis_of[name]]:
        found.setdefault(made[name], []).append(literal)
    return found


def any_of(model: cp_model.CpModel, ways: Mapping[int, Sequence[Literal]], values: Sequence[int]) -> Literal:
    """Return a literal that holds when a decision has one of these values."""
    inside = [literal for value in values for literal in ways[value]]
    outside = [literal for value, own in ways.items() if value not in values for literal in own]
    if len(inside) == 1:
        return inside[0]
    if len(outside) == 1:
        return outside[0].negated()
    literal = model.new_bool_var("")
    model.add(literal == sum(inside))
    return literal


def nodes_of(cost: Cost) -> Iterator[Cost]:
    """Yield an expression and all of its parts."""
    yield cost
    for part in parts_of(cost):
        yield from nodes_of(part)
