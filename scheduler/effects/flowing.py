"""Price data movement through scratchpads by separate units: busy times and waits.

    load    A  ##A ##A ##A ##A          a DMA engine fills one copy of a buffer while the other is read;
    execute     ###### ###### ######    sums of a block are taken out while those of the next are computed
    store              ##     ##   ##

Units work in parallel, each through its own work in order, so the busiest unit bounds the whole. Some waits
are added: the first buffers are filled before anything is computed, and the last results leave after it. If
a buffer has one copy, its next contents wait until the last sweep has read the old ones. Sums that stay in
one copy are read before the next ones start there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Threshold, largest, times, total
from isamap.plan.problem import Busy, Flow, TileAxis, TileOperand
from isamap.scheduler.deciding.scratch import BLOCK, WHOLE
from isamap.scheduler.deciding.software_pipelining import iterations_ahead, name_of, pipelined_operands
from isamap.scheduler.deciding.space import MAX_UNROLLED, issues_along
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.deciding.window_buffers import reaches_of
from isamap.scheduler.effects.overlapping import accumulator_loads
from isamap.scheduler.effects.register_loads import loads
from isamap.source import add_up

# --- last results ---------------------------------------------------------------------------------------

# Price the results that leave a scratchpad after all computation.


def last_results(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the store times after the last sum that do not overlap with computing the last tiles."""
    option = tiling.space.option
    tile_ns = _store_ns(tiling, operand, flow)
    yield from _late_results(tiling, operand, flow)
    block = [Decision(tiling.space.unroll(a)) for a in tiling.space.register_axes if a.name in operand.axes]
    yield Const(min(tile_ns, option.interval_ns))
    yield times(max(0.0, tile_ns - option.interval_ns), *block)


def waits_after_sums(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the waits after dependent sums. A single buffer has the last results' waits after each block.

    They do so if storing them and initialising the next ones takes longer than the computation.
    """
    option, space = tiling.space.option, tiling.space
    whole = total(last_results(tiling, operand, flow))
    if (flow.first_ns + longest_ns(flow.begun)) / tiles_of(tiling, operand) <= option.interval_ns:
        yield whole
        return
    late = total(_late_results(tiling, operand, flow))
    yield (
        Cases(name_of(space, operand), ((0, late), (1, whole)))
        if operand in pipelined_operands(space)
        else late
    )


def _late_results(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the latency of the last tile after its issue, and that of its result after its unit is free."""
    option, space = tiling.space.option, tiling.space
    yield Const(max(0.0, flow.latency_ns - _store_ns(tiling, operand, flow)))
    late = Const(max(0.0, option.latency_ns - option.interval_ns))  # of one copy, it counts for each block
    if operand in pipelined_operands(space):
        yield Cases(name_of(space, operand), ((0, Const(0)), (1, late)))


def _store_ns(tiling: Tiling, operand: TileOperand, flow: Flow) -> float:
    """Return the time to store a tile, or 0 if the computing unit stores it, whose time includes that."""
    others = tuple((unit, ns) for unit, ns in flow.finished if unit != tiling.space.option.unit)
    return longest_ns(others) / tiles_of(tiling, operand)


def tiles_of(tiling: Tiling, operand: TileOperand) -> int:
    """Return the number of tiles of an operand."""
    return prod(issues_along(axis) for axis in tiling.space.option.axes if axis.name in operand.axes)


# --- flowing --------------------------------------------------------------------------------------------


# Source: `isamap/simulate/events.py`, whose times these three approximate by steps. Up to so many sweeps over a
# buffer of one copy, with the share of computing that its filling waits for: it
# hides behind the last sweep and the next first one. Of more sweeps, or of more issues than are on their way
# at once beside those of the sums, it waits for all of it.
SWEEPS = ((2, 0.0), (4, 1 / 2))
# Of what fills a buffer of two copies, in up to so many times the issues that are on their way at once: the
# share that is issued before what is computed is, which waits for it.
BEFORE = ((1.0, 0.0), (1.5, 1 / 6), (2.5, 1 / 2), (5.0, 3 / 4))
# Up to so many of which the last one counts, where filling hides behind that alone.
LAST_SWEEPS = (1, 2, 4)


def operands_in_flow(operands: Sequence[TileOperand]) -> list[tuple[TileOperand, Flow]]:
    """Return the operands that separate units move, with the times of their moves."""
    return [(o, o.staging.flow) for o in operands if o.staging.flow is not None]


def units(operands: Sequence[TileOperand]) -> tuple[str, ...]:
    """Return the units that move operands or partial sums, and the shared links that they use."""
    flows = [flow for _, flow in operands_in_flow(operands)]
    found = {u for f in flows for busy in (f.begun, f.finished, f.around, f.between) for u, _ in busy}
    return tuple(sorted(found))


def busy_ns(tiling: Tiling, operand: TileOperand, unit: str, again: Sequence[Cost]) -> Cost:
    """Return how long an operand keeps a unit busy. The factors `again` say how often it is moved."""
    flow = operand.staging.flow
    if flow is None:
        return Const(0)
    if not operand.is_accumulator:
        once = Const(unit_ns(flow.begun, unit))
        moved = Cases(
            tiling.space.stage(operand),
            tuple(
                (value, times(once, *again) if value == 1 else once if value else Const(0))
                for value in tiling.space.stage_values(operand)
            ),
        )
        others = (tiling.steps[a.name] for a in tiling.space.axes if a.name not in operand.axes)
        return total([moved, times(unit_ns(flow.loaded, unit), *others)])
    around = Const(unit_ns(flow.begun, unit) + unit_ns(flow.finished, unit) + unit_ns(flow.around, unit))
    return total([around, between_parts(tiling, flow, unit)])


def waiting_ns(tiling: Tiling, computing: Cost, again: Mapping[str, Sequence[Cost]]) -> Cost:
    """Return the time of computing with all waits, or that of the busiest unit, or 0 without separate units.

    A unit counts with the fills before its work and the results behind it.
    """
    operands = tiling.space.option.operands
    flows = operands_in_flow(operands)
    if not flows:
        return Const(0)
    before = [c for o, f in flows if not o.is_accumulator for c in _first_fills(tiling, o, f)]
    behind = [c for o, f in flows if o.is_accumulator for c in last_results(tiling, o, f)]
    sums = [_exchange_time(tiling, o, f, again[o.name]) for o, f in flows if o.is_accumulator]
    left = [c for o, f in flows if o.is_accumulator for c in waits_after_sums(tiling, o, f)]
    found = [total([computing, *sums, *before, *left])]
    for operand, flow in flows:
        if not operand.is_accumulator:
            swept = _fills(tiling, operand, flow, computing, again[operand.name])
            found.append(total([swept, *sums, *left]))
    for first, second in combinations([o for o, _ in flows if not o.is_accumulator], 2):
        refilled = _refill_time(tiling, first, second, computing, again)
        found.append(total([refilled, *sums, *left]))
    inputs = [o for o, _ in flows if not o.is_accumulator]
    filling = {
        u: total([_within_parts(tiling, o, u, again[o.name]) for o in inputs]) for u in units(operands)
    }
    for operand, flow in flows:
        if operand.is_accumulator and flow.between:
            begun = Threshold(parts_of(tiling), 1, Const(0), Const(longest_ns(flow.begun)))
            found.append(total([*before, begun, in_parts(tiling, flow, computing, filling)]))
    for operand, flow in flows:
        if operand.is_accumulator:
            others = [
                o
                for o, _ in flows
                if not o.is_accumulator and o.staging.mover and o.staging.mover == operand.staging.mover
            ]
            busy = [busy_ns(tiling, o, o.staging.mover, again[o.name]) for o in others]
            if not tiling.space.option.is_sum:  # a unit that waits for a result brings no inputs meanwhile
                turns = _turns(tiling, operand, flow, computing, again[operand.name])
                found.append(total([turns, largest([total(before), total(busy)])]))
            iterations = _alternating_buffers(tiling, operand, flow, total([computing, *busy]))
            found.append(total([iterations, *before]))
    late = [_refills(tiling, o, f, again[o.name]) for o, f in flows if not o.is_accumulator]
    for unit in units(operands):
        brings = any(unit_ns(f.begun, unit) for o, f in flows if not o.is_accumulator)
        takes = any(unit_ns(f.finished, unit) for _, f in flows)
        busy = [busy_ns(tiling, o, unit, again[o.name]) for o, _ in flows]
        busy += _through_banks(tiling, unit)
        alone = _of_last_fills(tiling, flows) if brings else _of_block(tiling)
        if unit == tiling.space.option.unit:  # it computes as well, and then no block stands alone
            busy.append(computing)
            alone, takes = Const(0), False  # what it takes out last is on its way behind that
        elif any(crossed == unit and not name for crossed, name, _ in tiling.space.option.banked):
            alone = Const(0)  # issues cross it while they compute
        found.append(total([*busy, *late, alone, *(() if brings else before), *(() if takes else behind)]))
    return largest(found)


def _within_parts(tiling: Tiling, operand: TileOperand, unit: str, again: Sequence[Cost]) -> Cost:
    """Return how long an input keeps a unit busy while parts of sums are computed.

    A block that serves a whole part comes before it, of two copies while the part before is computed.
    """
    axes = [axis for axis in tiling.space.axes if axis.name in operand.axes and not axis.is_reduction]
    blocks = times(*(tiling.blocks[axis.name] for axis in axes))
    busy = busy_ns(tiling, operand, unit, again)
    return Threshold(blocks, 1, _by_copies(tiling, operand, busy, Const(0)), busy)


def _through_banks(tiling: Tiling, memory: str) -> Iterator[Cost]:
    """Yield how long computing, and the loads into registers, keep all banks of a memory busy."""
    option = tiling.space.option
    operands = {o.name: o for o in option.operands}
    for banked, name, ns in option.banked:
        if banked == memory and name:
            yield times(ns, loads(tiling, operands[name]))
        elif banked == memory:
            yield Const(ns * prod(issues_along(axis) for axis in option.axes))


def _of_block(tiling: Tiling) -> Cost:
    """Return the time of one register block, which overlaps with nothing at the start or at the end."""
    option, space = tiling.space.option, tiling.space
    unrolled = [Decision(space.unroll(axis)) for axis in space.register_axes]
    issues = prod(issues_along(axis) for axis in option.axes if axis.is_reduction)
    return times(issues * option.interval_ns, *unrolled)


def _fills(tiling: Tiling, operand: TileOperand, flow: Flow, computing: Cost, again: Sequence[Cost]) -> Cost:
    """Return the time to fill a single buffer, and of the computing that waits for it. It is 0 for two copies."""
    option = tiling.space.option
    axes = [a for a in option.axes if a.name in operand.axes and a.name in tiling.block]
    filled, late = times(longest_ns(flow.begun), *again), _load_delay(tiling, operand, flow, again)
    serial = total([filled, computing, late])
    early = _filled_early(tiling, operand, flow, computing, again)
    if operand.staging.windows:
        windows = _swept_windows(tiling, operand, flow, filled, total([computing, late]))
        return _by_copies(tiling, operand, _in_queues(tiling, operand, flow, windows, serial), early)
    sweeps, waits = _sweeps(tiling, operand, inside=True), serial
    for most, share in reversed(SWEEPS):
        part = total([filled, times(share, computing), *([late] if share else [])])
        waits = Threshold(sweeps, most, part, waits)
    waits = _in_queues(tiling, operand, flow, waits, serial)
    # The first tile of each filling waits for its last use before, and what is computed waits for it.
    tiles = prod(issues_along(a) for a in option.axes if a.name in operand.axes)
    firsts = times(longest_ns(flow.begun) / tiles, *(tiling.blocks[a.name] for a in axes), *again)
    return _by_copies(tiling, operand, largest([waits, total([computing, firsts, late])]), early)


def _filled_early(
    tiling: Tiling, operand: TileOperand, flow: Flow, computing: Cost, again: Sequence[Cost]
) -> Cost:
    """Return the time to fill a double buffer.

    Each fill begins when the block before last is read, and register blocks share its issues. Computing waits
    for issues beyond those that may be outstanding.
    """
    iterations = times(*(tiling.iterations[axis.name] for axis in tiling.space.register_axes))
    axes = _moved_axes(tiling, operand)
    shared = CeilDiv(times(*(tiling.block[a.name] for a in axes)), iterations)
    each = flow.early * prod(a.extent for a in axes) / flow.issues  # elements: solvers count whole numbers
    filled, late = times(longest_ns(flow.begun), *again), _load_delay(tiling, operand, flow, again)
    waits = total([filled, computing, late])
    for most, share in reversed(BEFORE):
        part = total([times(share, filled), computing]) if share else Const(0)
        waits = Threshold(shared, int(most * each), part, waits)
    sweeps, read = _sweeps(tiling, operand), computing
    for most, part in ((2, times(1 / 2, computing)), (1, Const(0))):
        read = Threshold(sweeps, most, part, read)
    return largest([times(1 / 2, total([read, late])), waits])


def _moved_axes(tiling: Tiling, operand: TileOperand) -> list[TileAxis]:
    """Return the axes along which blocks are cut and moved. The taps of a window share one load."""
    taps = {window.tap for window in operand.staging.windows}
    axes = [a for a in tiling.space.option.axes if a.name in operand.axes and a.name in tiling.block]
    return [a for a in axes if a.name not in taps]


def _load_delay(tiling: Tiling, operand: TileOperand, flow: Flow, again: Sequence[Cost]) -> Cost:
    """Return the delay of data that are loaded after the last read of their buffer, and of sums that need them."""
    option = tiling.space.option
    axes = [a for a in option.axes if a.name in operand.axes and a.name in tiling.block]
    late_ns = flow.latency_ns + max(0.0, option.latency_ns - option.interval_ns)
    return times(late_ns, *(tiling.blocks[a.name] for a in axes), *(() if operand.staging.windows else again))


def _in_queues(tiling: Tiling, operand: TileOperand, flow: Flow, few: Cost, many: Cost) -> Cost:
    """Return `few` if the issues that fill a block fit into the queues, else the larger one of both costs."""
    axes = _moved_axes(tiling, operand)
    most = flow.queued
    if operand.staging.windows:  # they are read to their end, and wait for moves into their last plane
        most = flow.queued // 2 * _planes(tiling, operand)
    held = most * prod(a.extent for a in axes) // flow.issues  # in elements: solvers count whole numbers
    return Threshold(times(*(tiling.block[a.name] for a in axes)), held, few, largest([few, many]))


def _swept_windows(tiling: Tiling, operand: TileOperand, flow: Flow, filled: Cost, computing: Cost) -> Cost:
    """Return the time to fill a single buffer that several taps read.

    A register block reads its part to the end, so that each fill waits for as long, and the block's first
    issues with it.
    """
    option = tiling.space.option
    reaches = {w.along: reaches_of(w, option) for w in operand.staging.windows}
    axes = [a for a in option.axes if a.name in operand.axes and not a.is_reduction]
    firsts: list[Cost] = [Const(longest_ns(flow.begun))]
    blocks: list[Cost] = []
    for axis in axes:
        planes = reaches.get(axis.name, (0,))
        step = tiling.step.get(axis.name, Const(axis.extent))
        held, more = len(planes) * axis.extent + sum(planes), Const(sum(planes))
        firsts.append(times(1 / held, Add((times(len(planes), step), more))))
        blocks.append(tiling.blocks.get(axis.name, Const(1)))
    swept = total([filled, times(_of_block(tiling), *blocks)])
    # Planes come one after the other, and each register block reads all of them.
    planes = _planes(tiling, operand)
    shown = total([times(1 - 1 / planes, filled), times(1 / planes, *firsts, *blocks)])
    return largest([swept, total([computing, shown])])


def _planes(tiling: Tiling, operand: TileOperand) -> int:
    """Return the number of planes of a buffer over which windows extend."""
    return prod(len(reaches_of(window, tiling.space.option)) for window in operand.staging.windows)


def _refill_time(
    tiling: Tiling,
    first: TileOperand,
    second: TileOperand,
    computing: Cost,
    again: Mapping[str, Sequence[Cost]],
) -> Cost:
    """Return the time to fill two single buffers, one after the other, by one unit.

    It is 0 if either has two copies, or if no loop refills both. The first buffer is filled during the last
    sweep over it (with several taps, during the last tap). The readers of the second buffer wait for both.
    """
    taps = prod(a.extent for w in first.staging.windows for a in tiling.space.option.axes if a.name == w.tap)
    shown = computing
    for sweeps in reversed(LAST_SWEEPS):
        shown = Threshold(_sweeps(tiling, first), sweeps, times(1 - 1 / taps / sweeps, computing), shown)
    both = (first, second)
    together = [
        total([*(busy_ns(tiling, o, unit, again[o.name]) for o in both), shown])
        for unit in units([first])
        if unit in units([second])
    ]
    common = [a.name for a in tiling.space.axes if a.name in first.axes and a.name in second.axes]
    waits = Threshold(times(*(tiling.blocks[name] for name in common)), 1, Const(0), largest(together))
    return _by_copies(tiling, first, _by_copies(tiling, second, waits, Const(0)), Const(0))


def _refills(tiling: Tiling, operand: TileOperand, flow: Flow, again: Sequence[Cost]) -> Cost:
    """Return how long all units wait for fills that cannot start before a buffer is read.

    The buffer has one copy, or two if windows are read to their end. The result is 0 for a single fill.
    """
    blocks = times(*(tiling.blocks[a.name] for a in tiling.space.axes if a.name in operand.axes))
    late = Threshold(blocks, 1, Const(0), _load_delay(tiling, operand, flow, again))
    return _by_copies(tiling, operand, late, late if operand.staging.windows else Const(0))


def _by_copies(tiling: Tiling, operand: TileOperand, one: Cost, two: Cost) -> Cost:
    """Return one of two costs, selected by the number of copies of the operand's buffer per block."""
    staged = one
    if operand in pipelined_operands(tiling.space):
        ahead = iterations_ahead(tiling.space.option, operand)
        staged = Cases(name_of(tiling.space, operand), tuple((v, two if n else one) for v, n in ahead))
    values = tiling.space.stage_values(operand)
    return Cases(tiling.space.stage(operand), tuple((v, staged if v == 1 else Const(0)) for v in values))


def _sweeps(tiling: Tiling, operand: TileOperand, *, inside: bool = False) -> Cost:
    """Return how many register blocks read an element of a block. `inside` counts those until the next fill."""
    others = [a for a in tiling.space.register_axes if a.name not in operand.axes]
    blocks = [_blocks_inside(tiling, operand, a) for a in others if inside]
    return times(*(tiling.iterations[a.name] for a in others), *blocks)


def _blocks_inside(tiling: Tiling, operand: TileOperand, other: TileAxis) -> Cost:
    """Return how many blocks of another axis the loops inside an operand's block loops have."""
    found: Cost = tiling.blocks[other.name]
    for name, outer, inner in tiling.space.order_pairs():
        own = inner if outer == other else outer
        if other in (outer, inner) and own.name in operand.axes:
            outside = int(own == outer)
            here = Cases(name, ((outside, found), (1 - outside, Const(1))))
            found = Threshold(tiling.blocks[own.name], 1, found, here)
    return found


def _of_last_fills(tiling: Tiling, flows: Sequence[tuple[TileOperand, Flow]]) -> Cost:
    """Return the computing time after the last fill: of a register block, or of the issues on the last tile.

    The latter holds where one sweep reads each block of an input and uses a tile when it comes.
    """
    space, found = tiling.space, _of_block(tiling)
    unrolled = [Decision(space.unroll(axis)) for axis in space.register_axes]
    last, names = times(space.option.interval_ns, *unrolled), [axis.name for axis in space.register_axes]
    for operand, _ in flows:
        if not operand.is_accumulator and not operand.staging.windows:
            once = Threshold(
                times(*map(tiling.iterations.__getitem__, names)), 1, last, largest([last, found])
            )
            values = space.stage_values(operand)
            found = Cases(space.stage(operand), tuple((v, once if v == BLOCK else found) for v in values))
    return found


def _first_fills(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Yield the time of an input's first load, before computing starts: of a block, or of the whole input."""
    space, whole_ns = tiling.space, longest_ns(flow.begun)
    taps = {window.tap for window in operand.staging.windows}  # which share what one of them brings
    moved = [a for a in space.option.axes if a.name in operand.axes and a.name not in taps]
    axes = [a for a in moved if a.name in tiling.block]
    block = times(whole_ns / prod(a.extent for a in axes), *(tiling.block[a.name] for a in axes))
    costs = {0: Const(0), BLOCK: block, WHOLE: Const(whole_ns)}
    yield Cases(space.stage(operand), tuple((v, costs[v]) for v in space.stage_values(operand)))


def _exchange_time(tiling: Tiling, operand: TileOperand, flow: Flow, again: Sequence[Cost]) -> Cost:
    """Return the time of sums that use a single buffer.

    Each register block is read and filled anew before the next one goes on there.

    Of a block of several tiles the first is read while the others are computed for the last time.
    """
    option, space = tiling.space.option, tiling.space
    tiles = tiles_of(tiling, operand)
    one_ns = (flow.first_ns + longest_ns(flow.begun)) / tiles
    late_ns = max(0.0, one_ns - option.interval_ns)
    first_ns = one_ns - late_ns + max(0.0, option.latency_ns - option.interval_ns)
    axes = [axis for axis in space.register_axes if axis.name in operand.axes]
    first = _exposed_wait(tiling, axes, first_ns, 1)
    blocks = times(*(tiling.steps[axis.name] for axis in space.register_axes), *again)
    # What the unit that computes moves itself, it does one behind the other.
    own = Const(unit_ns(flow.begun, option.unit) + unit_ns(flow.finished, option.unit))
    waits = largest([total([Const(late_ns * tiles), times(first, blocks)]), own])
    if flow.between:  # parts of sums come before the first part, and leave block by block in the last one
        alone = times(*(tiling.iterations[axis.name] for axis in space.register_axes))
        begun = total([own, Const(longest_ns(flow.begun))])
        waits = Threshold(parts_of(tiling), 1, waits, Threshold(alone, 1, waits, begun))
    if operand not in pipelined_operands(space):
        return waits
    return Cases(name_of(space, operand), ((0, waits), (1, own)))


def _turns(tiling: Tiling, operand: TileOperand, flow: Flow, computing: Cost, again: Sequence[Cost]) -> Cost:
    """Return the time of results in a single buffer: each block waits until the one before has been stored.

    One unit that does both, in order, waits for each; 0 with two buffers.
    """
    option, space = tiling.space.option, tiling.space
    blocks = times(*(tiling.steps[axis.name] for axis in space.register_axes), *again)
    stored_ns = unit_ns(flow.finished, option.unit)
    turns = times(option.latency_ns + flow.turn_ns, blocks)
    if stored_ns:
        stored = largest([Const(stored_ns), times(flow.turn_ns, blocks)])
        turns = total([largest([computing, times(option.latency_ns, blocks)]), stored])
    if operand not in pipelined_operands(space):
        return turns
    return Cases(name_of(space, operand), ((0, turns), (1, Const(0))))


def _exposed_wait(tiling: Tiling, axes: Sequence[TileAxis], wait_ns: float, tiles: int) -> Cost:
    """Return the wait for the first tile of a block that computing the other tiles does not hide."""
    left_ns = wait_ns - (tiles - 1) * tiling.space.option.interval_ns
    if left_ns <= 0 or not axes:
        return Const(max(0.0, left_ns))
    axis, *others = axes
    most = min(issues_along(axis), MAX_UNROLLED)
    branches = [(n, _exposed_wait(tiling, others, wait_ns, tiles * n)) for n in range(1, most + 1)]
    return Cases(tiling.space.unroll(axis), tuple(branches))


def _alternating_buffers(tiling: Tiling, operand: TileOperand, flow: Flow, meanwhile: Cost) -> Cost:
    """Return the time of sums that use a double buffer.

    A block cannot begin before the block before the last one is computed and read. `meanwhile` is the time of
    the computation and of other fills by the unit that stores the sums.
    """
    option, space = tiling.space.option, tiling.space
    if operand not in pipelined_operands(space):
        return Const(0)
    latency_ns = max(0.0, option.latency_ns - option.interval_ns)
    # All tiles are read, one behind the other: `turn_ns` has the first one of each block.
    once_ns = latency_ns + flow.turn_ns - flow.first_ns / tiles_of(tiling, operand)
    waits = times(once_ns / 2, *accumulator_loads(tiling))
    each = total([times(1 / 2, meanwhile), waits, Const(flow.first_ns / 2)])
    return Cases(name_of(space, operand), ((0, Const(0)), (1, each)))


# --- partial sums ---------------------------------------------------------------------------------------

# Derived, (n - 1) / n: sums of so many parts at most go out and come back once less than that.
AGAIN = ((1, 0.0), (2, 1 / 2), (3, 2 / 3), (4, 3 / 4), (6, 5 / 6), (9, 8 / 9))


def between_parts(tiling: Tiling, flow: Flow, unit: str) -> Cost:
    """Return how long a unit stores and reloads partial sums between the parts of a sum."""
    between, apart = unit_ns(flow.between, unit), unit_ns(flow.apart, unit)
    if not between and not apart:
        return Const(0)
    parts = parts_of(tiling)
    again: Cost = parts
    for most, share in reversed(AGAIN):
        again = Threshold(parts, most, times(share, parts) if share else Const(0), again)
    return total([times(between, again), Threshold(parts, 1, Const(0), Const(apart))])


def in_parts(tiling: Tiling, flow: Flow, computing: Cost, filling: Mapping[str, Cost]) -> Cost:
    """Return the time of the computation if registers hold only some partial sums at once, or 0 if they hold all.

    Initial values are loaded before, and the sums are finished while the last part is computed, one register
    block after the other. Meanwhile the units that store them also do part of their `filling` of inputs. The
    partial sums of a single block are stored and reloaded before its next part.
    """
    if not flow.between:
        return Const(0)
    space = tiling.space
    parts = parts_of(tiling)
    before: Cost = computing
    last = {unit: Const(unit_ns(flow.finished, unit)) for unit, _ in flow.finished}
    ends: dict[str, Cost] = dict(last)
    for most, share in reversed(AGAIN):
        before = Threshold(parts, most, times(share, computing) if share else Const(0), before)
        for unit, ns in last.items():
            ends[unit] = Threshold(parts, most, total([ns, times(1 - share, filling[unit])]), ends[unit])
    blocks = [tiling.steps[axis.name] for axis in space.register_axes]
    finished = largest([*ends.values(), times(flow.latency_ns, *blocks)])
    alone = times(*(tiling.iterations[axis.name] for axis in space.register_axes))
    again = times(flow.again_ns + space.option.latency_ns, parts, *blocks)
    waits = largest([total([before, finished]), Threshold(alone, 1, total([computing, again]), Const(0))])
    return Threshold(parts, 1, Const(0), total([Const(longest_ns(flow.apart)), waits]))


def parts_of(tiling: Tiling) -> Cost:
    """Return into how many parts sums are divided."""
    return times(*(tiling.blocks[axis.name] for axis in tiling.space.axes if axis.is_reduction))


def longest_ns(busy: Busy) -> float:
    """Return the time of the busiest unit. Units: nanoseconds."""
    return max((ns for _, ns in busy), default=0.0)


def unit_ns(busy: Busy, unit: str) -> float:
    """Return the busy time of one unit. Units: nanoseconds."""
    return add_up(ns for name, ns in busy if name == unit)
