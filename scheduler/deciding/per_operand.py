"""The table of decisions about single operands. Staging decisions are elsewhere.

    nest0.ahead.b = 1       stage b ahead 1;
    nest0.spread.c = 1      stage c; spread write c into k;
    nest0.prefetch.a = 2    prefetch a ahead 1 into l2;
    nest0.rows.b = 1        stage b by rows;

A kind of decision gives its values, their constraints, and their place in a schedule. Spaces, the solver's
literals and constraints, heuristics, nests, prices of given schedules, `--fix`, rankings and conflicts read
the table. A new kind is a module that defines it, a line here, and its name in `isamap.plan.decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from isamap.plan.problem import TileOperand
from isamap.plan.schedule import NestSchedule
from isamap.scheduler.deciding import copy_orders, fetching, software_pipelining
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.translation.constraints import DecisionClause
from isamap.source.records import dataclass

Values = dict[str, tuple[int, ...]]


def _any_stage(_: Choices, __: TileOperand) -> tuple[int, ...] | None:
    return None


@dataclass(frozen=True, slots=True)
class PerOperand:
    """A kind of decision about operands.

    `values` are the possible values (none if a fixed one is impossible). The other fields are its
    constraints, its effect on a nest, and the way to read it from a nest. `staged` are the ways to stage an
    operand that fixed decisions allow, None for all of them. Searches start with the `first` of the values;
    short searches try other values only if they are `tried`.
    """

    values: Callable[[Choices], Values]
    constraints: Callable[[Choices], Iterator[DecisionClause]]
    made: Callable[[NestSchedule, Choices, Made], NestSchedule]
    read: Callable[[Choices, NestSchedule], Mapping[str, int]]
    staged: Callable[[Choices, TileOperand], tuple[int, ...] | None] = _any_stage
    first: Callable[[Sequence[int]], int] = min
    tried: bool = True


KINDS: tuple[PerOperand, ...] = (
    # It rarely pays: left to the solver and to long searches.
    PerOperand(
        software_pipelining.crossings,
        software_pipelining.crossing_constraints,
        software_pipelining.across_iterations,
        software_pipelining.crossings_of,
        staged=software_pipelining.allow_stagings,
        tried=False,
    ),
    PerOperand(
        fetching.prefetch_values,
        fetching.prefetch_constraints,
        fetching.with_prefetches,
        fetching.prefetches_of,
        first=max,
    ),
    PerOperand(
        copy_orders.order_values,
        copy_orders.order_constraints,
        copy_orders.with_orders,
        copy_orders.orders_of,
        staged=copy_orders.staged_by_rows,
    ),
)


def open_values(space: Choices) -> Values:
    """Return the decisions, with their values."""
    return {name: values for kind in KINDS for name, values in kind.values(space).items()}


def constraints_of(space: Choices) -> Iterator[DecisionClause]:
    """Yield the constraints on the decisions per operand."""
    for kind in KINDS:
        yield from kind.constraints(space)


def staged_by(space: Choices, operand: TileOperand, values: Iterable[int]) -> list[int]:
    """Return the stagings of an operand with which the fixed decisions about it are possible."""
    found = list(values)
    for kind in KINDS:
        left = kind.staged(space, operand)
        found = [value for value in found if left is None or value in left]
    return found


def with_decided(nest: NestSchedule, space: Choices, made: Made) -> NestSchedule:
    """Return the nest with these decisions applied."""
    for kind in KINDS:
        nest = kind.made(nest, space, made)
    return nest


def decided_in(space: Choices, nest: NestSchedule) -> dict[str, int]:
    """Return the decisions that a nest shows."""
    return {name: value for kind in KINDS for name, value in kind.read(space, nest).items()}


# --- in heuristics ----------------------------------------------------------------------------------------


def first_values(space: Choices) -> dict[str, int]:
    """Return the initial values of a search: the fixed ones, and the first value of each open decision."""
    return {
        name: kind.first(values) if values else 0
        for kind in KINDS
        for name, values in kind.values(space).items()
    }


def least_values(space: Choices) -> dict[str, int]:
    """Return the fixed values, and for each open decision the value that constrains no other decision."""
    return {name: min(values, default=0) for name, values in open_values(space).items()}


def other_values(space: Choices, current: Made, *, tried: bool = False) -> Iterator[dict[str, int]]:
    """Yield the assignments with one decision changed. Short searches omit some decisions."""
    for kind in KINDS:
        if kind.tried or not tried:
            for name, values in kind.values(space).items():
                yield from ({name: value} for value in values if value != current[name])


def is_any_fixed(space: Choices) -> bool:
    """Return whether one of these decisions is fixed to a value other than 0."""
    return any(space.fixed.get(name, 0) for name in open_values(space))
