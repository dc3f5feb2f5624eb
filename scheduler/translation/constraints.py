"""Constraints between decisions. Each is a clause, which holds if one of its facts holds.

    (Is("nest0.ahead.b", (0,)), Is("nest0.stage.b", (1,)))      a buffer filled early is staged per block

A constraint is evaluated for complete decisions, as a clause of the solver's model, and for boxes, in which
decisions may be open. If a person's fixed decisions break it, its sentence explains the conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from isamap.plan.cost import Assignment, Const, Cost, Decision, decisions_in, evaluate
from isamap.plan.cost.intervals import Boxes, bounds_all
from isamap.scheduler.translation.linear_terms import Literals, any_of, nodes_of
from isamap.scheduler.translation.translate import Translator
from isamap.source.records import dataclass

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.translation.linear_terms import Literal

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Is:
    """The fact that a decision has one of these values."""

    decision: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AtMost:
    """The fact that one number is at most another. In a clause with other facts, both depend on one axis."""

    left: Cost
    right: Cost


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a fact."""

    fact: AtMost


Fact = Is | AtMost | Not
Facts = tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class DecisionClause:
    """A clause: at least one of the facts holds. If none does, `sentence` describes the conflict.

    The negation of a precondition stands first.
    """

    facts: Facts
    code: str
    sentence: Callable[[Assignment], str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionConstraints:
    """All constraints on decisions about one option.

    `orders` are symmetry-breaking clauses about loops: a schedule that breaks one equals another one, or is
    invalid. `capacities` are the contents of scratchpads.
    """

    constraints: tuple[DecisionClause, ...]
    orders: tuple[Facts, ...]
    capacities: tuple[AtMost, ...]

    def clauses(self) -> Iterator[Facts]:
        """Yield the clauses of all constraints. One fact of each clause holds."""
        yield from self.orders
        yield from (constraint.facts for constraint in self.constraints)
        yield from ((capacity,) for capacity in self.capacities)


def stays_whole(block: str, extent: int) -> AtMost:
    """Return the fact that an axis of this extent is not divided into blocks."""
    return AtMost(Const(extent), Decision(block))


def names_in(fact: Fact) -> frozenset[str]:
    """Return the decisions that a fact contains."""
    match fact:
        case Is(decision, _):
            return frozenset((decision,))
        case AtMost(left, right):
            nodes = (*nodes_of(left), *nodes_of(right))
            return frozenset(name for node in nodes for name in decisions_in(node))
        case Not(inner):
            return names_in(inner)
        case _:
            assert_never(fact)


# --- of decisions that are made ---------------------------------------------------------------------------


def is_met(facts: Iterable[Fact], made: Assignment) -> bool:
    """Return whether one of these facts holds."""
    return any(_holds(fact, made) for fact in facts)


def _holds(fact: Fact, made: Assignment) -> bool:
    match fact:
        case Is(decision, values):
            return made[decision] in values
        case AtMost(left, right):
            return evaluate(left, made) <= evaluate(right, made)
        case Not(inner):
            return not _holds(inner, made)
        case _:
            assert_never(fact)


# --- in the solver's model --------------------------------------------------------------------------------


def limit(model: cp_model.CpModel, literals: Literals, clauses: Iterable[Facts]) -> None:
    """Constrain one fact of each clause to hold."""
    known: dict[Fact, Literal] = {}
    for facts in clauses:
        match facts:
            case (AtMost(load, Const(most)),):
                model.add(Translator(model, literals, 1, most).translate(load).expr <= int(most))
            case _:
                model.add_bool_or([_literal(model, literals, fact, known) for fact in facts])


def _literal(model: cp_model.CpModel, literals: Literals, fact: Fact, known: dict[Fact, Literal]) -> Literal:
    """Return a literal that holds if a fact does."""
    if fact not in known:
        match fact:
            case Is(decision, values):
                ways = {value: [at] for value, at in literals.single[decision].items()}
                known[fact] = any_of(model, ways, [value for value in values if value in ways])
            case AtMost():
                (axis,) = {literals.axis_of[name] for name in names_in(fact)}
                sides: Mapping[int, list[Literal]] = {True: [], False: []}
                for at, made in literals.joint[axis]:
                    sides[_holds(fact, made)].append(at)
                known[fact] = any_of(model, sides, [True])
            case Not(inner):
                known[fact] = _literal(model, literals, inner, known).negated()
            case _:
                assert_never(fact)
    return known[fact]


# --- in boxes ---------------------------------------------------------------------------------------------


def may_be_met(facts: Iterable[Fact], boxes: Boxes, count: int = 1) -> Mask:
    """Return a mask of the `count` boxes in which one of these facts may hold, given the bounds of decisions."""
    found = np.zeros(count, np.bool_)
    for fact in facts:
        found |= _may_hold(fact, boxes, count)
    return found


def _may_hold(fact: Fact, boxes: Boxes, count: int) -> Mask | np.bool_:
    match fact:
        case Is(decision, values):
            low, high = boxes[decision]
            inside = [np.less_equal(low, value) & np.greater_equal(high, value) for value in values]
            return reduce(np.logical_or, inside)
        case AtMost(left, right):
            return bounds_all(left, boxes, count)[0] <= bounds_all(right, boxes, count)[1]
        case Not(AtMost(left, right)):
            return bounds_all(left, boxes, count)[1] > bounds_all(right, boxes, count)[0]
        case _:
            assert_never(fact)
