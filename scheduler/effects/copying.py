"""Price copies into staging buffers, by the instructions that compute or by separate units.

A block that fits stays in a near cache until it is used. A larger one, or a whole copy, is written to a
memory where it fits, and read again. A copy in the order of the buffer returns to each row for every
register block's columns. A copy by rows reads each row once for all columns of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, largest, times, total
from isamap.plan.decisions import rows_of
from isamap.plan.problem import Cache, Problem, TileOperand
from isamap.scheduler.deciding.copy_orders import leaves_rows
from isamap.scheduler.deciding.software_pipelining import iterations_ahead, name_of, pipelined_operands
from isamap.scheduler.deciding.tiling import Tiling, extent_of, touched_bytes, usable_bytes, whole_bytes
from isamap.scheduler.deciding.window_buffers import filled_again
from isamap.scheduler.effects.flowing import busy_ns, longest_ns, units, waiting_ns
from isamap.scheduler.effects.least import StorageChoice
from isamap.scheduler.effects.levels import copying_afar, copying_shared
from isamap.scheduler.effects.overlapping import (
    added_by_copies,
    arrivals,
    buffers,
    busy_with_copies,
    exposed_by_lanes,
    interleaved_copies,
    movers,
)
from isamap.scheduler.effects.register_loads import least_loads
from isamap.scheduler.effects.residence import holds_all, rows_together
from isamap.source import add_up

# --- outgoing -------------------------------------------------------------------------------------------

# Price copies that leave the near caches before they are used: written to a farther level, and read again.
#
# A block of 9 MiB does not stay in a cache of 1 MiB until it is used. Writing it takes the bandwidth of the
# next cache, and reading it again takes as much; a block of all 75 MiB of the weights goes to memory. A block
# larger than the nearest cache goes to the second one; its return is among the misses. Packing 8 MB of bf16
# by rows took 0.24 to 0.44 ns a line longer into 64 and 128 KB than into 16 and 32
# (docs/decisions/0052-copy-orders.md).
#
# Results that are copied stay in their buffer for all of a sum. If blocks of the sum read 40 MiB of weights
# meanwhile, the copy is evicted to memory before the first of them adds to it, and is read again after the
# last one. Example: 128 x 7680 bf16 in a buffer of 4 MiB, whose lines are written four bytes at a time, took
# 2.5 ms to copy in and out, and 1.1 ms register block by register block (Zen 4;
# docs/decisions/0020-memory-model.md).


def round_trip_time(
    tiling: Tiling,
    operand: TileOperand,
    problem: Problem,
    repeats: Sequence[Cost],
    buffers: Cost,
    usable_bytes: Callable[[Cache], int],
) -> Cost:
    """Return the time to write blocks of an operand to a farther memory and to read them again.

    It is zero if a block stays in the nearest cache, if results stay in the second one, and for buffers in
    scratchpads. `repeats` are factors of how often the whole operand is copied, `buffers` is the number of
    copies of a block.
    """
    if operand.staging.homes[0] or not problem.caches or (operand.is_accumulator and tiling.space.splits_sum):
        return Const(0)
    if operand.is_accumulator:
        kept_bytes = touched_bytes(tiling.space, _while_copied(tiling, operand))
    else:
        around = [extent_of(tiling.space, axis, tiling.block) for axis in operand.axes]
        kept_bytes = times(operand.staging.staged_bytes, buffers, *around)
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
    """Return the extents that loops cover while a part of the results is in its buffer."""
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


# --- copying --------------------------------------------------------------------------------------------


def packing_time(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time to copy an operand into its buffer, and for accumulators also out of it."""
    space = tiling.space
    if (
        operand.staging.is_packed or operand.staging.flow is not None
    ):  # what flows is no work of the unit that computes
        return Const(0)
    values = space.stage_values(operand)
    once = (
        (2 if operand.is_accumulator else 1)
        * _count_filled(tiling, operand, problem)
        * operand.staging.pack_ns_per_element
    )
    afar_ns = copying_afar(tiling, operand, problem)
    once += afar_ns
    again = copied_again(tiling, operand)
    at_once = _at_once(tiling, operand, problem)
    moved_ns = 2 * whole_bytes(space, operand)[1] / _bandwidth_of(whole_bytes(space, operand)[1], problem)
    # Parts on threads that use the same elements fill a whole copy together.
    together = prod(count for name, count in space.option.parts if name not in operand.axes)
    filled = total([Const(once + moved_ns), _restart_time(tiling, operand, problem, Const(1))])
    whole = times(1 / together / operand.staging.iterations_of_copy, filled)
    costs = {0: Const(0), 1: added_by_copies(tiling, operand, at_once, afar_ns, again, problem), 2: whole}
    return Cases(space.stage(operand), tuple((value, costs[value]) for value in values))


def barriers(tiling: Tiling, problem: Problem) -> Cost:
    """Return the time of the barriers around copies into a memory that several lanes share.

    Lanes wait in front of a copy, until no lane reads what it replaces, and behind it, until all of it is there.
    One barrier does for both if copies are made ahead, into other buffers than those that are read. Operands share
    barriers: those of the operand that is copied most often count.
    """
    operands = tiling.space.option.operands
    return largest(_barriers(tiling, o, problem) for o in operands if o.staging.homes[0] in problem.private)


def _barriers(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    space = tiling.space
    blocks = [tiling.blocks[axis.name] for axis in space.axes if axis.name in operand.axes]
    every = times(problem.barrier_ns, *blocks, *copied_again(tiling, operand))
    by_block = times(2, every)
    if operand in pipelined_operands(space):
        counts = ((v, every if n else by_block) for v, n in iterations_ahead(space.option, operand))
        by_block = Cases(name_of(space, operand), tuple(counts))
    costs = {0: Const(0), 1: by_block, 2: Const(2 * problem.barrier_ns)}
    return Cases(space.stage(operand), tuple((value, costs[value]) for value in space.stage_values(operand)))


def _at_once(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time of an operand's copies per block if they are not pipelined."""
    once = (
        (2 if operand.is_accumulator else 1)
        * _count_filled(tiling, operand, problem)
        * operand.staging.pack_ns_per_element
    )
    once += copying_afar(tiling, operand, problem)
    again = copied_again(tiling, operand)
    shared = times(copying_shared(tiling, operand, problem), *again)
    parts = tiling.blocks.get(operand.layout.dense_axis, Const(1))
    begun = times(_restart_time(tiling, operand, problem, parts), *again)
    out = round_trip_time(tiling, operand, problem, again, buffers(tiling, operand), usable_bytes)
    return total([times(once, *again), shared, out, begun])


def _count_filled(tiling: Tiling, operand: TileOperand, problem: Problem) -> int:
    """Return the elements that a copy writes. Copies by registers write whole tiles."""
    followed = [axis for axis in tiling.space.option.axes if axis.name in operand.axes]
    existing = operand.staging.mover or operand.staging.homes[0] not in ("", *problem.private)
    return prod(a.extent if existing else ceil(a.extent / a.tile) * a.tile for a in followed)


def concurrent_copies(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Return the time of copies per block that separate units make while sums are computed."""
    return (
        interleaved_copies(tiling, operand, _at_once(tiling, operand, problem), problem)
        if operand.staging.is_concurrent
        else Const(0)
    )


def _restart_time(tiling: Tiling, operand: TileOperand, problem: Problem, parts: Cost) -> Cost:
    """Return the time to restart pieces of rows during copies. Units: nanoseconds.

    In buffer order each row restarts for every register block; by rows it restarts for each of the `parts`.
    If the rows come from memory, `residence` prices the starts of copies by rows.
    """
    space = tiling.space
    home = next((n for n, cache in enumerate(problem.caches) if holds_all(space, [cache])), None)
    if home == 0 or not operand.layout.pitch_bytes or not leaves_rows(space.option, operand):
        return Const(0)
    extents = {axis.name: axis.extent for axis in space.option.axes}
    rows = prod(extents[name] for name in operand.axes if name != operand.layout.dense_axis)
    stated = problem.memory_rows if home is None else problem.rows_behind[home - 1]
    one = stated.start_ns / problem.model.copied_rows_count
    one *= ceil(rows / rows_together(operand, problem.tlb))
    # Tiles that share a line are copied together.
    lines = ceil(extents[operand.layout.dense_axis] * operand.layout.tensor_bytes / problem.line_bytes)

    def pieces(count: Cost) -> Cost:
        return Threshold(count, lines, times(one, count), Const(one * lines))

    by_rows = Const(0) if home is None else pieces(parts)
    branches = ((0, pieces(tiling.steps[operand.layout.dense_axis])), (1, by_rows))
    return Cases(rows_of(space.statement, operand.name), branches)


def least_packing(way: StorageChoice) -> float:
    """Return the least time to copy every staged operand once, accumulators in both directions."""
    leak = way.problem.model.leak_factor
    return add_up(b.copied * _least_ns(b.operand, leak) for b in way.operands if b.copied)


def least_loads_and_copies(way: StorageChoice) -> float:
    """Return the least time of operand loads, and of copies that separate units make during sums.

    The exposed part of copies that are made on demand is not in it: that part is added on top.
    """
    hidden = 1 - way.problem.model.leak_factor
    made = (b.copied * _copied_ns(b.operand) for b in way.operands if _may_be_concurrent(b.operand))
    return least_loads(way) + hidden * add_up(made)


def _may_be_concurrent(operand: TileOperand) -> bool:
    return operand.staging.is_concurrent and not operand.is_accumulator


def _copied_ns(operand: TileOperand) -> float:
    """Return the time to copy an element, divided by the iterations that share the copy. Units: nanoseconds."""
    return operand.staging.pack_ns_per_element / operand.staging.iterations_of_copy


def _least_ns(operand: TileOperand, leak: float) -> float:
    """Return the least time of copying an element that is not hidden. Units: nanoseconds."""
    at_once = (2 if operand.is_accumulator else 1) * _copied_ns(operand)
    if _may_be_concurrent(operand):
        return leak * at_once
    if operand.staging.flow is not None:
        return 0.0
    if not operand.staging.mover:
        return at_once
    before = max(0.0, at_once - operand.staging.moved_ns_per_element) if operand.is_accumulator else 0.0
    return min(at_once, before + leak * operand.staging.moved_ns_per_element)


def copying_time(tiling: Tiling) -> dict[str, Sequence[Cost]]:
    """Return for each copying unit the time that each operand keeps it busy."""
    operands = tiling.space.option.operands
    again = {o.name: copied_again(tiling, o) for o in operands}

    def one(operand: TileOperand, unit: str) -> Cost:
        if operand.staging.flow is not None:
            return busy_ns(tiling, operand, unit, again[operand.name])
        return (
            busy_with_copies(tiling, operand, again[operand.name])
            if operand.staging.mover == unit
            else Const(0)
        )

    return {u: [one(o, u) for o in operands] for u in sorted({*movers(operands), *units(operands)})}


def waits(tiling: Tiling, computing: Cost, loaded: Cost) -> Cost:
    """Return the time of computing, with the waits for operands that are copied meanwhile.

    Lanes copy and compute in turn, but for copies that are made ahead. `loaded` is the time to load registers.
    """
    operands = tiling.space.option.operands
    again = {o.name: copied_again(tiling, o) for o in operands}
    if tiling.space.option.shares_work:
        return waiting_ns(tiling, computing, again)
    exposed = [_expose_fills(tiling, o, again[o.name]) for o in operands if o.staging.flow is not None]
    in_turn = total([largest([computing, loaded]), *exposed]) if exposed else Const(0)
    return largest([in_turn, *(arrivals(tiling, o, again[o.name]) for o in operands)])


def _expose_fills(tiling: Tiling, operand: TileOperand, again: Sequence[Cost]) -> Cost:
    space = tiling.space
    once = Const(longest_ns(operand.staging.flow.begun) if operand.staging.flow is not None else 0.0)
    costs = {0: Const(0), 1: exposed_by_lanes(tiling, operand, again), 2: once}
    return Cases(space.stage(operand), tuple((value, costs[value]) for value in space.stage_values(operand)))


def copied_again(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """Return factors whose product is how often a whole operand is copied block by block."""
    if not operand.is_accumulator:
        return [*_repeats(tiling, operand), *filled_again(tiling.space, operand)]
    # In a scratchpad sums come and go with each register block, where their tensor can hold them; else they
    # stay for all summing loops.
    come_and_go = operand.staging.homes[0] and not operand.staging.stage_whole
    sums = [axis for axis in tiling.space.axes if axis.is_reduction and come_and_go]
    return [tiling.blocks[axis.name] for axis in sums]


def _bandwidth_of(size_bytes: int, problem: Problem) -> float:
    """Return the bandwidth of the nearest memory that has room for this size. Units: bytes per nanosecond."""
    for cache in problem.caches:
        if size_bytes <= usable_bytes(cache):
            return cache.bandwidth_bytes_per_ns
    return problem.memory_bandwidth_bytes_per_ns


def _repeats(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """Return the factors by which loops outside an operand's copy repeat it, for axes that it does not depend on."""
    repeats: dict[str, list[Cost]] = {}
    for name, first, second in tiling.space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer.name not in operand.axes and inner.name in operand.axes:
                blocks = tiling.blocks[outer.name]
                repeated = Threshold(tiling.blocks[inner.name], 1, Const(1), blocks)
                branches = ((value, repeated), (1 - value, Const(1)))
                repeats.setdefault(outer.name, []).append(Cases(name, branches))
    return [largest(parts) for parts in repeats.values()]
