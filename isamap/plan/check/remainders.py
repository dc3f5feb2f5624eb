"""Check that every remainder of a block is covered, and the code size: part of the judge of schedules.

`for m by 12 rest 8 4 2 1` composes the remainders 1 to 11 from these pieces, each used at most once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from isamap.plan.loops import LoopStep
from isamap.plan.problem import NestOption, TileAxis
from isamap.plan.schedule import NestSchedule
from isamap.source import Diagnostic

MAX_ISSUES = 4096
"""The most issues of a register block with all its remainders: more take C compilers minutes."""


def check_rests(nest: NestSchedule, option: NestOption) -> Iterator[Diagnostic]:
    """Yield the errors in the pieces in which a nest performs remainders."""
    whole = issues = 1
    for axis in option.axes:
        loops = [loop for loop in nest.loops if loop.axis == axis.name]
        around = [loop for loop in loops if not loop.is_unrolled]
        block = around[-1] if around and loops[-1].is_unrolled else None
        for loop in around:
            if loop.rest:
                yield from _check_pieces(nest, axis, loop, is_block=loop == block)
        if block is not None:
            whole *= block.step // axis.tile
            issues *= _tiles(axis, block, around)
    if issues > MAX_ISSUES and issues > whole:
        yield Diagnostic(
            "schedule-too-large",
            f"nest {nest.statement}: a register block and its remainders have {issues} issues together, "
            f"at most {MAX_ISSUES} can be",
            help="write fewer sizes behind `rest`, such as `rest 8 4 2 1`, or unroll less",
        )


def _tiles(axis: TileAxis, block: LoopStep, around: list[LoopStep]) -> int:
    """Return tiles of an axis in a whole block and in all of its pieces."""
    whole = block.step // axis.tile
    nested = all(loop.step % block.step == 0 for loop in around)
    if nested and not axis.is_open:
        return whole
    if block.rest:
        pieces = sum(size // axis.tile for size in block.rest)
    else:
        pieces = whole * (whole - 1) // 2  # one piece for each number of tiles, 1 to whole - 1
    return whole + pieces + (whole if axis.tile > 1 else 0)


def _check_pieces(
    nest: NestSchedule, axis: TileAxis, loop: LoopStep, *, is_block: bool
) -> Iterator[Diagnostic]:
    sizes = loop.rest
    where = f"nest {nest.statement}, `for {axis.name} by {loop.step} rest {' '.join(map(str, sizes))}`"
    whole = loop.step if loop.is_dealt else loop.step - axis.tile
    if not is_block or not whole:
        yield Diagnostic(
            "schedule-tiling",
            f"{where}: `rest` belongs to the innermost loop over blocks of unrolled tiles",
            help=f"leave it out, or write `unroll {axis.name} by {axis.tile}` inside",
        )
        return
    makes_all = (
        sizes[-1] == axis.tile
        and all(size % axis.tile == 0 for size in sizes)
        and all(size > after for size, after in pairwise(sizes))
        and all(size <= 2 * after for size, after in pairwise(sizes))
        and sizes[0] <= whole < 2 * sizes[0]
    )
    if not makes_all:
        yield Diagnostic(
            "schedule-tiling",
            f"{where}: these pieces do not compose every remainder up to {whole}, each used at most once",
            notes=(f"they are multiples of {axis.tile} and end with it; each is at most twice the next one",),
            help=f"write `rest {' '.join(map(str, halves(whole, axis.tile)))}`",
        )


def halves(whole: int, tile: int) -> tuple[int, ...]:
    """Return the fewest pieces that make every number of tiles up to `whole` elements: powers of two."""
    found = [tile]
    while 2 * found[-1] <= whole:
        found.append(2 * found[-1])
    return tuple(reversed(found))
