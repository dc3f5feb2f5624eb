"""Price copies that leave the near caches before they are used: written to a farther level, and read again.

A block of 9 MiB does not stay in a cache of 1 MiB until it is used. Writing it takes the bandwidth of the
next cache, and reading it again takes as much; a block of all 75 MiB of the weights goes to memory. A block
larger than the nearest cache goes to the second one; its return is among the misses. Packing 8 MB of bf16
by rows took 0.24 to 0.44 ns a line longer into 64 and 128 KB than into 16 and 32
(docs/decisions/0052-copy-orders.md).

Results that are copied stay in their buffer for all of a sum. If blocks of the sum read 40 MiB of weights
meanwhile, the copy is evicted to memory before the first of them adds to it, and is read again after the
last one. Example: 128 x 7680 bf16 in a buffer of 4 MiB, whose lines are written four bytes at a time, took
2.5 ms to copy in and out, and 1.1 ms register block by register block (Zen 4;
docs/decisions/0020-memory-model.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from isamap.plan.cost import Cases, Const, Cost, Threshold, times
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.deciding.tiling import Tiling, extent_of, touched_bytes, whole_bytes


def out_and_back(
    tiling: Tiling,
    operand: TileOperand,
    problem: Problem,
    repeats: Sequence[Cost],
    buffers: Cost,
    usable_bytes: Callable[[Cache], int],
) -> Cost:
    """Of an operand copied per block, the time in which its blocks go out and come back, beside the copy.

    Nothing where a block stays in the nearest cache, or results do in the second; nor of buffers in
    scratchpads. `repeats` are factors of how often the whole of it is copied, `buffers` how many copies of a
    block there are.
    """
    if operand.homes[0] or not problem.caches or (operand.is_accumulator and tiling.space.splits_sum):
        return Const(0)
    if operand.is_accumulator:
        kept_bytes = touched_bytes(tiling.space, _while_copied(tiling, operand))
    else:
        around = [extent_of(tiling.space, axis, tiling.block) for axis in operand.axes]
        kept_bytes = times(operand.staged_bytes, buffers, *around)
    moved_bytes = 2 * whole_bytes(tiling.space, operand)[1]
    moved = times(moved_bytes / problem.memory_bandwidth_bytes_per_ns, *repeats)
    first, *others = problem.caches
    near, *behind = others or [first]
    for cache in reversed(behind):
        within = times(moved_bytes / cache.bandwidth_bytes_per_ns, *repeats)
        moved = Threshold(kept_bytes, usable_bytes(cache), within, moved)
    if not operand.is_accumulator:
        out = times(moved_bytes / 2 / near.bandwidth_bytes_per_ns if others else 0.0, *repeats)
        stays = Threshold(kept_bytes, usable_bytes(first), Const(0), out)
        return Threshold(kept_bytes, usable_bytes(near), stays, moved)
    moved = Threshold(kept_bytes, usable_bytes(near), Const(0), moved)
    # Where a register block takes all of the sum, its own part is all that is copied at once.
    found: Cost = Const(0)
    for axis in tiling.space.axes:
        if axis.is_reduction:
            found = Threshold(tiling.blocks[axis.name], 1, found, moved)
    return found


def _while_copied(tiling: Tiling, operand: TileOperand) -> Mapping[str, Cost]:
    """Return how far loops move along each axis while a part of results is in its buffer: to the end of all sums."""
    space = tiling.space
    found = {
        axis.name: Const(axis.extent) if axis.is_reduction else tiling.block[axis.name] for axis in space.axes
    }
    for name, first, second in space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer.is_reduction and inner.name in operand.axes:
                part = found[inner.name]
                inside = Threshold(tiling.blocks[outer.name], 1, part, Const(inner.extent))
                found[inner.name] = Cases(
                    name, ((0, part), (1, inside)) if value else ((0, inside), (1, part))
                )
    return found
