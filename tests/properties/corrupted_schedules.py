"""Schedules changed in one place at random: a loop, a stage, a number, a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.schedule import (
    CountedLoop,
    DeferredWriteBack,
    LoopStep,
    NestSchedule,
    ParallelLoop,
    Schedule,
    Stage,
    UnrolledLoop,
)

Change = Callable[[NestSchedule, NestProblem, Random], NestSchedule]


def corrupted(schedule: Schedule, problem: Problem, random: Random) -> tuple[str, Schedule]:
    """Return what was changed, in one word, and the changed schedule, which may still be right."""
    if random.random() < 0.05:
        return "header", _header(schedule, random)
    nests = list(schedule.nests)
    number = random.randrange(len(nests))
    question = next(nest for nest in problem.nests if nest.statement == nests[number].statement)
    change = random.choice(CHANGES)
    nests[number] = change(nests[number], question, random)
    return change.__name__, replace(schedule, nests=tuple(nests))


def _header(schedule: Schedule, random: Random) -> Schedule:
    sizes = tuple((name, value + 1 if isinstance(value, int) else value) for name, value in schedule.sizes)
    return random.choice(
        [
            replace(schedule, kernel="another"),
            replace(schedule, machine="another"),
            replace(schedule, sizes=sizes),
            replace(schedule, nests=schedule.nests[1:]),
            replace(schedule, nests=(*schedule.nests, schedule.nests[0])),
        ]
    )


def _at(nest: NestSchedule, random: Random) -> int:
    return random.randrange(len(nest.loops)) if nest.loops else -1


def _with_loop(nest: NestSchedule, number: int, loop: LoopStep) -> NestSchedule:
    return replace(nest, loops=(*nest.loops[:number], loop, *nest.loops[number + 1 :]))


def step(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Another step of a loop."""
    del question
    number = _at(nest, random)
    if number < 0:
        return nest
    old = nest.loops[number].step
    new = random.choice([old + 1, old - 1, 2 * old, 3 * old, old // 2, 1, 0, -old])
    return _with_loop(nest, number, replace(nest.loops[number], step=new))


def axis(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a loop over another axis."""
    number = _at(nest, random)
    names = [a.name for option in question.options for a in option.axes]
    return _with_loop(nest, number, replace(nest.loops[number], axis=random.choice(names))) if names else nest


def kind(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a loop unrolled, not unrolled, or dealt to threads."""
    del question
    number = _at(nest, random)
    if number < 0:
        return nest
    old = nest.loops[number]
    new = random.choice(
        (CountedLoop(old.axis, old.step, old.rest), ParallelLoop(old.axis, old.step, old.rest))
    )
    return _with_loop(nest, number, random.choice((new, new, UnrolledLoop(old.axis, old.step))))


def rest(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Other pieces of a rest."""
    del question
    number = _at(nest, random)
    if number < 0 or nest.loops[number].is_unrolled:
        return nest
    loop = nest.loops[number]
    tile = min(other.step for other in nest.loops if other.axis == loop.axis)
    pieces = [loop.step - tile, loop.step // 2, 8 * tile, 4 * tile, 3 * tile, 2 * tile, tile]
    new = sorted({p for p in pieces if 0 < p < loop.step and random.random() < 0.7}, reverse=True)
    return _with_loop(nest, number, replace(loop, rest=tuple(new)))


def exchanged(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return two loops exchanged."""
    del question
    one, other = _at(nest, random), _at(nest, random)
    if one < 0:
        return nest
    return _with_loop(_with_loop(nest, one, nest.loops[other]), other, nest.loops[one])


def taken_out(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a loop less."""
    del question
    number = _at(nest, random)
    return replace(nest, loops=nest.loops[:number] + nest.loops[number + 1 :]) if number >= 0 else nest


def put_in(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a loop more, beside one over the same axis."""
    del question
    number = _at(nest, random)
    if number < 0:
        return nest
    old = nest.loops[number]
    step = old.step * random.choice((1, 2, 3))
    new = random.choice((replace(old, step=step), CountedLoop(old.axis, step, old.rest)))
    return replace(nest, loops=(*nest.loops[:number], new, *nest.loops[number:]))


def hold(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Accumulators held elsewhere."""
    del question
    return replace(nest, hold=nest.hold + random.choice((-2, -1, 1, 2)))


def stage(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a stage more, less, elsewhere, ahead, or of another operand."""
    names = [o.name for option in question.options for o in option.operands]
    stages = list(nest.stages)
    what = random.randrange(5) if stages else 0
    number = random.randrange(len(stages)) if stages else -1
    match what:
        case 0:
            stages.append(Stage(random.choice(names), random.randint(0, len(nest.loops))))
        case 1:
            del stages[number]
        case 2:
            depth = stages[number].depth + random.choice((-1, 1))
            stages[number] = replace(stages[number], depth=depth)
        case 3:
            into = random.choice(("", *(loop.axis for loop in nest.loops)))
            stages[number] = replace(stages[number], ahead=random.choice((0, 1, 2)), into=into)
        case _:
            stages[number] = replace(stages[number], operand=random.choice(names))
    return replace(nest, stages=tuple(stages))


def spread(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a write-back spread, or no longer."""
    if nest.spread and random.random() < 0.5:
        return replace(nest, spread=())
    names = [o.name for option in question.options for o in option.operands]
    axes = [loop.axis for loop in nest.loops]
    if not axes:
        return nest
    return replace(nest, spread=(*nest.spread, DeferredWriteBack(random.choice(names), random.choice(axes))))


def fused(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Return a statement taken along, or no longer."""
    del question
    return replace(nest, fused=nest.fused[1:] if nest.fused else (nest.statement + random.choice((0, 1)),))


def mapping(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Another mapping, its loops as they were."""
    option = random.choice(question.options)
    return replace(nest, mapping=option.mapping, choose=option.choose)


def choose(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    """Another value of a parameter."""
    del question
    if not nest.choose:
        return replace(nest, choose=(("R", 1),))
    return replace(nest, choose=tuple((n, max(1, v + random.choice((-1, 1)))) for n, v in nest.choose))


CHANGES: tuple[Change, ...] = (
    step,
    step,
    axis,
    kind,
    rest,
    exchanged,
    taken_out,
    put_in,
    hold,
    stage,
    stage,
    spread,
    fused,
    mapping,
    choose,
)
