"""What copies cost that leave the near caches before they are used: out to where a block fits, and back.

A block of 9 MiB does not stay in a cache of 1 MiB until it is used. Writing it takes the bandwidth of the
cache behind, reading it again as much; a block of all 75 MiB of the weights goes out to memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isamap.plan.cost import Const, Cost, Threshold, times
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.tiling import Tiling, extent_of, whole_bytes


def out_and_back(
    tiling: Tiling,
    operand: TileOperand,
    problem: Problem,
    repeats: Sequence[Cost],
    usable_bytes: Callable[[Cache], int],
) -> Cost:
    """Of an input copied per block, the time in which its blocks go out and come back, beside the copy's own.

    Nothing where a block stays in the second cache, or the only one; nor of buffers in scratchpads. `repeats`
    are factors of how often the whole of it is copied.
    """
    if operand.is_accumulator or operand.homes[0] or not problem.caches:
        return Const(0)
    moved_bytes = 2 * whole_bytes(tiling.space, operand)[1]
    around = [extent_of(tiling.space, axis, tiling.block) for axis in operand.axes]
    block_bytes = times(operand.staged_bytes, *around)
    found = times(moved_bytes / problem.memory_bandwidth_bytes_per_ns, *repeats)
    near, *behind = problem.caches[1:] or problem.caches
    for cache in reversed(behind):
        within = times(moved_bytes / cache.bandwidth_bytes_per_ns, *repeats)
        found = Threshold(block_bytes, usable_bytes(cache), within, found)
    return Threshold(block_bytes, usable_bytes(near), Const(0), found)
