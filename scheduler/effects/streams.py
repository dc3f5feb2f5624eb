"""Price computation on inputs that stream from memory, with and without prefetch hints.

    time = 0.6 traffic + 1.8 computing      1.1 computing if lines are hinted (`fetching`)
           (at least the traffic)

These are the parameters of Zen 5; a machine states its own, as the `streams` of a link.

Processors prefetch along lines that follow each other, and out-of-order execution has only as many loads in
flight as its window holds. A row of 10 KB ends before its loads reach full speed. Pieces of rows that are
pages apart depend on the window alone, which holds fewer lines the more is computed on each. That is why
computing does not overlap with such traffic. If no loop runs inside a register block of a few rows, each
load continues with its own row in the next block, and the prefetcher follows it.

Measured on Zen 5 by schedules for 7680 x n x 2560 with weights in memory, f32 and bf16, one to four rows,
register blocks of 64 to 256 columns (docs/decisions/0020-memory-model.md). With one row there is little to
compute, and hints gain nothing: all of their own time is exposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from isamap.machine.timings import StreamTimes
from isamap.plan.cost import Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import Problem, TileOperand
from isamap.scheduler.deciding.fetching import in_rows
from isamap.scheduler.deciding.tiling import Tiling, by_stage
from isamap.scheduler.effects.following import if_in_sequence, if_near, if_swept, largest_stream, room_bytes
from isamap.scheduler.effects.hint_costs import by_asking


def row_start_times(
    tiling: Tiling,
    operand: TileOperand,
    problem: Problem,
    pieces: Sequence[Cost],
    each: Sequence[Cost],
    begun: Cost,
    copied: Cost,
) -> Cost:
    """Return the time to start the rows of a streamed input, or pieces of them.

    `pieces` are factors of how often each row starts. `each` are factors of the number of pieces per row,
    with those that a prefetcher follows. `begun` is the time without hints, `copied` the starts by copies.
    """
    option, axes = tiling.space.option, {axis.name: axis for axis in tiling.space.option.axes}
    stated = _stated_times(problem)
    rows = prod(axes[name].extent for name in operand.axes if name != operand.layout.dense_axis)
    along = in_rows(option, operand)
    early: Cost = times(stated.hinted_start_ns * rows, *pieces)
    long = ceil(axes[operand.layout.dense_axis].extent * operand.layout.tensor_bytes / stated.long_bytes)
    # Pieces that no prefetcher follows take no less than those that one follows, whatever is stated of rows.
    dear = stated.hinted_start_ns <= problem.memory_rows.start_ns
    short = [begun] if dear else [early, begun]
    if stated.long_start_ns is not None:
        # Loops that read one piece of each row before the next piece of the first start a stream with every
        # piece: prefetchers bring the next piece of a row in time only where more is computed meanwhile.
        unasked = times(stated.long_start_ns * rows, *each)
        shares = Const(stated.long_start_ns * rows * long)  # a shorter piece is over before it has taken all
        late = Threshold(times(*each), long, unasked, largest([shares, *short]))
    else:
        late = Threshold(times(*pieces), long, early, largest(short))
    if stated.hinted_long_start_ns is not None:
        begun_ns = stated.hinted_long_start_ns * rows
        early = largest(
            [early, Threshold(times(*each), long, times(begun_ns, *each), Const(begun_ns * long))]
        )
    if stated.swept_start_ns is not None:
        # A row is no sooner begun than a piece of it. Hinted, its beginning follows the end of another.
        row_ns = max(stated.swept_start_ns, stated.long_start_ns or 0.0, problem.memory_rows.start_ns)
        followed = Const(row_ns * rows)
        near_ns = max(stated.hinted_start_ns, stated.hinted_swept_start_ns or 0.0)
        near = if_near(tiling, operand, problem, Const(near_ns * rows), followed)
        late = if_swept(tiling, operand, problem, followed, late)
        early = if_swept(tiling, operand, problem, near, early)
        # Whole rows one after the other are one run of lines, each of which has a hint.
        early = if_in_sequence(tiling, operand, Const(0), early)
    if along:
        late = times(stated.row_start_ns * rows, *pieces)
        hinted_ns = _stated_or(stated.hinted_row_start_ns, stated.hinted_start_ns)
        early = _if_in_time(tiling, operand, problem, times(hinted_ns * rows, *pieces), late)
    direct = by_asking(tiling, operand, late, early)
    return by_stage(tiling.space, operand, direct, copied)


def exposed_stream(tiling: Tiling, traffic: Cost, computing: Cost, problem: Problem) -> Cost:
    """Return how long streamed traffic and computation take together, or 0 if nothing streams.

    The largest input counts.
    """
    option = tiling.space.option
    operand = largest_stream(option)
    if operand is None:
        return Const(0)
    # What is computed of several inputs on its way is counted in full, and compilers join half of it.
    stated = _stated_times(problem)
    shown, hinted_shown = stated.computing_factor, stated.hinted_computing_factor
    if in_rows(option, operand):
        shown = _stated_or(stated.row_computing_factor, shown)
        hinted_shown = _stated_or(stated.hinted_row_computing_factor, hinted_shown)
    early = times(hinted_shown, computing)
    late = times(shown, computing) if operand.registers else early
    # Of rows that loads follow, and that are asked for as well, the next ones come meanwhile.
    swept = if_near(tiling, operand, problem, Const(0), early)
    # Whole rows one after the other are read as rows along a sum are, without an end.
    row_factor = _stated_or(stated.hinted_row_computing_factor, stated.hinted_computing_factor)
    hinted = if_in_sequence(tiling, operand, times(row_factor, computing), early)
    late, in_time = (if_swept(tiling, operand, problem, *pair) for pair in ((early, late), (swept, hinted)))
    if in_rows(option, operand):
        in_time = _if_in_time(tiling, operand, problem, early, late)
    direct = by_asking(tiling, operand, late, in_time)
    return total([times(stated.traffic_factor, traffic), by_stage(tiling.space, operand, direct, late)])


def _stated_times(problem: Problem) -> StreamTimes:
    assert problem.memory_streams is not None, "inputs stream only where a machine says what that takes"
    return problem.memory_streams


def _stated_or(stated: float | None, otherwise: float) -> float:
    """Return the stated value, or the default without one."""
    return otherwise if stated is None else stated


def _if_in_time(tiling: Tiling, operand: TileOperand, problem: Problem, early: Cost, late: Cost) -> Cost:
    """Return `early` if hinted rows fit into the cache, else `late`, to which the hints add their time."""
    return Threshold(_iteration_bytes(tiling, operand), room_bytes(problem), early, largest([early, late]))


def _iteration_bytes(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return the bytes that a register block reads of an input whose rows lie along a sum."""
    axes = {axis.name: axis for axis in tiling.space.option.axes}
    parts = [
        (tiling.block if axes[name].is_reduction else tiling.step).get(name, Const(axes[name].extent))
        for name in operand.axes
    ]
    return times(operand.layout.tensor_bytes, *parts)
