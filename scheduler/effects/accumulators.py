"""Price the loads of accumulators into registers, and their stores."""

from __future__ import annotations

from math import prod

from isamap.plan.cost import Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import CarriedValues, Problem, TileOperand
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.sums import keeps_sums
from isamap.scheduler.deciding.tiling import Tiling, by_stage, rows_apart
from isamap.scheduler.effects.following import if_followed
from isamap.scheduler.effects.least import StorageChoice
from isamap.scheduler.effects.overlapping import accumulator_loads
from isamap.source import add_up

# --- carrying -------------------------------------------------------------------------------------------

# Price an ordered loop inside a register block that carries values in registers between iterations.
#
#     for m by 4 {        four rows of x and of y, a step of each per iteration
#       carry n;
#       unroll m by 1 { issue; }
#
# An iteration waits for the values of the previous one, so a block of one row takes as long as one of four.
# If a block has more rows than the nearest cache holds at a time, every line is evicted before its next use,
# and each step loads a line from the next cache. Measured on an Emerald Rapids guest, sums along rows of 4
# KB, both arrays: 0.5 ns an element with 2 and 4 rows, 0.7 with 8, 3.7 with 16; with rows that do not share
# sets 0.45 with 16 rows.


def _reload_time(tiling: Tiling, carried: CarriedValues, problem: Problem) -> Cost:
    """Return the time of lines that each step reloads from the next cache.

    Lines are reloaded if more rows are read in parallel than the cache sets that they share can hold.
    """
    if not carried.pitches or not problem.caches or not problem.caches[0].ways:
        return Const(0)
    held = min(rows_apart(pitch, problem.caches[0]) for pitch in carried.pitches) // len(carried.pitches)
    axes = tiling.space.option.axes
    every = Const(_line_ns(problem) * len(carried.pitches) * prod(axis.extent for axis in axes))
    rows = times(*(tiling.step.get(axis.name, axis.extent) for axis in axes))
    return Threshold(rows, held, Const(0), every)


def _line_ns(problem: Problem) -> float:
    """Return the time of a line from the second cache for rows in one cache set, or 0 if it is not stated."""
    nearest, *farther = problem.caches
    bytes_per_ns = farther[0].bandwidth_bytes_per_ns if farther else problem.memory_bandwidth_bytes_per_ns
    return problem.rows_behind[0].crowded_piece_ns or nearest.line_bytes / bytes_per_ns


# --- accumulators ---------------------------------------------------------------------------------------


def in_and_out(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time to move accumulators to and from registers, and the latency of the last sums.

    If loads follow rows out of memory, these moves wait for the same lines and are as exposed as other moves.
    """
    space = tiling.space
    if operand.staging.flow is not None:
        return Const(0)  # among what flows
    again, loads = _repeats_of_sums(tiling, operand)
    moved = moves_of_sums(tiling, operand, operand.costs.direct_ns or 0.0, operand.costs.staged_ns or 0.0)
    if space.option.carried is not None:
        # The time of one iteration over all register blocks: moves of carried values, latency, lost lines.
        chain = times(space.option.carried.chain_ns, *(tiling.steps[axis.name] for axis in tiling.space.axes))
        moved = total([largest([moved, chain]), _reload_time(tiling, space.option.carried, problem)])
    held = total([moved, times(space.option.latency_ns, *loads) if again else Const(0)])
    return if_followed(tiling, problem, times(problem.model.leak_factor, held), held)


def moves_of_sums(tiling: Tiling, operand: TileOperand, direct_ns: float, staged_ns: float) -> Cost:
    """Return the time to move accumulators, given the time of one tile in place and from a buffer."""
    space, (again, _) = tiling.space, _repeats_of_sums(tiling, operand)
    own = prod(issues_along(axis) for axis in space.option.axes if axis.name in operand.axes)
    return by_stage(space, operand, times(own, direct_ns, *again), times(own, staged_ns, *again))


def _repeats_of_sums(tiling: Tiling, operand: TileOperand) -> tuple[list[Cost], list[Cost]]:
    """Return factors of the moves of one tile of sums, and factors of the moves of register blocks."""
    space = tiling.space
    again: list[Cost] = [tiling.blocks[axis.name] for axis in space.axes if axis.name not in operand.axes]
    loads = accumulator_loads(tiling)
    if keeps_sums(space.option) and again:
        register_blocks = times(*(tiling.steps[axis.name] for axis in space.register_axes))
        again = [Threshold(register_blocks, 1, Const(1), times(*again))]
        loads = [register_blocks, *again]
    return again, loads


def least_in_and_out(way: StorageChoice) -> float:
    """Return the least time to move each accumulator once.

    Outlines do not know yet which inputs stream.
    """
    streams = way.problem.memory_streams
    follows = streams is not None and streams.swept_start_ns is not None
    shown = way.problem.model.leak_factor if follows else 1.0
    return shown * add_up(b.moved_ns for b in way.operands if b.operand.is_accumulator)
