"""Price fill buffers: prefetched lines occupy buffers that missing loads need as well.

    for n by 32 {
      prefetch a ahead 1 into l1;      32 rows of 8 KB, each of whose lines holds one of 16 buffers for 48 ns
      hold;
      for k by 128 { … }                 a tile load that misses the nearest cache finds no free buffer

The processor's own prefetcher loads rows along a sum in parallel with the computation. With a hint, each line
occupies a buffer until it arrives, and the computation waits for its own loads meanwhile:

    time = computing + lines * time of a buffer / buffers

Pieces of rows, which no hardware prefetcher follows, occupy buffers without a hint as well: they cost nothing
here. Judged by 16 products with AMX and by seven on AVX-512 (docs/decisions/0024-prefetch-hints.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isamap.plan.cost import Cases, Const, Cost, times, total
from isamap.plan.decisions import prefetch_of
from isamap.plan.problem import Problem
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.effects.levels import Misses


def buffers_filled(space: Space, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield how long hinted rows along sums fill all buffers, of each input. Units: nanoseconds."""
    for position, operand in enumerate(space.option.operands):
        # Of what streams, `streams` says what hints take, unless lines of memory have a time of their own.
        is_said = operand.prefetching.is_streamed and not problem.memory_rows.fill_ns
        if operand.prefetching.hints and in_rows(space.option, operand) and not is_said:
            filled = total(_fill_times(position, missed, problem))
            into = ((value + 1, filled) for value in range(len(operand.prefetching.hints)))
            yield Cases(prefetch_of(space.statement, operand.name), ((0, Const(0)), *into))


def _fill_times(position: int, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield the time per memory level: the lines of a level take what exceeds the time of the nearer one."""
    near, before_ns = problem.rows_behind[0], 0.0
    for level, rows in zip(missed, problem.rows_behind, strict=False):
        ns = max(0.0, rows.fill_ns - before_ns)
        before_ns = max(before_ns, rows.fill_ns)
        yield times(ns * level.bandwidth / (near.fill_count * problem.line_bytes), level.lines[position])
