"""Price the exposed load time of inputs that are used faster than they arrive from distant memory.

Computing hides traffic only if both happen at the same time:

    for m by 153 {
      for n by 48 {
        for m by 9 {       17 times with the same 48 columns of B: the first loads come from memory
          for k by 1 {     during 9 x 48 products for each row; the later ones come from a near cache

Loading a row of 48 numbers takes 15 ns from memory at 12.4 bytes per ns. Its 27 issues take 4. The difference
is exposed, no matter how long the next sixteen register blocks compute. Each byte therefore counts for the
time by which it takes longer than all issues of a register block on it, at its source:

    bytes out of l3 * max(0, 1 / 32 - issues)  +  bytes out of memory * the remainder of 1 / 12.4 beyond that

Rows along a sum are short, and end before the prefetcher reaches full speed. Computing hides their loads from
memory if it takes longer by the factor that the machine states for such rows (`row_computing_factor`), mostly
twice as long. Data that was packed before has no rows.

An input that is used once counts with all of its traffic elsewhere, as does an input whose traffic bounds the
whole. If several inputs are exposed, only the one with the most exposed time counts: their overlap is not
known, and with this rule a faster unit never costs more.

Known errors: inputs that leave out three axes and more (filters of convolutions), and overlapping windows,
have no exposed time here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from isamap.plan.cost import Cases, Const, Cost, largest, times, total
from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand
from isamap.scheduler.deciding.fetching import in_rows, prefetch_level
from isamap.scheduler.deciding.space import MAX_UNROLLED, Space, issues_along
from isamap.scheduler.deciding.tiling import Tiling, by_stage
from isamap.scheduler.effects.hint_costs import if_in_time
from isamap.scheduler.effects.levels import Misses
from isamap.scheduler.effects.residence import holds_all
from isamap.source.records import dataclass

# Limit of the search: of how many axes that an input does not follow all combinations are listed.
MOST_AXES = 2


def exposed_loads(tiling: Tiling, problem: Problem, missed: Sequence[Misses]) -> Cost:
    """Return the largest exposed load time of any input. Units: nanoseconds."""
    return largest(
        _of_input(tiling, problem, operand, position, missed)
        for position, operand in enumerate(tiling.space.option.operands)
        if not (operand.is_accumulator or operand.prefetching.is_streamed or operand.layout.subscripts)
    )


def _of_input(
    tiling: Tiling, problem: Problem, operand: TileOperand, position: int, missed: Sequence[Misses]
) -> Cost:
    """Return the time by which an input's data arrive later than they are used. `streams` prices streamed inputs.

    Data that hints have prefetched come from the cache that the hints name.
    """
    shows = list(_of_levels(tiling, problem, operand, position, missed))
    late = total(cost for _, cost in shows)
    into = prefetch_level(tiling.space.option, operand)
    if (
        not operand.prefetching.is_late or not into or not missed
    ):  # parts for threads may fit where the whole does not
        return late
    cache, _ = operand.prefetching.hints[into - 1]
    near = {c.name for c in problem.caches[: 1 + [c.name for c in problem.caches].index(cache)]}
    early = total(cost for level, cost in shows if level.source in near)
    return by_stage(
        tiling.space, operand, if_in_time(tiling, operand, missed[-1].bandwidth, late, early), late
    )


def _of_levels(
    tiling: Tiling, problem: Problem, operand: TileOperand, position: int, missed: Sequence[Misses]
) -> Iterator[tuple[Misses, Cost]]:
    """Yield the exposed load time of an input for each level that it comes from."""
    space = tiling.space
    element_bytes = max(operand.staging.staged_bytes, operand.layout.tensor_bytes)
    axes = [axis for axis in space.axes if axis.name not in operand.axes]
    if not element_bytes or len(axes) > MOST_AXES or any(axis.is_reduction for axis in axes):
        return
    tiles = prod(axis.tile for axis in space.option.axes if axis.name in operand.axes)
    issue_ns = space.option.interval_ns / (tiles * element_bytes)
    is_far = not holds_all(space, problem.caches)
    before_ns = 0.0
    for level in missed:
        byte_ns = 1 / level.bandwidth
        hides = _hides(space.option, operand, problem, is_far and level is missed[-1])
        if byte_ns > before_ns and hides * byte_ns > issue_ns:
            left = _exposed_time(space, axes, _Byte(byte_ns, before_ns, hides), issue_ns)
            yield level, times(level.lines[position], left)
            before_ns = byte_ns


def _hides(option: NestOption, operand: TileOperand, problem: Problem, is_far: bool) -> float:
    """Return the factor by which computing must take longer than the traffic in order to hide all of it."""
    stated = problem.memory_streams
    if not is_far or stated is None or operand.staging.is_packed or not in_rows(option, operand):
        return 1.0
    shown = stated.row_computing_factor
    return 1.0 + (stated.computing_factor if shown is None else shown)


@dataclass(frozen=True, slots=True)
class _Byte:
    """The time of a byte from a memory, and the part of it that is exposed already. Units: nanoseconds.

    Issues that take `hides` times as long hide all of it.
    """

    ns: float
    before_ns: float
    hides: float

    def part(self, issues_ns: float) -> float:
        """Return the exposed time of a byte beyond that from a nearer memory, given the time of its issues."""
        left = max(0.0, self.hides * self.ns - max(self.before_ns, issues_ns))
        return min(self.ns - self.before_ns, left) / self.ns


def _exposed_time(space: Space, axes: Sequence[TileAxis], byte: _Byte, issue_ns: float) -> Cost:
    """Return the exposed load time of a byte. The unroll factors decide how many issues hide it."""
    if not axes:
        return Const(byte.part(issue_ns))
    axis, *others = axes
    most = min(issues_along(axis), MAX_UNROLLED)
    if not others:
        return Cases(space.unroll(axis), _parts(most, byte, issue_ns))
    branches = ((n, _exposed_time(space, others, byte, n * issue_ns)) for n in range(1, most + 1))
    return Cases(space.unroll(axis), tuple(branches))


@lru_cache(maxsize=4096)
def _parts(most: int, byte: _Byte, issue_ns: float) -> tuple[tuple[int, Const], ...]:
    """Return the exposed load time of a byte for each number of issues that use it."""
    return tuple((n, Const(byte.part(n * issue_ns))) for n in range(1, most + 1))
