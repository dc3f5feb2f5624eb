"""Price partial cache lines: two pieces of a row share a line, and each of them loads it.

    for n by 48 {             96 bytes of bf16 of each of 1024 rows: a line and a half
      stage b;                  the next part begins in the middle of a line

If the line is still in a near cache when the next piece is read, nothing is lost. Rows whose distance is a
multiple of the size of a cache way evict each other before. Data accessed in between evicts the line as well.
Parts of 96 bytes then read 4/3 of a tensor. On a Zen 4 guest 32 x 3072 x 1024 in bf16, B in the last cache,
took 5 % longer in parts of 48 columns than in parts of 192 (docs/decisions/0020-memory-model.md).
"""

from __future__ import annotations

from math import ceil, gcd

from isamap.plan.cost import Cases, Const, Cost, Threshold, times
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.space import MAX_UNROLLED, issues_along
from isamap.scheduler.deciding.tiling import Tiling, TilingLoop, extent_of, loops, rows_held, usable_bytes

# Limit of the search: so many register blocks are told apart by where they end; else the next smaller one counts.
TOGETHER = (1, 2, 4)


def line_bytes_of(problem: Problem) -> int:
    """Return the line size of the last cache, or 0 if it is unknown. Units: bytes."""
    return problem.caches[-1].line_bytes if problem.caches else 0


def part_before(piece_bytes: int, pitch_bytes: int, line_bytes: int) -> float:
    """Return the mean fraction of a line that lies before a piece, over all offsets at which pieces start."""
    return 1 - gcd(piece_bytes, pitch_bytes, line_bytes) / line_bytes


def if_near(
    tiling: Tiling, operand: TileOperand, problem: Problem, loop: TilingLoop, near: Cost, far: Cost
) -> Cost:
    """Return `near` if a cache before the last one still holds the data that a loop's body touches, else `far`.

    `near` must not exceed `far`, so that costs grow with their decisions.
    """
    cache = problem.caches[-2:][0]
    found, held = Threshold(loop.body_bytes, usable_bytes(cache), near, far), rows_held(operand, cache)
    if not held:
        return found
    rows = [
        extent_of(tiling.space, name, loop.inside)
        for name in operand.axes
        if name != operand.layout.dense_axis
    ]
    return Threshold(times(*rows), held, found, far)


def shared_by_copies(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the number of lines in each row that two copied parts share, and so load twice."""
    line_bytes, along = line_bytes_of(problem), operand.layout.dense_axis
    axis = next((axis for axis in tiling.space.register_axes if axis.name == along), None)
    known = operand.layout.tensor_bytes and operand.layout.pitch_bytes and not operand.layout.subscripts
    if axis is None or not line_bytes or not known:
        return Const(0)
    parts = tiling.blocks[axis.name]

    def again(issues: int) -> Cost:
        step = issues * axis.tile
        each = [
            part_before(n * step * operand.layout.tensor_bytes, operand.layout.pitch_bytes, line_bytes)
            for n in TOGETHER
        ]
        found: Cost = times(each[-1], parts)
        for count, part in reversed(list(zip(TOGETHER[1:], each, strict=False))):
            found = Threshold(parts, ceil(axis.extent / (count * step)), found, times(part, parts))
        return found

    most = min(issues_along(axis), MAX_UNROLLED)
    shared = Cases(tiling.space.unroll(axis), tuple((n, again(n)) for n in range(1, most + 1)))
    around = next(loop for loop in loops(tiling) if loop.axis == axis.name)
    return Threshold(parts, 1, Const(0), if_near(tiling, operand, problem, around, Const(0), shared))
