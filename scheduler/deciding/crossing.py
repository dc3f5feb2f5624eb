"""What may cross iterations, as decisions: buffers filled one iteration early, results written back one late.

    nest0.ahead.b = 1       stage b ahead 1;
    nest0.spread.c = 1      stage c; spread write c into k;

Both need two copies of a buffer. They are searched where a unit moves the data by itself; elsewhere, where
the unit that computes copies too, they cost more than they save, and are 0 unless a person fixes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from isamap.plan.cost import Const, Decision, times
from isamap.plan.decisions import ahead_of, parallel_of, spread_of
from isamap.plan.problem import TileOperand
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.deciding.prefetching import prefetch_constraints, prefetch_values
from isamap.scheduler.translation.constraints import AtMost, Constraint, Fact, Is, Not, whole

STAGES = {0: "read in place", 1: "staged per block", 2: "staged as a whole"}


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


def crossing_constraints(space: Choices) -> Iterator[Constraint]:
    """What crosses iterations is staged per block, with iterations around to cross; late sums are whole."""
    for operand in crossing(space):
        yield from _constraints(space, operand)
    yield from prefetch_constraints(space)


def _constraints(space: Choices, operand: TileOperand) -> Iterator[Constraint]:
    name, stage = name_of(space, operand), space.stage(operand)
    still = Is(name, (0,))

    def constraint(facts: Iterable[Fact], why: Callable[[Made], str]) -> Constraint:
        return Constraint((still, *facts), "fix-crossing", lambda made: f"{name} = 1 cannot be: {why(made)}")

    if operand.is_accumulator:
        around = [
            Not(AtMost(Const(axis.extent), times(axis.tile, Decision(space.unroll(axis)))))
            for axis in space.register_axes
        ]
        why = "it takes a loop over its elements around the sum, and a sum that is not cut into blocks"
    else:
        around = [Not(whole(space.block(axis), axis.extent)) for axis in space.axes_of(operand)]
        axes = " or ".join(space.block(axis) for axis in space.axes_of(operand))
        why = f"it takes a loop around its buffer: a smaller {axes}" if axes else "no loop moves it"
    yield constraint(around, lambda _: why)
    for axis in space.axes:
        if axis.is_reduction and operand.is_accumulator:
            yield constraint([whole(space.block(axis), axis.extent)], lambda _: why)
    yield constraint(
        [Is(stage, (1,))],
        lambda made: f"{stage} = {made[stage]} ({STAGES[made[stage]]}) fills no buffer per turn",
    )
    if _is_dealt(space):
        yield constraint([], lambda _: "parts for threads have their buffers filled at once")


def _is_dealt(space: Choices) -> bool:
    """Whether parts for threads are looked at, or are what a person wants."""
    names = (parallel_of(space.statement, axis.name) for axis in space.option.axes)
    return bool(space.option.parts) or any(space.fixed.get(name, 1) > 1 for name in names)


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
