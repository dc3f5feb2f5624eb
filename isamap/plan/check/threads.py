"""The rules of parallel loops, a part of the independent checker of schedules.

    par m by 512 { par n by 256 { stage b; for k by 256 { ... hold; ... } } }

Parallel loops are the outermost ones. A buffer staged outside them is filled before and shared. A buffer
staged inside belongs to one part. A reduction axis may be distributed, too: every part then sums into its own
copy of the accumulator, which is staged directly inside the parallel loops, and the copies are added
afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod

from isamap.plan.problem import NestOption, TileAxis
from isamap.plan.schedule import LoopStep, NestSchedule
from isamap.source import Diagnostic, replace

# Each part has buffers of its own, and is dealt by itself: more parts than this are of no use.
MAX_PARTS = 4096


def in_parts(nest: NestSchedule, option: NestOption) -> NestOption:
    """Return the option with the number of parts along each parallel loop of a nest. Extents are unchanged.

    A part may use all that a core has.
    """
    steps, parts = {axis.name: axis.extent for axis in option.axes}, list[tuple[str, int]]()
    for loop in nest.loops:
        if loop.is_dealt and loop.axis in steps:
            parts.append((loop.axis, -(-steps[loop.axis] // max(1, loop.step))))
            steps[loop.axis] = max(1, loop.step)
    return replace(option, parts=tuple(parts), alone=True)


def check_parallel(
    nest: NestSchedule, option: NestOption, private: Collection[str] = ()
) -> Iterator[Diagnostic]:
    """Yield the errors in the parallel loops of a nest. Each part has `private` memories of its own."""
    dealt = [loop for loop in nest.loops if loop.is_dealt]
    if not dealt:
        return
    where = f"nest {nest.statement}"
    late = [loop for loop in nest.loops[nest.parallel :] if loop.is_dealt]
    if late:
        yield _error(f"{where}: {_show_loop(late[0])} is inside a loop of another kind", "move it outermost")
        return
    for axis in option.axes:
        steps = [loop.step for loop in dealt if loop.axis == axis.name]
        if len(steps) > 1 and not _in_groups(axis, steps):
            yield _error(
                f"{where}: axis `{axis.name}` is partitioned by {len(steps)} loops, not into equal groups of parts",
                "leave one of them",
            )
    if nest.hold < len(dealt):
        yield _error(f"{where}: `hold` is outside of {_show_loop(dealt[-1])}", "put `hold;` inside of it")
    yield from _check_stages(nest, len(dealt), private)
    yield from _check_sums(nest, option, dealt)
    parts = prod(count for _, count in in_parts(nest, option).parts)
    if parts > MAX_PARTS and not private:
        yield _error(
            f"{where}: its parallel loops make {parts} parts; the limit is {MAX_PARTS}",
            "give them larger steps",
        )


def _in_groups(axis: TileAxis, steps: Sequence[int]) -> bool:
    """Return whether two loops partition an axis into groups of equally many parts."""
    if len(steps) > 2 or min(steps) < 1 or axis.is_open or axis.is_reduction or steps[0] % steps[1]:
        return False
    return -(-axis.extent // steps[1]) % (steps[0] // steps[1]) == 0


def _check_stages(nest: NestSchedule, dealt: int, private: Collection[str]) -> Iterator[Diagnostic]:
    for stage in nest.stages:
        if stage.memory in private and stage.depth < dealt:
            yield _error(
                f"nest {nest.statement}: `stage {stage.operand}` is outside of parallel loops, and each part "
                f"has its own `{stage.memory}`",
                "put it inside of them",
            )
        elif stage.memory and stage.memory not in private:
            yield _error(
                f"nest {nest.statement}: `stage {stage.operand}` lies in `{stage.memory}`, "
                "and threads cannot share that memory",
                "leave out the parallel loops, or the memory",
            )
        elif 0 < stage.depth < dealt:
            yield _error(
                f"nest {nest.statement}: `stage {stage.operand};` is between two parallel loops",
                "put it outside of them to share the buffer, or inside to give each part its own",
            )


def _check_sums(nest: NestSchedule, option: NestOption, dealt: list[LoopStep]) -> Iterator[Diagnostic]:
    summing = {axis.name for axis in option.axes if axis.is_reduction}
    summed = [loop for loop in dealt if loop.axis in summing]
    if not summed:
        return
    where = f"nest {nest.statement}: {_show_loop(summed[0])}"
    if not option.can_split_sums:
        yield Diagnostic(
            "schedule-parallel",
            f"{where} partitions a sum that cannot be split",
            notes=("the kernel is `strict`, or the machine cannot add partial sums",),
            help="partition another axis",
        )
        return
    for operand in option.operands:
        depths = [stage.depth for stage in nest.stages if stage.operand == operand.name]
        if operand.is_accumulator and depths != [len(dealt)]:
            yield _error(
                f"{where} partitions a sum: every part needs its own accumulator",
                f"put `stage {operand.name};` directly inside the parallel loops",
            )


def _show_loop(loop: LoopStep) -> str:
    return f"`par {loop.axis} by {loop.step}`"


def _error(message: str, advice: str) -> Diagnostic:
    return Diagnostic("schedule-parallel", message, help=advice)
