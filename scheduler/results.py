"""What it costs to begin rows of results out of far caches, whenever a register block takes a piece of each.

    for k by 256 {            C[m, n] comes back for each block of the sum
      for n by 16 {             64 bytes of each of 240 rows
        for m by 6 {            the next six rows: six pieces that nobody has asked for
          hold;
          for k by 1 { ... }

The first products of a register block wait for its sums, and what is computed afterwards hides nothing of
that. Pieces of results are begun as those of inputs are (`residence`), which `isamap hw calibrate`
measures; where the loop over columns stands inside, whoever fetches ahead follows the few rows. What is
staged is copied a few rows at a time, and so each row of a part is begun once.

Measured on a Zen 3 guest (AVX2, register blocks of 6 x 16 f32): a block takes 107 ns longer with C in the
last cache and 125 with C in memory than with C in the second one, for sums of 64 and of 200 alike, where
the bandwidth of its lines is 18 and 29 ns (docs/decisions/0032-results-from-afar.md).
"""

from __future__ import annotations

from math import ceil, prod

from isamap.plan.cost import Const, Cost, times, total
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.following import begun, begun_by_copies
from isamap.scheduler.residence import holds_all, rows_together
from isamap.scheduler.tiling import Tiling, by_stage, loops, reloads


def results_begun(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """The time to begin pieces of an accumulator's rows, out of each cache or memory that they come from.

    What comes from farther takes what it takes longer than out of the level before. Units: nanoseconds.
    """
    space, nest = tiling.space, loops(tiling)
    # What comes and goes by way of a scratchpad is priced where it is moved.
    if not (operand.dense_axis and operand.pitch_bytes) or operand.subscripts or operand.homes[0]:
        return Const(0)
    others = [a.extent for a in space.option.axes if a.name in operand.axes and a.name != operand.dense_axis]
    rows = ceil(prod(others) / rows_together(operand, problem.tlb))
    found: list[Cost] = []
    before_ns = 0.0
    for level, stated in enumerate(problem.rows_behind):
        more_ns = rows * (stated.start_ns - before_ns)
        if more_ns <= 0 or holds_all(space, problem.caches[: level + 1]):
            continue
        before_ns = stated.start_ns
        direct, staged = reloads(space, operand, nest, problem.caches[: level + 1])
        in_place = times(more_ns, *begun(tiling, operand, stated.swept_count), *direct)
        copied = times(more_ns, begun_by_copies(tiling, operand), *staged)
        found.append(by_stage(space, operand, in_place, copied))
    return total(found)
