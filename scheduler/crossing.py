"""What may cross iterations, as decisions: buffers filled one iteration early, results written back one late.

    nest0.ahead.b = 1       stage b ahead 1;
    nest0.spread.c = 1      stage c; spread write c into k;

Both need two copies of a buffer. They are searched where a unit moves the data by itself; elsewhere, where
the unit that computes copies too, they cost more than they save, and are 0 unless a person fixes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from isamap.plan.decisions import ahead_of, spread_of
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.scheduler.prefetching import can_prefetch, limit_prefetches, prefetch_values

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.terms import Literal
    from isamap.scheduler.translate import Literals

Made = Mapping[str, int]


class Choices(Protocol):
    """What has to be known of a Space here; a Space itself asks what may cross iterations."""

    @property
    def statement(self) -> int: ...
    @property
    def option(self) -> NestOption: ...
    @property
    def fixed(self) -> Made: ...
    @property
    def axes(self) -> tuple[TileAxis, ...]: ...
    @property
    def register_axes(self) -> tuple[TileAxis, ...]: ...
    def axes_of(self, operand: TileOperand) -> list[TileAxis]: ...
    def stage(self, operand: TileOperand) -> str: ...
    def unroll(self, axis: TileAxis) -> str: ...
    def block(self, axis: TileAxis) -> str: ...


def name_of(space: Choices, operand: TileOperand) -> str:
    """The decision about an operand."""
    return (spread_of if operand.is_accumulator else ahead_of)(space.statement, operand.name)


def crossing(space: Choices) -> tuple[TileOperand, ...]:
    """The operands that have such a decision: inputs that may be staged per block, and sums that may be."""
    sums = any(axis.is_reduction for axis in space.option.axes)
    staged = [o for o in space.option.operands if o.staged_ns is not None and not o.packed]
    return tuple([o for o in staged if sums or not o.is_accumulator])


def crossing_values(space: Choices, operand: TileOperand) -> tuple[int, ...]:
    """What may be decided about an operand; nothing where what is fixed cannot be.

    Parts that threads perform have their buffers filled at once.
    """
    able = [0] if space.option.parts else [0, 1]
    wanted = space.fixed.get(name_of(space, operand))
    if wanted is not None:
        return (wanted,) if wanted in able else ()
    return tuple(able) if operand.mover else (0,)


def open_values(space: Choices) -> dict[str, tuple[int, ...]]:
    """What may be decided about crossing and prefetches, by decision."""
    found = {name_of(space, operand): crossing_values(space, operand) for operand in crossing(space)}
    return found | prefetch_values(space)


def is_crossed(space: Choices, operand: TileOperand, made: Made) -> bool:
    """Whether an operand's buffer outlives its iteration, so that there are two of it."""
    return made.get(name_of(space, operand), 0) > 0


def can_cross(space: Choices, made: Made) -> bool:
    """Whether all that crosses iterations is staged per block, with iterations to cross around it."""
    for operand in crossing(space):
        if not is_crossed(space, operand, made):
            continue
        if made[space.stage(operand)] != 1:
            return False
        if operand.is_accumulator and any(_is_cut(space, x, made) for x in space.axes if x.is_reduction):
            return False
        if not any(_turns(space, operand, axis, made) for axis in _around(space, operand)):
            return False
    return can_prefetch(space, made)


def _around(space: Choices, operand: TileOperand) -> list[TileAxis]:
    """The axes whose loops may stand around an operand's buffer."""
    return list(space.register_axes) if operand.is_accumulator else space.axes_of(operand)


def _turns(space: Choices, operand: TileOperand, axis: TileAxis, made: Made) -> bool:
    """Whether a loop over an axis around an operand's buffer has iterations to cross."""
    if operand.is_accumulator:
        return made[space.unroll(axis)] * axis.tile < axis.extent
    return _is_cut(space, axis, made)


def _is_cut(space: Choices, axis: TileAxis, made: Made) -> bool:
    return made[space.block(axis)] < axis.extent


def limit_crossing(model: cp_model.CpModel, space: Choices, literals: Literals) -> None:
    """Constraints: the same, in the solver's model."""
    for operand in crossing(space):
        crossed = literals.single[name_of(space, operand)].get(1)
        if crossed is None:
            continue
        staged = literals.single[space.stage(operand)].get(1)
        model.add_bool_or([crossed.negated(), *([] if staged is None else [staged])])
        turns = [
            at
            for axis in _around(space, operand)
            for at, made in literals.joint[axis.name]
            if _turns(space, operand, axis, made)
        ]
        model.add_bool_or([crossed.negated(), *turns])
        if operand.is_accumulator:
            for at in _cuts(space, literals):
                model.add_bool_or([crossed.negated(), at.negated()])
    limit_prefetches(model, space, literals)


def _cuts(space: Choices, literals: Literals) -> list[Literal]:
    """The literals that cut a sum into blocks."""
    return [
        at
        for axis in space.axes
        for at, made in literals.joint[axis.name]
        if axis.is_reduction and _is_cut(space, axis, made)
    ]


# --- in heuristics ----------------------------------------------------------------------------------------


def first_crossings(space: Choices) -> dict[str, int]:
    """Nothing crosses iterations but what is fixed; what may be asked for early is."""
    early = prefetch_values(space)
    return {
        name: (max if name in early else min)(values, default=0)
        for name, values in open_values(space).items()
    }


def other_crossings(space: Choices, current: Made) -> Iterator[dict[str, int]]:
    """Each decision made the other way."""
    yield from _others(open_values(space), current)


def other_prefetches(space: Choices, current: Made) -> Iterator[dict[str, int]]:
    """The same of what is asked for early alone."""
    yield from _others(prefetch_values(space), current)


def _others(choices: Mapping[str, tuple[int, ...]], current: Made) -> Iterator[dict[str, int]]:
    for name, values in choices.items():
        yield from ({name: value} for value in values if value != current[name])


def has_crossing(space: Choices) -> bool:
    """Whether it is fixed that something crosses iterations."""
    return any(space.fixed.get(name, 0) for name in open_values(space))


def still(space: Choices) -> dict[str, int]:
    """What is left open about crossing, decided: nothing does. Empty where nothing is left open."""
    found = {name_of(space, operand): crossing_values(space, operand) for operand in crossing(space)}
    return {name: 0 for name, values in found.items() if len(values) > 1}
