"""Check software pipelining: buffers filled early, and results written back late.

stage b ahead 1;             needs a loop around it, whose iterations it precedes
stage b ahead 1 into k;      and a loop inside, whose iterations share the work
spread write c into k;       needs a loop around it that moves to other elements of c
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import DeferredWriteBack, NestSchedule, Prefetch, Stage
from isamap.source import Diagnostic


def check_overlap(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in stages ahead and in deferred write-backs."""
    operands = {operand.name: operand for operand in option.operands}
    stages = {stage.operand: stage for stage in nest.stages}
    shared = [f"stage {s.operand} ahead {s.ahead} into {s.into}" for s in nest.stages if s.into]
    shared += [f"spread write {spread.operand} into {spread.axis}" for spread in nest.spread]
    for line in shared if not option.shares_work else ():
        yield Diagnostic(
            "schedule-overlap",
            f"nest {nest.statement}: `{line};`: lanes have no order in which iterations could share a copy",
            help="leave out `into` and the axis" if " ahead " in line else "leave the line out",
        )
    for stage in nest.stages:
        if stage.ahead and stage.operand in operands:
            yield from _check_ahead(nest, stage, operands[stage.operand], option.outlives)
    for spread in nest.spread:
        name = f"nest {nest.statement}: `spread write {spread.operand} into {spread.axis};`"
        operand, stage = operands.get(spread.operand), stages.get(spread.operand)
        if operand is None or not operand.is_accumulator or stage is None:
            yield Diagnostic(
                "schedule-overlap",
                f"{name} has no staged result to write back",
                help="a deferred write-back needs a buffer: stage the result there, or leave the line out",
            )
        else:
            yield from _check_spread(nest, spread, stage, operand, name)


def check_prefetches(nest: NestSchedule, option: NestOption, hinted: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield the errors in prefetches, into caches that the machine has hints for."""
    operands = {operand.name: operand for operand in option.operands}
    for prefetch in nest.prefetches:
        if prefetch.operand in operands:
            yield from _check_prefetch(nest, prefetch, operands[prefetch.operand], option, hinted)


def _check_prefetch(
    nest: NestSchedule, prefetch: Prefetch, operand: TileOperand, option: NestOption, hinted: tuple[str, ...]
) -> Iterator[Diagnostic]:
    name = (
        f"nest {nest.statement}: `prefetch {prefetch.operand} ahead {prefetch.ahead} into {prefetch.cache};`"
    )
    stage = next((s for s in nest.stages if s.operand == operand.name), None)
    is_staged = stage is not None and stage.depth < prefetch.depth
    if prefetch.cache not in hinted:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: the machine has no instruction that brings memory into `{prefetch.cache}`",
            notes=(f"it has for {', '.join(hinted) or 'none'}",),
        )
    if operand.registers == 0:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: `{operand.tensor}` is read inside another operand, not as a box of one array",
            help="leave the line out",
        )
    elif stage is not None and is_staged and stage.memory:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: `{operand.name}` lies in the scratchpad `{stage.memory}`, which has no lines",
            help="leave the line out",
        )
    elif not is_staged and operand.is_accumulator and _never_reads_array(nest, option, stage):
        begun = min(nest.fused)
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: the nest does not read `{operand.tensor}`: sums begin with the values of statement "
            f"{begun}, which is fused",
            help="leave the line out",
        )
    elif not is_staged and not operand.layout.in_rows:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: an iteration's reads of `{operand.tensor}` are not a box of one array",
            help=f"put `stage {operand.name};` around the loop, or leave the line out",
        )
    around = nest.loops[prefetch.depth - 1] if prefetch.depth else None
    if around is None or not around.counts or around.axis not in operand.axes:
        where = (
            f"directly inside `for {around.axis} by {around.step}`, whose next iteration accesses the same "
            f"elements of `{operand.tensor}`"
            if around
            else "not directly inside a loop"
        )
        yield Diagnostic(
            "schedule-overlap",
            f"{name} is {where}",
            help=f"put it directly inside a `for` loop over {' or '.join(operand.axes)}",
        )


def _never_reads_array(nest: NestSchedule, option: NestOption, stage: Stage | None) -> bool:
    """Return whether a fused statement initialises the sums, and no partial sum is stored in the array."""
    extents = {axis.name: inf if axis.is_open else axis.extent for axis in option.axes if axis.is_reduction}
    around = nest.loops[: nest.hold if stage is None else stage.depth]
    is_cut = any(loop.step < extents.get(loop.axis, 0) for loop in around)
    return any(number < nest.statement for number in nest.fused) and not is_cut


def _check_ahead(
    nest: NestSchedule, stage: Stage, operand: TileOperand, outlives: int
) -> Iterator[Diagnostic]:
    into = (f" behind {stage.behind}" if stage.behind else "") + (f" into {stage.into}" if stage.into else "")
    name = f"nest {nest.statement}: `stage {stage.operand} ahead {stage.ahead}{into};`"
    if operand.is_accumulator:
        yield Diagnostic(
            "schedule-overlap",
            f"{name} fills a buffer early with elements that earlier iterations still change",
            help=f"write `stage {stage.operand};`, and `spread write {stage.operand} into` a loop's axis",
        )
    if stage.behind and not outlives:
        yield Diagnostic(
            "schedule-overlap",
            f"{name} has copies for products in flight, and the instruction of this mapping leaves none in flight",
            help="leave `behind` out",
        )
    if stage.depth == 0 or not nest.loops[stage.depth - 1].counts:
        yield Diagnostic(
            "schedule-overlap",
            f"{name} is not directly inside a loop, so there is no earlier iteration",
            help=f"move it into a `for` loop, or write `stage {stage.operand};`",
        )
    if stage.into:
        yield from _check_hosts(nest, stage.depth, stage.into, name)


def _check_spread(
    nest: NestSchedule, spread: DeferredWriteBack, stage: Stage, operand: TileOperand, name: str
) -> Iterator[Diagnostic]:
    around = nest.loops[stage.depth - 1] if stage.depth else None
    if around is None or not around.counts or around.axis not in operand.axes:
        where = (
            f"directly inside `for {around.axis} by {around.step}`, whose next iteration accesses the same "
            f"elements of `{operand.tensor}`"
            if around
            else "not directly inside a loop"
        )
        yield Diagnostic(
            "schedule-overlap",
            f"{name} is {where}",
            help=f"put it and its `stage {spread.operand};` directly inside a `for` loop over "
            f"{' or '.join(operand.axes)}"
            if operand.axes
            else None,
        )
    yield from _check_hosts(nest, stage.depth, spread.axis, name)


def _check_hosts(nest: NestSchedule, depth: int, axis: str, name: str) -> Iterator[Diagnostic]:
    """Yield the errors in the loops, down to the one over `axis`, that share interleaved work."""
    inside = [loop for loop in nest.loops[depth:] if loop.counts]
    axes = [loop.axis for loop in inside]
    if axis not in axes:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: there is no `for {axis}` inside",
            notes=(f"the loops inside run over {', '.join(axes)}",) if axes else (),
            help="name the loop whose iterations share the work",
        )
        return
    hosts = axes[: axes.index(axis) + 1]
    twice = next((axis for axis in hosts if hosts.count(axis) > 1), None)
    if twice is not None:
        yield Diagnostic(
            "schedule-overlap",
            f"{name}: `{twice}` has several loops there, with different trip counts in each iteration",
            help=f"name a loop outside the second one over `{twice}`",
        )
