"""What moves through scratchpads by units of their own: how long they are busy, and what waits for them.

    load    A  ##A ##A ##A ##A          a DMA engine fills one copy of a buffer while the other is read;
    execute     ###### ###### ######    sums of a block are taken out while those of the next are computed
    store              ##     ##   ##

Units work side by side, each through its own work in order, so that the busiest bounds the whole, but for
what waits: the first buffers are filled before anything is computed, the last results leave behind it, and
where a buffer has one copy, its next contents wait until the last sweep over it has come past them. Sums that
stay in one copy are read before the next ones begin there.

Where it errs: sweeps are counted as if all loops over other axes stood inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from isamap.plan.cost import Add, Cases, Const, Cost, Decision, Threshold, largest, times, total
from isamap.plan.problem import Busy, Flow, TileOperand
from isamap.scheduler.deciding.crossing import crossing, name_of
from isamap.scheduler.deciding.space import issues_along
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.deciding.windows import reaches_of
from isamap.scheduler.effects.overlapping import entries
from isamap.scheduler.effects.supply import loads
from isamap.source import added

# Up to so many sweeps over a buffer of one copy, with the share of computing that its filling waits for: it
# hides behind the last sweep and the next first one. Of more sweeps, or of more issues than are on their way
# at once beside those of the sums, it waits for all of it.
SWEEPS = ((2, 0.0), (4, 1 / 2))


def flowing(operands: Sequence[TileOperand]) -> list[tuple[TileOperand, Flow]]:
    """The operands that units of their own move."""
    return [(o, o.flow) for o in operands if o.flow is not None]


def units(operands: Sequence[TileOperand]) -> tuple[str, ...]:
    """These units, and links that they share."""
    flows = [flow for _, flow in flowing(operands)]
    return tuple(sorted({u for f in flows for busy in (f.begun, f.finished) for u, _ in busy}))


def busy_ns(tiling: Tiling, operand: TileOperand, unit: str, again: Sequence[Cost]) -> Cost:
    """How long an operand keeps a unit busy; `again` are factors of how often all of it is moved."""
    flow = operand.flow
    if flow is None:
        return Const(0)
    if not operand.is_accumulator:
        once = Const(_of(flow.begun, unit))
        return Cases(
            tiling.space.stage(operand),
            tuple(
                (value, times(once, *again) if value == 1 else once if value else Const(0))
                for value in tiling.space.stage_values(operand)
            ),
        )
    return Const(_of(flow.begun, unit) + _of(flow.finished, unit))


def waiting(tiling: Tiling, computing: Cost, again: Mapping[str, Sequence[Cost]]) -> Cost:
    """What is computed, with all that it waits for, or the busiest unit with what comes before and behind its
    work; 0 where nothing flows.
    """
    operands = tiling.space.option.operands
    flows = flowing(operands)
    if not flows:
        return Const(0)
    before = [c for o, f in flows if not o.is_accumulator for c in _first_fills(tiling, o, f)]
    behind = [c for o, f in flows if o.is_accumulator for c in _last_results(tiling, o, f)]
    sums = [c for o, f in flows if o.is_accumulator for c in _exchanged(tiling, o, f)]
    found = [total([computing, *sums, *before, *behind])]
    for operand, flow in flows:
        if not operand.is_accumulator:
            swept = _swept(tiling, operand, flow, computing, again[operand.name])
            found.append(total([swept, *sums, *behind]))
    found += [total([_taking_turns(tiling, o, f), *before, *behind]) for o, f in flows if o.is_accumulator]
    block = _of_block(tiling)
    for unit in units(operands):
        brings = any(_of(f.begun, unit) for o, f in flows if not o.is_accumulator)
        takes = any(_of(f.finished, unit) for _, f in flows)
        busy = [busy_ns(tiling, o, unit, again[o.name]) for o, _ in flows]
        busy += _through_banks(tiling, unit)
        if unit == tiling.space.option.unit:  # it computes as well, and then no block stands alone
            busy.append(computing)
        found.append(total([*busy, block, *(() if brings else before), *(() if takes else behind)]))
    return largest(found)


def _through_banks(tiling: Tiling, memory: str) -> Iterator[Cost]:
    """How long computing keeps all banks of a memory busy, and loads into registers do."""
    option = tiling.space.option
    operands = {o.name: o for o in option.operands}
    for banked, name, ns in option.banked:
        if banked == memory and name:
            yield times(ns, loads(tiling, operands[name]))
        elif banked == memory:
            yield Const(ns * prod(issues_along(axis) for axis in option.axes))


def _of_block(tiling: Tiling) -> Cost:
    """What is computed of one register block, beside which nothing else is done at either end."""
    option, space = tiling.space.option, tiling.space
    unrolled = [Decision(space.unroll(axis)) for axis in space.register_axes]
    issues = prod(issues_along(axis) for axis in option.axes if axis.is_reduction)
    return times(issues * option.interval_ns, *unrolled)


def _swept(tiling: Tiling, operand: TileOperand, flow: Flow, computing: Cost, again: Sequence[Cost]) -> Cost:
    """Filling a buffer of one copy, with what is computed while that waits; 0 where it has two."""
    option = tiling.space.option
    axes = [a for a in option.axes if a.name in operand.axes and a.name in tiling.block]
    filled = times(_longest(flow.begun), *again)
    # What is filled when it was read is there so much later, and so are the sums of it.
    late_ns = flow.latency_ns + max(0.0, option.latency_ns - option.interval_ns)
    late = times(late_ns, *(tiling.blocks[a.name] for a in axes), *(() if operand.windows else again))
    if operand.windows:
        windows = _swept_windows(tiling, operand, flow, filled, total([computing, late]))
        return _by_copies(tiling, operand, windows, Const(0))
    sweeps = times(*(tiling.turns[a.name] for a in tiling.space.register_axes if a.name not in operand.axes))
    waits = serial = total([filled, computing, late])
    for most, share in reversed(SWEEPS):
        part = total([filled, times(share, computing), *([late] if share else [])])
        waits = Threshold(sweeps, most, part, waits)
    if flow.queued:
        each = flow.issues / prod(a.extent for a in axes)
        waits = Threshold(times(each, *(tiling.block[a.name] for a in axes)), flow.queued, waits, serial)
    # The first tile of each filling waits for its last use before, and what is computed waits for it.
    tiles = prod(issues_along(a) for a in option.axes if a.name in operand.axes)
    firsts = times(_longest(flow.begun) / tiles, *(tiling.blocks[a.name] for a in axes), *again)
    return _by_copies(tiling, operand, largest([waits, total([computing, firsts, late])]), Const(0))


def _swept_windows(tiling: Tiling, operand: TileOperand, flow: Flow, filled: Cost, computing: Cost) -> Cost:
    """Filling a buffer of one copy of which several taps read: what a register block reads is read to its
    end, so that each filling waits for as long, and what is computed for its first ones.
    """
    option = tiling.space.option
    reaches = {w.along: reaches_of(w, option) for w in operand.windows}
    axes = [a for a in option.axes if a.name in operand.axes and not a.is_reduction]
    firsts: list[Cost] = [Const(_longest(flow.begun))]
    blocks: list[Cost] = []
    for axis in axes:
        planes = reaches.get(axis.name, (0,))
        step = tiling.step.get(axis.name, Const(axis.extent))
        held, more = len(planes) * axis.extent + sum(planes), Const(sum(planes))
        firsts.append(times(1 / held, Add((times(len(planes), step), more))))
        blocks.append(tiling.blocks.get(axis.name, Const(1)))
    swept = total([filled, times(_of_block(tiling), *blocks)])
    return largest([swept, total([computing, times(*firsts, *blocks)])])


def _by_copies(tiling: Tiling, operand: TileOperand, one: Cost, two: Cost) -> Cost:
    """One of two costs of an operand that is staged per block, after how many copies its buffer has."""
    staged = one
    if operand in crossing(tiling.space):
        staged = Cases(name_of(tiling.space, operand), ((0, one), (1, two)))
    values = tiling.space.stage_values(operand)
    return Cases(tiling.space.stage(operand), tuple((v, staged if v == 1 else Const(0)) for v in values))


def _first_fills(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """What is brought of an input before anything is computed: a block, or all of it."""
    space, whole_ns = tiling.space, _longest(flow.begun)
    taps = {window.tap for window in operand.windows}  # which share what one of them brings
    moved = [a for a in space.option.axes if a.name in operand.axes and a.name not in taps]
    axes = [a for a in moved if a.name in tiling.block]
    block = times(whole_ns / prod(a.extent for a in axes), *(tiling.block[a.name] for a in axes))
    costs = {0: Const(0), 1: block, 2: Const(whole_ns)}
    yield Cases(space.stage(operand), tuple((v, costs[v]) for v in space.stage_values(operand)))


def _last_results(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """What leaves behind the last sum: a register block."""
    option, space = tiling.space.option, tiling.space
    tiles = prod(issues_along(axis) for axis in option.axes if axis.name in operand.axes)
    block = [Decision(space.unroll(axis)) for axis in space.register_axes if axis.name in operand.axes]
    yield Const(flow.latency_ns)
    late = Const(max(0.0, option.latency_ns - option.interval_ns))  # of one copy, it counts for each block
    if operand in crossing(space):
        yield Cases(name_of(space, operand), ((0, Const(0)), (1, late)))
    yield times(_longest(flow.finished) / tiles, *block)


def _exchanged(tiling: Tiling, operand: TileOperand, flow: Flow) -> Iterator[Cost]:
    """Sums of one copy: each register block is read and begun anew before the next one goes on there.

    Of a block of several tiles that takes as long as they are computed one by one, but for the first. What
    registers hold goes there and comes back for each part of a sum.
    """
    option, space = tiling.space.option, tiling.space
    tiles = prod(issues_along(axis) for axis in option.axes if axis.name in operand.axes)
    if operand.staged_ns:
        again = [tiling.blocks[axis.name] for axis in space.axes if axis.name not in operand.axes]
        yield times(tiles * operand.staged_ns, *again)
    one_ns = (flow.first_ns + _longest(flow.begun)) / tiles
    late_ns = max(0.0, one_ns - option.interval_ns)
    each_ns = one_ns - late_ns + max(0.0, option.latency_ns - option.interval_ns)
    waits = total([Const(late_ns * tiles), times(each_ns, *entries(tiling))])
    if operand not in crossing(space):
        yield waits
        return
    yield Cases(name_of(space, operand), ((0, waits), (1, Const(0))))


def _taking_turns(tiling: Tiling, operand: TileOperand, flow: Flow) -> Cost:
    """Sums of two copies: one cannot begin before that of the block before last is computed and read."""
    option, space = tiling.space.option, tiling.space
    if operand not in crossing(space):
        return Const(0)
    tiles = prod(issues_along(axis) for axis in option.axes if axis.name in operand.axes)
    each = times((option.latency_ns + flow.first_ns / tiles) / 2, *entries(tiling))
    return Cases(name_of(space, operand), ((0, Const(0)), (1, each)))


def _longest(busy: Busy) -> float:
    return max((ns for _, ns in busy), default=0.0)


def _of(busy: Busy, unit: str) -> float:
    return added(ns for name, ns in busy if name == unit)
