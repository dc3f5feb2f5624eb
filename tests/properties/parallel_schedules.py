"""Random schedules dealt to threads: any schedule, with parallel loops around it that the judge lets pass."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from isamap.plan.check import check_schedule
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import LoopStep, NestSchedule, ParallelLoop, Schedule, Stage

TRIES = 12


def dealt_schedule(schedule: Schedule, problem: Problem, random: Random) -> Schedule | None:
    """Return the schedule with parallel loops around some of its nests; None when none of the tries was right."""
    questions = {nest.statement: nest for nest in problem.nests}
    for _ in range(TRIES):
        nests = tuple(_dealt(nest, questions[nest.statement], random) for nest in schedule.nests)
        found = replace(schedule, nests=nests)
        if any(nest.parallel for nest in nests) and not check_schedule(found, problem):
            return found
    return None


def _dealt(nest: NestSchedule, question: NestProblem, random: Random) -> NestSchedule:
    option = next(o for o in question.options if (o.mapping, o.choose) == (nest.mapping, nest.choose))
    axes = random.sample(option.axes, min(len(option.axes), random.choice((0, 1, 1, 2))))
    around: list[LoopStep] = []
    for axis in axes:
        largest = max(loop.step for loop in nest.loops if loop.axis == axis.name)
        parts = random.choice((2, 2, 3, 5))
        step = max(largest // axis.tile + 1, -(-axis.extent // axis.tile // parts)) * axis.tile
        around.append(ParallelLoop(axis.name, step))
    stages = _stages(nest, option, {axis.name for axis in axes if axis.is_reduction}, len(around), random)
    loops = (*around, *nest.loops)
    hints = tuple(replace(hint, depth=hint.depth + len(around)) for hint in nest.prefetches)
    return replace(nest, loops=loops, stages=stages, hold=nest.hold + len(around), prefetches=hints)


def _stages(
    nest: NestSchedule, option: NestOption, sums: set[str], depth: int, random: Random
) -> tuple[Stage, ...]:
    """Stages moved inside the parallel loops, or left outside where they are shared."""
    accumulators = {o.name for o in option.operands if o.is_accumulator}
    moved: list[Stage] = []
    for stage in nest.stages:
        if sums and stage.operand in accumulators:
            continue
        shared = stage.depth == 0 and random.random() < 0.5
        moved.append(stage if shared else replace(stage, depth=stage.depth + depth))
    if sums:
        moved += [Stage(name, depth) for name in sorted(accumulators)]
    return tuple(sorted(moved, key=lambda stage: stage.depth))
