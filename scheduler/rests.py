"""Rests that only the run knows: a piece of code for each, unless that would be too much code.

A block of 9 x 3 issues with both sizes open has (9 + 36) * (3 + 6) = 405 issues in all pieces.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from isamap.plan.loops import LoopStep
from isamap.plan.problem import NestOption, TileAxis
from isamap.plan.schedule import NestSchedule

# What a register block and all of its rests may be together, in issues: a second or two of a C compiler.
MAX_ISSUES = 1024


def with_short_rests(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """The nest; where pieces for every rest are too much code, longer axes first have powers of two only."""
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
    """Tiles along an axis in a whole block and in all pieces of its rests."""
    whole = block.step // axis.tile
    if not axis.is_open:
        return whole
    cut = whole if axis.tile > 1 else 0
    return whole + cut + (sum(block.rest) // axis.tile if block.rest else whole * (whole - 1) // 2)


def _powers(axis: TileAxis, block: LoopStep) -> tuple[int, ...]:
    """Pieces that make every rest of a block: none where a block has no rest."""
    largest = block.step // axis.tile - (not block.is_dealt)
    return tuple(axis.tile << n for n in reversed(range(largest.bit_length())))
