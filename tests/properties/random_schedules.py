"""Random schedules: any mapping, unrolling, cache blocks, loop orders and staged operands."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from random import Random

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption, NestProblem, Problem, TileAxis
from isamap.plan.schedule import (
    CountedLoop,
    DeferredWriteBack,
    LoopStep,
    NestSchedule,
    Prefetch,
    Schedule,
    Stage,
    UnrolledLoop,
)

TRIES = 12


def random_schedule(problem: Problem, random: Random, wildest: int = TRIES) -> Schedule | None:
    """Return a schedule that passes `check_schedule`; None when none of the tries did.

    `wildest`, up to TRIES, says how much is unrolled, blocked and staged at first.
    """
    for size in range(wildest, 0, -1):  # ever tamer: registers are few
        nests = tuple(
            _nest(nest, problem.hinted, random, size / TRIES) for nest in problem.nests if nest.options
        )
        nests = tuple(_in_scratchpads(nest, problem) for nest in _fused(nests, problem, random))
        schedule = Schedule(problem.kernel, problem.machine, problem.sizes, nests)
        if not check_schedule(schedule, problem):
            return schedule
    return None


def with_directives(schedule: Schedule, problem: Problem, random: Random, tries: int = 14) -> Schedule:
    """Return the schedule with stages, hints, write-backs and fused statements added, each that is accepted."""
    for _ in range(tries):
        nest = random.choice(schedule.nests)
        question = next(one for one in problem.nests if one.statement == nest.statement)
        option = next(o for o in question.options if (o.mapping, o.choose) == (nest.mapping, nest.choose))
        changed = _in_scratchpads(_with_directive(nest, option, problem.hinted, random), problem)
        others = tuple(one for one in schedule.nests if one != nest and one.statement not in changed.fused)
        made = sorted((*others, changed), key=lambda one: one.statement)
        candidate = replace(schedule, nests=tuple(made))
        if not check_schedule(candidate, problem):
            schedule = candidate
    return schedule


def _with_directive(
    nest: NestSchedule, option: NestOption, hinted: tuple[str, ...], random: Random
) -> NestSchedule:
    """Return the nest with one line more, about any operand at any depth."""
    operand = random.choice(option.operands).name
    depth, axis = random.randint(0, nest.hold + 1), random.choice(nest.loops).axis
    match random.choice(("hint", "hint", "stage", "spread", "fuse")):
        case "hint" if hinted:
            hint = Prefetch(operand, depth, random.choice((1, 2)), random.choice(hinted))
            return replace(nest, prefetches=(*nest.prefetches, hint))
        case "stage":
            into, ahead = random.choice(("", axis)), random.choice((0, 0, 1, 2))
            stage = Stage(operand, depth, ahead, into=into if ahead else "", by_rows=random.random() < 0.3)
            kept = (one for one in nest.stages if one.operand != operand)
            return replace(nest, stages=tuple(sorted((*kept, stage), key=lambda one: one.depth)))
        case "spread":
            return replace(nest, spread=(*nest.spread, DeferredWriteBack(operand, axis)))
        case "fuse" if option.fusions:
            number = random.choice(option.fusions).statement
            return replace(nest, fused=tuple(sorted({*nest.fused, number})))
        case _:
            return nest


def _nest(nest: NestProblem, hinted: tuple[str, ...], random: Random, wildness: float) -> NestSchedule:
    option = _option(nest, random)
    unroll = {
        a.name: random.choice((2, 2, 3, 4)) if random.random() < 0.4 * wildness else 1 for a in option.axes
    }
    blocks = _blocks(option, unroll, random, wildness)
    outputs = [a for a in option.axes if not a.is_reduction]
    sums = [a for a in option.axes if a.is_reduction]
    unrolled = [UnrolledLoop(a.name, a.tile) for a in option.axes if unroll[a.name] > 1]
    for loops in (outputs, sums, unrolled):
        random.shuffle(loops)
    register_blocks = [CountedLoop(a.name, a.tile * unroll[a.name]) for a in outputs]
    hold = len(blocks) + len(register_blocks)
    inner = [CountedLoop(a.name, a.tile * unroll[a.name]) for a in sums]
    stages = _stages(option, blocks, hold, random, wildness)
    loops = (*blocks, *register_blocks, *inner, *unrolled)
    made = NestSchedule(nest.statement, option.mapping, option.choose, loops, stages, hold)
    return _prefetches(_overlapped(made, option, random), option, hinted, random)


def _in_scratchpads(nest: NestSchedule, problem: Problem) -> NestSchedule:
    """Buffers in the scratchpads that they have to lie in, each with as much of one as the others there."""
    question = next(one for one in problem.nests if one.statement == nest.statement)
    option = next(o for o in question.options if (o.mapping, o.choose) == (nest.mapping, nest.choose))
    homes = {operand.name: operand.staging.homes[0] for operand in option.operands}
    room, steps = problem.room(option), dict(problem.address_steps)
    placed: list[Stage] = []
    for stage in nest.stages:
        home = homes[stage.operand]
        together = [other.operand for other in nest.stages if homes[other.operand] == home]
        if not home:
            placed.append(stage)
            continue
        begin = room[home] // len(together) * together.index(stage.operand)
        step = steps.get(home, 1)
        placed.append(replace(stage, memory=home, address=begin // step * step, by_rows=False))
    return replace(nest, stages=tuple(placed))


def _overlapped(nest: NestSchedule, option: NestOption, random: Random) -> NestSchedule:
    """Some of the buffers filled ahead, and some of the write-backs spread, where there is a loop for it."""
    operands = {operand.name: operand for operand in option.operands}
    stages: list[Stage] = []
    spread: list[DeferredWriteBack] = []
    for stage in nest.stages:
        operand = operands[stage.operand]
        around = nest.loops[stage.depth - 1] if stage.depth else None
        inside = [loop.axis for loop in nest.loops[stage.depth :] if loop.counts]
        last = next((n for n, axis in enumerate(inside) if axis in inside[:n]), len(inside))
        if around is None or random.random() < 0.4:
            stages.append(stage)
        elif not operand.is_accumulator:
            into = random.choice(("", "", *inside[:last]))
            stages.append(replace(stage, ahead=random.choice((1, 1, 2, 3)), into=into))
        else:
            stages.append(stage)
            if around.axis in operand.axes and last:
                spread.append(DeferredWriteBack(operand.name, random.choice(inside[:last])))
    return replace(nest, stages=tuple(stages), spread=tuple(spread))


def _fused(nests: tuple[NestSchedule, ...], problem: Problem, random: Random) -> tuple[NestSchedule, ...]:
    """Return the nests, some of which take along what they can; asks for nothing where they cannot."""
    gone: set[int] = set()
    found: list[NestSchedule] = []
    questions = {nest.statement: nest for nest in problem.nests}
    for nest in nests:
        question = questions[nest.statement]
        option = next(o for o in question.options if (o.mapping, o.choose) == (nest.mapping, nest.choose))
        taken: list[int] = []
        for fusion in option.fusions:
            must = not questions[fusion.statement].options  # nothing performs it by itself
            if set(fusion.needs) <= set(taken) and (random.random() < 0.7 or must):
                taken.append(fusion.statement)
        gone.update(taken)
        found.append(replace(nest, fused=tuple(taken)))
    return tuple(nest for nest in found if nest.statement not in gone)


def _prefetches(
    nest: NestSchedule, option: NestOption, hinted: tuple[str, ...], random: Random
) -> NestSchedule:
    """Some operands brought nearer an iteration ahead, where the machine has hints."""
    found = [
        Prefetch(operand.name, depth + 1, random.choice((1, 1, 2)), random.choice(hinted))
        for depth, loop in enumerate(nest.loops[: nest.hold])
        for operand in option.operands
        if hinted
        and loop.axis in operand.axes
        and (
            operand.layout.in_rows or any(s.operand == operand.name and s.depth <= depth for s in nest.stages)
        )
        and "." not in operand.name
        and random.random() < 0.1
    ]
    return replace(nest, prefetches=tuple(found))


def _option(nest: NestProblem, random: Random) -> NestOption:
    """Half of the time one with the largest tiles, for most instructions are scalar."""
    if random.random() < 0.5:
        largest = max(prod(a.tile for a in o.axes) for o in nest.options)
        return random.choice([o for o in nest.options if prod(a.tile for a in o.axes) == largest])
    return random.choice(nest.options)


def _blocks(option: NestOption, unroll: dict[str, int], random: Random, wildness: float) -> list[LoopStep]:
    def step(axis: TileAxis) -> int:
        return axis.tile * unroll[axis.name]

    chosen = [a for a in option.axes if random.random() < 0.35 * wildness]
    random.shuffle(chosen)
    return [CountedLoop(a.name, step(a) * random.choice((2, 2, 3, 4))) for a in chosen]


def _stages(
    option: NestOption, blocks: list[LoopStep], hold: int, random: Random, wildness: float
) -> tuple[Stage, ...]:
    sums = {a.name for a in option.axes if a.is_reduction}
    first_sum = next((n for n, loop in enumerate(blocks) if loop.axis in sums), None)
    stages: list[Stage] = []
    for operand in option.operands:
        deepest = hold
        must = operand.costs.direct_ns is None
        if operand.is_accumulator and operand.staging.stage_whole and first_sum is not None:
            deepest, must = first_sum, True
        may = operand.costs.staged_ns is not None and random.random() < 0.4 * wildness
        if must or may:
            by_rows = bool(operand.layout.dense_axis) and random.random() < 0.4
            stages.append(Stage(operand.name, random.randint(0, deepest), by_rows=by_rows))
    random.shuffle(stages)
    return tuple(stages)
