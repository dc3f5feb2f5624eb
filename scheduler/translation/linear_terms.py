"""Linear terms of a CP-SAT model with bounds, and their arithmetic.

Terms made by `at_least` and `switch_term` may exceed their values: they are only for costs, which are minimised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING, Any

from isamap.plan.cost import Assignment, Cases, Cost, Decision, OverBlocks, decisions_in, evaluate, parts_of
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Linear = cp_model.LinearExpr | int
    Literal = cp_model.BoolVarT

# The solver computes with 64 bits, in sums of many terms and in products of two.
MAX_TERM = 1 << 53
# OR-Tools 9.15 calls `y >= c*x`, enforced by each of three literals of which one holds, infeasible when c is
# 2**30 or more (tests/unit/test_scheduler_solver.py shows it): no enforced constraint has such a coefficient.
ENFORCED_BITS = 28


class TooLarge(Exception):
    """An error: a term is too large for the solver."""


@dataclass(frozen=True, slots=True)
class LinearTerm:
    """A linear expression of a model. `low` and `high` enclose its value."""

    expr: Linear
    low: int
    high: int


Branches = Sequence[tuple["Literal", LinearTerm]]


def constant(value: int) -> LinearTerm:
    """Return a constant term."""
    _check(value)
    return LinearTerm(value, value, value)


def add_terms(terms: Sequence[LinearTerm]) -> LinearTerm:
    """Return the sum of the terms."""
    low, high = sum(term.low for term in terms), sum(term.high for term in terms)
    _check(high)
    return LinearTerm(sum(term.expr for term in terms), low, high)


def weight_term(factor: int, term: LinearTerm) -> LinearTerm:
    """Return a multiple of a term."""
    _check(factor * term.high)
    return LinearTerm(factor * term.expr, factor * term.low, factor * term.high)


def select_by_literal(model: cp_model.CpModel, values: Sequence[tuple[Literal, int]]) -> LinearTerm:
    """Return the value of the only true literal."""
    from ortools.sat.python import cp_model

    found = sorted({value for _, value in values})
    _check(found[-1])
    if len(found) == 1:
        return constant(found[0])
    variable = model.new_int_var_from_domain(cp_model.Domain.from_values(found), "")
    model.add(variable == sum(value * literal for literal, value in values))
    return LinearTerm(variable, found[0], found[-1])


def picked_sum(values: Sequence[tuple[Literal, int]]) -> LinearTerm:
    """Return the value of the only true literal as a sum, for values that are used once and not multiplied."""
    low, high = min(value for _, value in values), max(value for _, value in values)
    _check(high)
    if low == high:
        return constant(low)
    return LinearTerm(sum(value * literal for literal, value in values), low, high)


def variable(model: cp_model.CpModel, term: LinearTerm) -> LinearTerm:
    """Return the same term as a variable, which products require."""
    if term.low == term.high:
        return term
    found = model.new_int_var(term.low, term.high, "")
    model.add(found == term.expr)
    return LinearTerm(found, term.low, term.high)


def multiply_terms(
    model: cp_model.CpModel, left: LinearTerm, right: LinearTerm, limit: int | None
) -> LinearTerm:
    """Return the product. Values above `limit` are excluded."""
    if left.low == left.high:
        return weight_term(left.low, right)
    if right.low == right.high:
        return weight_term(right.low, left)
    low, high = left.low * right.low, left.high * right.high
    if limit is not None:
        high = max(low, min(high, limit))
    _check(high)
    variable = model.new_int_var(low, high, "")
    model.add_multiplication_equality(variable, [left.expr, right.expr])
    return LinearTerm(variable, low, high)


def count_term(model: cp_model.CpModel, factor: int, term: LinearTerm) -> LinearTerm:
    """Return a multiple of a term. It is a variable if the factor is too large for enforced constraints."""
    found = weight_term(factor, term)
    if factor < 1 << ENFORCED_BITS or found.low == found.high:
        return found
    variable = model.new_int_var(found.low, found.high, "")
    model.add(variable == found.expr)
    return LinearTerm(variable, found.low, found.high)


def quotient(model: cp_model.CpModel, dividend: LinearTerm, divisor: LinearTerm) -> LinearTerm:
    """Return the quotient, rounded up."""
    low, high = -(-dividend.low // divisor.high), -(-dividend.high // divisor.low)
    variable = model.new_int_var(low, high, "")
    above: Any = dividend.expr
    below: Any = divisor.expr
    model.add_division_equality(variable, above + below - 1, below)
    return LinearTerm(variable, low, high)


def at_least(model: cp_model.CpModel, terms: Sequence[LinearTerm]) -> LinearTerm:
    """Return a term that is at least each of the given terms."""
    low, high = max(term.low for term in terms), max(term.high for term in terms)
    if low == high:
        return constant(low)
    variable = model.new_int_var(low, high, "")
    for term in terms:
        if term.high > low:
            model.add(variable >= term.expr)
    return LinearTerm(variable, low, high)


def switch_term(model: cp_model.CpModel, branches: Branches) -> LinearTerm:
    """Return a term that is at least that of the true literal, rounded down to ENFORCED_BITS bits."""
    if len(branches) == 1:
        return branches[0][1]
    low, high = min(term.low for _, term in branches), max(term.high for _, term in branches)
    if low == high:
        return constant(low)
    shift = max(0, high.bit_length() - ENFORCED_BITS)
    variable = model.new_int_var(low >> shift, high >> shift, "")
    for literal, term in branches:
        if term.high > low:
            imply(model, literal, variable >= _shift_term(model, term, shift))
    return LinearTerm((1 << shift) * variable, low >> shift << shift, high)


def _shift_term(model: cp_model.CpModel, term: LinearTerm, shift: int) -> Linear:
    """Return a term that is at least the given one divided by 2**shift, rounded down."""
    if term.low == term.high:
        return term.low >> shift
    if not shift:
        return term.expr
    variable = model.new_int_var(term.low >> shift, term.high >> shift, "")
    model.add((1 << shift) * variable + ((1 << shift) - 1) >= term.expr)
    return variable


def equal(model: cp_model.CpModel, branches: Branches) -> LinearTerm:
    """Return the term of the true literal, for terms without large coefficients."""
    if len(branches) == 1:
        return branches[0][1]
    low, high = min(term.low for _, term in branches), max(term.high for _, term in branches)
    if low == high:
        return constant(low)
    variable = model.new_int_var(low, high, "")
    for literal, term in branches:
        imply(model, literal, variable == term.expr)
    return LinearTerm(variable, low, high)


def imply(model: cp_model.CpModel, literal: Literal, condition: object) -> None:
    """Constrain the condition to hold if the literal does."""
    stated: Any = condition  # the operators of linear expressions are typed as bool, and more
    constraint: Any = model.add(stated)
    constraint.only_enforce_if(literal)


def _check(value: int) -> None:
    if abs(value) >= MAX_TERM:
        raise TooLarge


# --- literals -------------------------------------------------------------------------------------------

# Literals of a CP-SAT model for decisions, and sums over register blocks in terms of them.
#
# A sum over register blocks, the cut ones included, is not a product that a solver would have to relax: per way to
# decide what else it depends on, it is one number for each register block, of which exactly one is picked.


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
