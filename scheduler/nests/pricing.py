"""Price any schedule by a model, also a hand-written one: derive its decisions from its loops.

A schedule that no decisions express, such as one with three loops over an axis, has no price. `unpriced`
says why. A schedule made for other sizes is read by its effect at these sizes (`normal`). Prefetches in
other places than decisions allow cost their hints and gain nothing, and the order of the innermost loop has
no effect, as measured. The pieces of remainders that only run time knows cost nothing either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import assert_never

from isamap.plan.cost import evaluate
from isamap.plan.problem import Fusion, NestOption, NestProblem, Problem, Start
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import (
    CountedLoop,
    LoopStep,
    NestSchedule,
    ParallelLoop,
    Schedule,
    UnrolledLoop,
    cost_unit,
    spread_of,
)
from isamap.plan.text import loop_words
from isamap.scheduler.deciding.orders import decisions_of
from isamap.scheduler.deciding.partitioning import part_cost, part_of, with_shared_data
from isamap.scheduler.deciding.per_operand import decided_in
from isamap.scheduler.deciding.space import Assignment, Space, issues_along
from isamap.scheduler.deciding.summing import may_unroll
from isamap.scheduler.nests.nest_building import build_nest
from isamap.source import add_up, replace

# --- normal ---------------------------------------------------------------------------------------------

# Normalise nests to the form that decisions would build.
#
#     for m by 64 { for m by 14 { unroll n by 16 { unroll m by 1 { issue; } } } }       of 8 rows
#     ->  for m by 8 { unroll m by 1 { unroll n by 16 { issue; } } }
#
# A block of 14 rows is one of 8 where there are 8, a loop that runs once around another one over its axis is
# none, and the order of unrolled loops changes neither what is loaded nor what is computed, only which tiles
# wait in registers. So the model prices all of these alike.


def fit_into_axes(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the nest with blocks no larger than the axes of the option, and no one-iteration loop around another.

    The pieces of remainders are left out.
    """
    extents = {axis.name: issues_along(axis) * axis.tile for axis in option.axes}
    loops = tuple(_clip_loop(loop, extents) for loop in nest.loops)
    return _drop_loops(replace(nest, loops=loops), _running_once(nest, loops, extents))


def normal_form(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the nest without parts that no decision expresses, and without one-iteration loops."""
    found = fit_into_axes(nest, option)
    extents = {axis.name: issues_along(axis) * axis.tile for axis in option.axes}
    once = [n for n, loop in enumerate(found.loops) if _takes_all(loop, extents)]
    found = _drop_loops(found, set(once) - _crossed_loops(found))
    loops = _in_order(found.loops, option)
    return replace(found, loops=loops, fused=(), prefetches=(), pipeline=None)


def _clip_loop(loop: LoopStep, extents: Mapping[str, int]) -> LoopStep:
    """Return a loop whose block is no larger than its axis. Parts for threads keep their decided size."""
    step = min(loop.step, extents.get(loop.axis, loop.step))
    match loop:
        case ParallelLoop():
            return loop
        case CountedLoop():
            return CountedLoop(loop.axis, step)
        case UnrolledLoop():
            return UnrolledLoop(loop.axis, step)
        case _:
            assert_never(loop)


def _takes_all(loop: LoopStep, extents: Mapping[str, int]) -> bool:
    return loop.counts and loop.step >= extents.get(loop.axis, loop.step + 1)


def _running_once(nest: NestSchedule, loops: Sequence[LoopStep], extents: Mapping[str, int]) -> set[int]:
    """Return the loops with one iteration, if another loop of the axis remains, and unrolled loops of one issue."""
    found: set[int] = set()
    for number, loop in enumerate(loops):
        around = [o for o in loops[:number] if o.axis == loop.axis]
        inside = [o for o in loops[number + 1 :] if o.axis == loop.axis and o.counts]
        dealt = [o for o in around if o.is_dealt]
        is_single = loop.is_unrolled and bool(around) and around[-1].step <= loop.step
        if is_single or (_takes_all(loop, extents) and (inside or dealt)):
            found.add(number)
    return found - _crossed_loops(nest)


def _crossed_loops(nest: NestSchedule) -> set[int]:
    """Return the loops around a pipelined copy for whose next iterations it is made."""
    return {stage.depth - 1 for stage in nest.stages if stage.ahead or spread_of(nest, stage.operand)}


def _drop_loops(nest: NestSchedule, dropped: Collection[int]) -> NestSchedule:
    """Return the nest without some of its loops."""

    def depth_without(depth: int) -> int:
        return depth - sum(number < depth for number in dropped)

    return replace(
        nest,
        loops=tuple(loop for number, loop in enumerate(nest.loops) if number not in dropped),
        stages=tuple(replace(stage, depth=depth_without(stage.depth)) for stage in nest.stages),
        hold=depth_without(nest.hold),
    )


def _in_order(loops: Sequence[LoopStep], option: NestOption) -> tuple[LoopStep, ...]:
    """Return the loops with adjacent unrolled loops sorted by name. Reduction loops stay in place."""
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    found: list[LoopStep] = []
    for is_block, group in groupby(loops, lambda loop: loop.is_unrolled and loop.axis not in sums):
        together = list(group)
        found += sorted(together, key=lambda loop: loop.axis) if is_block else together
    return tuple(found)


# --- pricing --------------------------------------------------------------------------------------------


def price(schedule: Schedule, problem: Problem, model: CostModel) -> tuple[float | None, ...]:
    """Return the cost of each statement in the order of the problem, or None if the model has no price.

    Units: nanoseconds. A statement that is fused with another one costs nothing by itself. Of several decisions that
    lead to the same nest, the cheapest count, as schedulers take them.
    """
    nests = {nest.statement: nest for nest in schedule.nests}
    return tuple(
        _nest_price(problem, nest, nests[nest.statement], model) if nest.statement in nests else 0.0
        for nest in problem.nests
    )


def fusions_in_unit(option: NestOption, problem: Problem, model: CostModel) -> tuple[Fusion, ...]:
    """Return an option's fusions with `extra_ns` in the unit of a model's costs."""
    unit = cost_unit(model.name)
    if unit == "ns":
        return option.fusions
    leakage = problem.energies.leakage_pj_per_ns if problem.energies is not None else 0.0
    # A product of energy and time is minimised of one statement only, which fuses nothing.
    extra = {f.statement: f.extra_pj + leakage * f.extra_ns if unit == "pJ" else 0.0 for f in option.fusions}
    return tuple(replace(f, extra_ns=extra[f.statement]) for f in option.fusions)


def _nest_price(problem: Problem, nest: NestProblem, chosen: NestSchedule, model: CostModel) -> float | None:
    for option, assignments in _read_options(problem, nest, chosen):
        cost = part_cost(problem, nest, option, model)
        if (own := min((float(evaluate(cost, a)) for a in assignments), default=None)) is not None:
            offered = fusions_in_unit(option, problem, model)
            return own + add_up(f.extra_ns for f in offered if f.statement in chosen.fused)
    return None


def read_nest(
    problem: Problem, nest: NestProblem, chosen: NestSchedule
) -> tuple[NestOption, Assignment] | None:
    """Return the option and the decisions that give a nest, or None if none do.

    If the loops are distributed over threads, the option is that of one of the nest's parts.
    """
    found = ((option, a) for option, known in _read_options(problem, nest, chosen) for a in known)
    return next(found, None)


def _read_options(
    problem: Problem, nest: NestProblem, chosen: NestSchedule
) -> Iterator[tuple[NestOption, Iterator[Assignment]]]:
    """Yield the options that a nest may belong to, each with decisions that may give it."""
    for whole in nest.options:
        if whole.mapping == chosen.mapping and (option := matching_part(problem, whole, chosen)) is not None:
            several = problem.residents_of(option) > 1
            for alone in (False, True)[: 1 + several]:
                part = with_shared_data(replace(option, alone=alone), problem, option.parts)
                found = _equal_readings(problem, nest, part, chosen)
                space = _space(problem, nest, part)
                yield part, filter(space.is_feasible, found) if several and not alone else found


def _space(problem: Problem, nest: NestProblem, option: NestOption) -> Space:
    return Space(nest.statement, option, problem.registers_of(option), {}, problem.room(option))


def _equal_readings(
    problem: Problem, nest: NestProblem, option: NestOption, chosen: NestSchedule
) -> Iterator[Assignment]:
    normalised = normal_form(chosen, option)
    for assignment, built in readings(problem, nest, option, chosen):
        if built == normalised:
            yield assignment


def readings(
    problem: Problem, nest: NestProblem, option: NestOption, chosen: NestSchedule
) -> Iterator[tuple[Assignment, NestSchedule]]:
    """Yield decisions that may give a nest, each with the normal form of the nest that they give."""
    space = _space(problem, nest, option)
    for assignment in _readings(space, fit_into_axes(chosen, option)):
        yield assignment, normal_form(build_nest(space, assignment), option)


def start_only_from(problem: Problem, schedule: Schedule) -> Problem:
    """Return the problem with a schedule's decisions as the only starts."""
    chosen = {nest.statement: nest for nest in schedule.nests}
    nests: list[NestProblem] = []
    for nest in problem.nests:
        read = read_nest(problem, nest, chosen[nest.statement]) if nest.statement in chosen else None
        starts: tuple[Start, ...] = ()
        if read is not None:
            option, values = read
            named = [(o.mapping, o.choose) for o in nest.options].index((option.mapping, option.choose))
            starts = (Start(named, option.parts, tuple(values.items()), option.alone),)
        nests.append(replace(nest, starts=starts))
    return replace(problem, nests=tuple(nests))


def start_from(problem: Problem, schedule: Schedule, model: CostModel) -> Problem:
    """Return the problem in which a schedule's decisions replace more expensive starts of options.

    An option without a start keeps none, so that heuristics look for one as good as greedy's.
    """
    chosen = {nest.statement: nest for nest in schedule.nests}
    nests: list[NestProblem] = []
    for nest in problem.nests:
        read = read_nest(problem, nest, chosen[nest.statement]) if nest.statement in chosen else None
        starts = (
            nest.starts if read is None else [_cheaper(problem, nest, s, *read, model) for s in nest.starts]
        )
        nests.append(replace(nest, starts=tuple(starts)))
    return replace(problem, nests=tuple(nests))


def _cheaper(
    problem: Problem,
    nest: NestProblem,
    start: Start,
    option: NestOption,
    values: Assignment,
    model: CostModel,
) -> Start:
    whole = nest.options[start.option]
    known = whole.mapping, whole.choose, start.parts, start.alone
    if known != (option.mapping, option.choose, option.parts, option.alone):
        return start
    space = _space(problem, nest, option)
    cost = part_cost(problem, nest, option, model)
    is_better = space.is_feasible(values) and evaluate(cost, values) < evaluate(cost, dict(start.values))
    return replace(start, values=tuple(values.items())) if is_better else start


def matching_part(problem: Problem, option: NestOption, nest: NestSchedule) -> NestOption | None:
    """Return the option, or its part for one thread if the nest has parallel loops, or None without such a part."""
    if not nest.parallel:
        return option
    extents = {axis.name: axis.extent for axis in option.axes}
    counts, order, steps = dict[str, int](), list[tuple[str, int]](), dict(extents)
    for loop in nest.loops[: nest.parallel]:
        if loop.axis in extents:
            counts[loop.axis] = -(-extents[loop.axis] // loop.step)
            order.append((loop.axis, -(-steps[loop.axis] // loop.step)))
            steps[loop.axis] = loop.step
    part = part_of(option, counts)
    return replace(part, parts=tuple(order)) if part is not None and problem.cached else part


def _readings(space: Space, nest: NestSchedule) -> Iterator[Assignment]:
    """Yield the assignments that may have given a nest. Most decisions follow from its loops."""
    single = {step.axis for step in nest.loops} - {step.axis for step in nest.loops if step.counts}
    dealt = {step.axis: step for step in nest.loops if step.is_dealt and step.axis in single}
    loops = [step for step in nest.loops if step.counts or step is dealt.get(step.axis)]
    unrolled = {step.axis for step in nest.loops if step.is_unrolled}
    fixed: dict[str, int] = {}
    blocks: list[list[tuple[str, int]]] = []
    for axis in space.axes:
        steps = [loop.step for loop in loops if loop.axis == axis.name]
        if not steps:
            return
        if may_unroll(space.option, axis):
            fixed[space.unroll(axis)] = max(1, steps[-1] // axis.tile) if axis.name in unrolled else 1
        # One loop is that of the register block, or a cache block of the same size.
        sizes = [steps[0]] if len(steps) > 1 else [axis.extent, steps[0]]
        blocks.append([(space.block(axis), size) for size in sizes])
    first = {loop.axis: i for i, loop in reversed(list(enumerate(loops)))}
    last = {loop.axis: i for i, loop in enumerate(loops)}
    order = sorted(space.axes, key=lambda axis: first[axis.name])
    sweep = sorted(space.register_axes, key=lambda axis: last[axis.name])
    fixed |= decisions_of(order, space.order_pairs()) | decisions_of(sweep, space.sweep_pairs())
    staged = {stage.operand for stage in nest.stages}
    stages = [
        [(space.stage(o), value) for value in space.stage_values(o) if (value > 0) == (o.name in staged)]
        for o in space.option.operands
    ]
    fixed |= decided_in(space, nest)
    for chosen in product(*blocks, *stages):
        yield {**fixed, **dict(chosen)}


# Derived: one over the cache blocks of an axis, and one over its register blocks.
MOST_LOOPS = 2


def why_unpriced(schedule: Schedule, problem: Problem) -> tuple[str, ...]:
    """Return, per statement of the problem, why the model cannot price it, or "" if it can."""
    nests = {nest.statement: nest for nest in schedule.nests}
    return tuple(
        _why(problem, nest, nests[nest.statement]) if nest.statement in nests else ""
        for nest in problem.nests
    )


def _why(problem: Problem, nest: NestProblem, chosen: NestSchedule) -> str:
    if read_nest(problem, nest, chosen) is not None:
        return ""
    options = [option for option in nest.options if option.mapping == chosen.mapping]
    if not options:
        return "none of the mappings that are priced is its own"
    parts = [part for option in options if (part := matching_part(problem, option, chosen)) is not None]
    if not parts:
        dealt = ", ".join(f"`{loop_words(loop)}`" for loop in chosen.loops[: chosen.parallel])
        return f"{dealt}: no decisions partition it for threads in this way"
    found = [reason for part in parts for reason in _differences(problem, nest, part, chosen)]
    # What agrees furthest is nearest to what was meant.
    return max(found, default=(0, "an axis has no loop"))[1]


def _differences(
    problem: Problem, nest: NestProblem, option: NestOption, chosen: NestSchedule
) -> Iterator[tuple[int, str]]:
    """Yield the difference from each nest that decisions give, with the length of the common part."""
    normalised = normal_form(chosen, option)
    loops = Counter(loop.axis for loop in normalised.loops if loop.counts)
    axis, count = max(loops.items(), key=lambda pair: pair[1], default=("", 0))
    if count > MOST_LOOPS:
        yield 0, f"it has {count} loops over `{axis}`, and decisions make two at most"
        return
    for _, built in readings(problem, nest, option, chosen):
        yield _difference(normalised, built)


def _difference(normalised: NestSchedule, built: NestSchedule) -> tuple[int, str]:
    """Return the first difference of two nests, with the length of the common part before it."""
    if normalised.loops != built.loops:
        return _of_loops(normalised.loops, built.loops)
    known = len(normalised.loops)
    if normalised.choose != built.choose:
        return known, "it chooses other parameters of the instruction than decisions do"
    if normalised.hold != built.hold:
        return (
            known + 1,
            f"its `hold` is inside {normalised.hold} loops, and decisions place it inside {built.hold}",
        )
    if normalised.stages != built.stages:
        mine, theirs = set(normalised.stages), set(built.stages)
        names = ", ".join(f"`{name}`" for name in sorted({stage.operand for stage in mine ^ theirs}))
        return known + 2, f"{names}: decisions stage elsewhere, or not in this way"
    return known + 3, "decisions defer other write-backs"


def _of_loops(normalised: Sequence[LoopStep], built: Sequence[LoopStep]) -> tuple[int, str]:
    pairs = zip(normalised, built, strict=False)
    same = next(
        (n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(normalised), len(built))
    )
    mine, theirs = (
        f"`{loop_words(loops[same])}`" if same < len(loops) else "no loop" for loops in (normalised, built)
    )
    return same, f"where it has {mine}, decisions lead to {theirs}"
