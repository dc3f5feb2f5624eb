"""The definition of an effect: its inputs, its time, and how that time combines with other effects.

    Effect("pages", "address translation", Counts.ON_TOP, each_input(pages), (TRANSLATION,))

`effects` is the table of all effects. The price, the shares, the lower bounds and the report's words are
read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from isamap.plan.cost import Const, Cost, total
from isamap.plan.problem import NestOption, NestProblem, Problem, TileOperand
from isamap.scheduler.deciding.space import Space, issues_along
from isamap.scheduler.deciding.tiling import Tiling, tile
from isamap.scheduler.effects.copying import concurrent_copies, copying_time
from isamap.scheduler.effects.least import StorageChoice
from isamap.scheduler.effects.levels import Misses, misses
from isamap.scheduler.effects.register_blocks import block_sums
from isamap.scheduler.effects.register_loads import busy, hints, loads
from isamap.scheduler.effects.time_parts import Counts
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class EffectTime:
    """A part of an effect's time: its operand ("" for none), and the memory or the unit that takes it."""

    cost: Cost
    operand: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """A statement under one option, with the costs that several effects use.

    `brought` is the time of operand loads. `concurrent` is the time of copies by other units in parallel with the
    sum. `blocks` is the time of the register blocks alone, `missed` the cache misses, and `copying_time` the busy
    time of units that copy by themselves, by operand.
    """

    problem: Problem
    nest: NestProblem
    tiling: Tiling
    brought: tuple[EffectTime, ...]
    concurrent: tuple[Cost, ...]
    blocks: Cost
    missed: tuple[Misses, ...]
    moved: tuple[tuple[str, Sequence[Cost]], ...]

    @classmethod
    def of(cls, problem: Problem, nest: NestProblem, option: NestOption) -> Context:
        """Return the context that all effects of a statement under one option share."""
        tiling = tile(Space(nest.statement, option, problem.registers_of(option), {}))
        brought = (
            EffectTime(cost, operand.name)
            for operand in _inputs(option)
            for cost in (loads(tiling, operand), hints(tiling, operand, problem))
        )
        return cls(
            problem,
            nest,
            tiling,
            tuple(brought),
            tuple(concurrent_copies(tiling, operand, problem) for operand in _inputs(option)),
            block_sums(tiling.space, problem.loops),
            misses(tiling, problem),
            tuple(copying_time(tiling).items()),
        )

    @property
    def option(self) -> NestOption:
        return self.tiling.space.option

    @property
    def computing(self) -> Cost:
        """The time of all issues, and of the loads that the issuing unit performs between them."""
        issues = prod(issues_along(axis) for axis in self.option.axes) * self.option.interval_ns
        return total([Const(issues), *(busy(self.tiling, operand) for operand in _inputs(self.option))])

    @property
    def loaded(self) -> Cost:
        """The time to load all inputs."""
        return total(part.cost for part in self.brought)


def _inputs(option: NestOption) -> tuple[TileOperand, ...]:
    return tuple(operand for operand in option.operands if not operand.is_accumulator)


@dataclass(frozen=True, slots=True)
class EffectParameter:
    """A machine parameter that an effect needs: its name in descriptions, and a test whether it is stated."""

    words: str
    is_stated: Callable[[Problem], bool]


Parts = Callable[[Context], Iterable[EffectTime]]


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect: its short name, a description for users, and how its time combines with other effects.

    In name and words, `{by}` is the memory or unit of a part; in words, `{units}` and `{instruction}` are
    those that perform the statement. The effect is omitted if the machine does not state a required
    parameter. `least` is its lower bound for all schedules of an option that load operands in some way.
    """

    name: str
    words: str
    counts: Counts
    parts: Parts
    needs: tuple[EffectParameter, ...] = ()
    least: Callable[[StorageChoice], float] | None = None

    def is_known(self, problem: Problem) -> bool:
        """Return whether the machine states all parameters that the effect needs."""
        return all(figure.is_stated(problem) for figure in self.needs)


# --- of which operands ------------------------------------------------------------------------------------


def whole(cost: Callable[[Context], Cost]) -> Parts:
    """Return a function that gives one time for the whole statement."""
    return lambda context: [EffectTime(cost(context))]


OfOperand = Callable[[Tiling, TileOperand, Problem], Cost]


def each_operand(cost: OfOperand) -> Parts:
    """Return a function that gives a time for each operand."""
    return lambda context: _each(context, cost, context.option.operands)


def each_input(cost: OfOperand) -> Parts:
    """Return a function that gives a time for each operand that is only read."""
    return lambda context: _each(context, cost, _inputs(context.option))


def each_result(cost: OfOperand) -> Parts:
    """Return a function that gives a time for each accumulator."""
    return lambda context: _each(context, cost, [o for o in context.option.operands if o.is_accumulator])


def _each(context: Context, cost: OfOperand, operands: Iterable[TileOperand]) -> list[EffectTime]:
    return [EffectTime(cost(context.tiling, operand, context.problem), operand.name) for operand in operands]
