"""Build the loops of a nest from the values of decisions.

{"nest0.unroll.m": 6, "nest0.unroll.n": 4, "nest0.block.k": 256, ...} ->  for k by 256 { stage b; for m by 6 {
for n by 64 { hold; for k by 1 { unroll ... } } } }

Each possible remainder of an open size has its own code, unless that is too much: a block of 9 x 3 issues
with both sizes open has (9 + 36) * (3 + 6) = 405 issues in all pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.plan.schedule import CountedLoop, LoopStep, NestSchedule, ParallelLoop, Stage, UnrolledLoop
from isamap.scheduler.deciding.orders import axes_in_order
from isamap.scheduler.deciding.per_operand import with_decided
from isamap.scheduler.deciding.scratch import with_addresses
from isamap.scheduler.deciding.space import Assignment, Space
from isamap.scheduler.deciding.sums import keeps_sums
from isamap.source.records import replace


def build_nest(space: Space, assignment: Assignment) -> NestSchedule:
    """Return the nest that an assignment describes."""
    option = space.option
    parts = _parallel_loops(option)
    block = {axis.name: assignment.get(space.unroll(axis), 1) for axis in space.register_axes}
    blocks = [
        CountedLoop(axis.name, assignment[space.block(axis)])
        for axis in axes_in_order(space.axes, space.order_pairs(), assignment)
        if assignment[space.block(axis)] < axis.extent
    ]
    # A part or a cache block as large as a register block has its loop already.
    done = {(loop.axis, loop.step) for loop in (*parts, *blocks)}
    single = [axis for axis in option.axes if not axis.is_reduction and axis not in space.axes]
    swept = [*single, *axes_in_order(space.register_axes, space.sweep_pairs(), assignment)]
    sweeps = [CountedLoop(axis.name, block.get(axis.name, 1) * axis.tile) for axis in swept]
    iterations = {
        axis.name: assignment.get(space.unroll(axis), 1) for axis in option.axes if axis.is_reduction
    }
    sums = [
        CountedLoop(axis.name, iterations[axis.name] * axis.tile) for axis in option.axes if axis.is_reduction
    ]
    tiles = {axis.name: axis.tile for axis in option.axes}
    # Outside the register block, whose tiles are then summed one after the other: no more registers.
    inner = [*(name for name, iteration in iterations.items() if iteration > 1), *space.unroll_order(block)]
    unrolls = [UnrolledLoop(name, tiles[name]) for name in inner]
    over = [loop for loop in sweeps if (loop.axis, loop.step) not in done]
    around, hold = [*parts, *blocks, *over], len(parts) + len(blocks) + len(over)
    outermost = len(parts)
    if blocks and keeps_sums(option) and _is_one_block(option, blocks, over):
        outermost = hold = len(parts) + len(over)
        around = [*parts, *over, *blocks]
    inside = [loop for loop in sums if (loop.axis, loop.step) not in done]
    nest = NestSchedule(
        space.statement,
        option.mapping,
        option.choose,
        (*around, *inside, *unrolls),
        _stages(space, assignment, (outermost, blocks), len(around)),
        hold,
        carried=option.carried.axis if option.carried else "",
    )
    if space.is_allowed(assignment):
        nest = with_decided(nest, space, assignment)
    return with_addresses(with_short_rests(nest, option), option)


def _parallel_loops(option: NestOption) -> list[ParallelLoop]:
    """Return the loops over parts, in their order."""
    steps = {axis.name: axis.extent for axis in option.axes}
    found: list[ParallelLoop] = []
    for name, count in reversed(option.parts):
        found.append(ParallelLoop(name, steps[name]))
        steps[name] *= count
    return found[::-1]


def _is_one_block(option: NestOption, blocks: Sequence[LoopStep], sweeps: Sequence[LoopStep]) -> bool:
    """Return whether a part of a nest is a single register block, apart from blocks of the sum."""
    axes = {axis.name: axis for axis in option.axes}
    return all(axes[loop.axis].is_reduction for loop in blocks) and all(
        loop.step >= axes[loop.axis].extent for loop in sweeps
    )


def _stages(
    space: Space, assignment: Assignment, outside: tuple[int, Sequence[LoopStep]], hold: int
) -> tuple[Stage, ...]:
    """Return the stages of the nest. `outside` is the number of loops that distribute parts to threads."""
    parts, blocks = outside
    # What lies in a scratchpad is dealt only where each part has its own, which it fills.
    outermost = {operand.name: parts if operand.staging.homes[0] else 0 for operand in space.option.operands}
    stages = [
        Stage(
            operand.name,
            outermost[operand.name] if choice == 2 else parts + _depth(space, operand, blocks, hold - parts),
            memory=operand.staging.homes[0],
            packed=operand.staging.is_packed,
        )
        for operand in space.option.operands
        if (choice := assignment[space.stage(operand)])
    ]
    return tuple(sorted(stages, key=lambda stage: stage.depth))


def _depth(space: Space, operand: TileOperand, blocks: Sequence[LoopStep], hold: int) -> int:
    """Return the number of loops around the stage of an operand that is copied per block.

    An accumulator's stage is around every reduction loop outside `hold`, in a scratchpad at `hold`. An
    input's stage is as far inside as possible without copying an element again.
    """
    if operand.is_accumulator and space.splits_sum:
        return 0
    if operand.is_accumulator and operand.staging.homes[0] and not operand.staging.stage_whole:
        return hold
    if operand.is_accumulator:
        summing = {axis.name for axis in space.option.axes if axis.is_reduction}
        return next((depth for depth, loop in enumerate(blocks) if loop.axis in summing), hold)
    followed = [depth + 1 for depth, loop in enumerate(blocks) if loop.axis in operand.axes]
    return max(followed, default=0)


# Limit of the search: a register block and all of its rests together, in issues: a second or two of a C compiler.
MAX_ISSUES = 1024


def with_short_rests(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the nest, in which long axes use powers of two as remainders if all remainders were too much code."""
    axes = {axis.name: axis for axis in option.axes}
    unrolled = {loop.axis for loop in nest.loops if loop.is_unrolled}
    blocks = {loop.axis: loop for loop in nest.loops if not loop.is_unrolled and loop.axis in unrolled}
    opened = [axis for axis in option.axes if axis.is_open and axis.name in blocks]
    for axis in sorted(opened, key=lambda axis: -blocks[axis.name].step // axis.tile):
        if prod(_tiles(axes[name], block) for name, block in blocks.items()) <= MAX_ISSUES:
            break
        blocks[axis.name] = replace(blocks[axis.name], rest=_powers(axis, blocks[axis.name]))
    changed = {(block.axis, block.step): block for block in blocks.values()}
    loops = (loop if loop.is_unrolled else changed.get((loop.axis, loop.step), loop) for loop in nest.loops)
    return replace(nest, loops=tuple(loops))


def _tiles(axis: TileAxis, block: LoopStep) -> int:
    """Return the tiles along an axis in a whole block and in all of its remainder pieces."""
    whole = block.step // axis.tile
    if not axis.is_open:
        return whole
    cut = whole if axis.tile > 1 else 0
    return whole + cut + (sum(block.rest) // axis.tile if block.rest else whole * (whole - 1) // 2)


def _powers(axis: TileAxis, block: LoopStep) -> tuple[int, ...]:
    """Return piece sizes that combine to every remainder of a block, or () if a block has no remainder."""
    largest = block.step // axis.tile - (not block.is_dealt)
    return tuple(axis.tile << n for n in reversed(range(largest.bit_length())))
