"""The analytic cost model: how long a statement takes, as an expression over its decisions.

For C[m, n] += A[m, k] * B[k, n], with register blocks of um x un issues and cache blocks of bm x bn x bk:

    max(over each register block, cut ones too, the sum of
            max(issues * interval,             the instruction's unit
                k * latency,                   the chain of sums, when few accumulators hide it
                loads of a and b),             each tile once
        issues, and what is used faster than it comes out of far caches (`bursts`),
        misses of all caches / bandwidths      what loops around too large a body read again (`levels`)
        + beginning of rows,                   where reading jumps, out of where the tensors are,
                                               and the share of computing that shows beside (`pieces`)
        pieces out of the same sets)           of rows that evict each other (`same_sets`)
    + accumulators in and out + packing and what it reads + pages + loop overhead
    + rows begun again (`revisits`), of results too (`results`) + a tenth of what should hide, of inputs 6 %

Where it errs: halos of convolutions are read once (too cheap); caches hold three quarters of their size,
shared ones half of that, and only rows read in place fall into too few sets; moves of different units do not
overlap (too dear); columns read out of memory are up to ten times too cheap where the processor does not
recognise them (docs/decisions/0010-order-of-schedules.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from isamap.machine.timings import Tlb
from isamap.plan.cost import Cases, Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import NestOption, NestProblem, Problem, TileOperand
from isamap.scheduler.bursts import shown
from isamap.scheduler.carrying import carrying
from isamap.scheduler.crowding import crowded
from isamap.scheduler.following import if_followed, if_in_sequence
from isamap.scheduler.least import least_ns
from isamap.scheduler.levels import Misses, copying_afar, copying_shared, misses, one_after_another
from isamap.scheduler.outgoing import out_and_back
from isamap.scheduler.overlapping import beside, copied, entries, movers
from isamap.scheduler.pieces import beside_rows
from isamap.scheduler.prefetching import by_asking, hinting
from isamap.scheduler.register_blocks import block_sums, loops_ns
from isamap.scheduler.results import results_begun
from isamap.scheduler.revisits import revisits
from isamap.scheduler.same_sets import pieces_at_least
from isamap.scheduler.shares import Share
from isamap.scheduler.space import Space, issues_along
from isamap.scheduler.streams import exposed
from isamap.scheduler.tiling import Tiling, by_stage, extent_of, tile, usable_bytes, whole_bytes

# The model's, not a machine's: time that should hide behind the slowest unit shows by this fraction, as no
# processor overlaps perfectly; and the same of what hardware prefetchers bring.
LEAK = 0.1
STREAM_LEAK = 0.06


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """The built-in modelled cost."""

    name: str = "analytic"

    def expression(self, problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
        """Nanoseconds of a statement under one option."""
        space = Space(nest.statement, option, dict(problem.registers), {})
        tiling = tile(space)
        supply = total(
            cost for o in _inputs(option) for cost in (_supply(tiling, o), _hints(tiling, o, problem))
        )
        missed = misses(tiling, problem)
        moved = [total(costs) for costs in _moved(tiling).values()]
        beside_streams = _exposed(tiling, missed, supply, problem)
        blocks = block_sums(space, problem.loops)
        pieces = beside_rows(tiling, missed, blocks, problem)
        bursts = total([Const(_issues(option) * option.interval_ns), shown(tiling, problem, missed)])
        return total(
            [
                largest(
                    [
                        blocks,
                        bursts,
                        supply,
                        one_after_another(missed),
                        *moved,
                        beside_streams,
                        pieces,
                        pieces_at_least(tiling, problem),
                    ]
                ),
                times(LEAK, total([supply, *moved])),
                *(_shown_hints(tiling, o, problem) for o in _inputs(option) if o.streams or o.late),
                *_leaks(space, missed),
                loops_ns(space, problem.loops),
                *(_hold(tiling, operand, problem) for operand in option.operands if operand.is_accumulator),
                *(_packing(tiling, operand, problem) for operand in option.operands),
                *(_pages(tiling, operand, problem.tlb) for operand in _inputs(option)),
                *(revisits(tiling, operand, problem) for operand in _inputs(option)),
                *(results_begun(tiling, o, problem) for o in option.operands if o.is_accumulator),
                crowded(tiling, problem),
            ]
        )

    def least_ns(self, problem: Problem, option: NestOption) -> float:
        """What `expression` is never below."""
        return least_ns(problem, option, LEAK)

    def shares(self, problem: Problem, nest: NestProblem, option: NestOption) -> tuple[Share, ...]:
        """The same cost in parts with names: what hides behind the slowest unit, and what comes on top."""
        tiling = tile(Space(nest.statement, option, dict(problem.registers), {}))
        inputs = _inputs(option)
        brought = [total([_supply(tiling, o), _hints(tiling, o, problem)]) for o in inputs]
        supply = [Share("supply", o.name, True, cost) for o, cost in zip(inputs, brought, strict=True)]
        missed = misses(tiling, problem)
        traffic = [
            Share(f"from {level.source}", o.name, True, cost)
            for level in missed
            for o, cost in zip(option.operands, level.costs, strict=True)
        ]
        moved = [
            Share(f"by {unit}", o.name, True, cost)
            for unit, costs in _moved(tiling).items()
            for o, cost in zip(option.operands, costs, strict=True)
        ]
        leaks = _leaks(tiling.space, missed)
        beside_streams = _exposed(tiling, missed, total(brought), problem)
        blocks = block_sums(tiling.space, problem.loops)
        pieces = beside_rows(tiling, missed, blocks, problem)
        hidden = [times(LEAK, share.cost) for share in (*supply, *moved)]
        hidden += [_shown_hints(tiling, o, problem) for o in inputs if o.streams or o.late]
        held = [o for o in option.operands if o.is_accumulator]
        computing = Const(_issues(option) * option.interval_ns)
        return (
            Share("issues", "", True, computing),
            Share("latency", "", True, _latency(tiling)),
            *supply,
            *traffic,
            *moved,
            Share("levels", "", True, one_after_another(missed), beyond=True),
            Share("blocks", "", True, blocks, beyond=True),
            Share("bursts", "", True, total([computing, shown(tiling, problem, missed)]), beyond=True),
            Share("beside streams", "", True, beside_streams, beyond=True),
            Share("beside rows", "", True, pieces, beyond=True),
            Share("same sets", "", True, pieces_at_least(tiling, problem), beyond=True),
            Share("imperfect overlap", "", False, total([*hidden, *leaks])),
            Share("loops", "", False, loops_ns(tiling.space, problem.loops)),
            *(Share("accumulators", o.name, False, _hold(tiling, o, problem)) for o in held),
            *(Share("packing", o.name, False, _packing(tiling, o, problem)) for o in option.operands),
            *(Share("pages", o.name, False, _pages(tiling, o, problem.tlb)) for o in _inputs(option)),
            *(Share("revisits", o.name, False, revisits(tiling, o, problem)) for o in _inputs(option)),
            *(Share("results", o.name, False, results_begun(tiling, o, problem)) for o in held),
            Share("crowding", "", False, crowded(tiling, problem)),
        )


def _inputs(option: NestOption) -> tuple[TileOperand, ...]:
    return tuple(operand for operand in option.operands if not operand.is_accumulator)


def _issues(option: NestOption) -> int:
    return prod(issues_along(axis) for axis in option.axes)


def _exposed(tiling: Tiling, missed: Sequence[Misses], supply: Cost, problem: Problem) -> Cost:
    """What streams through from memory together with what is computed on it, which hides in part."""
    from_memory = total(cost for level in missed[-1:] for cost in level.costs)
    computing = total([Const(_issues(tiling.space.option) * tiling.space.option.interval_ns), supply])
    return exposed(tiling, from_memory, computing, problem)


def _latency(tiling: Tiling) -> Cost:
    """The chains of sums, one after the other, when nothing else fills them."""
    if not any(axis.is_reduction for axis in tiling.space.axes):
        return Const(0)
    return times(tiling.space.option.latency_ns, *(tiling.steps[axis.name] for axis in tiling.space.axes))


def _supply(tiling: Tiling, operand: TileOperand) -> Cost:
    """Loads of an input's tiles: each once per register block that uses it."""
    own = prod(issues_along(axis) for axis in tiling.space.option.axes if axis.name in operand.axes)
    others = [tiling.steps[axis.name] for axis in tiling.space.axes if axis.name not in operand.axes]
    return by_stage(
        tiling.space,
        operand,
        times(own, operand.direct_ns or 0.0, *others),
        times(own, operand.staged_ns or 0.0, *others),
    )


def _hold(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Accumulators in and out of registers, and the last sums of each block, whose latency nothing hides.

    Where loads follow rows out of memory, all of that waits for them, and shows as little as other moves do.
    """
    space = tiling.space
    own = prod(issues_along(axis) for axis in space.option.axes if axis.name in operand.axes)
    again = [tiling.blocks[axis.name] for axis in space.axes if axis.name not in operand.axes]
    moved = by_stage(
        space,
        operand,
        times(own, operand.direct_ns or 0.0, *again),
        times(own, operand.staged_ns or 0.0, *again),
    )
    if space.option.carried is not None:
        moved = carrying(tiling, space.option.carried, moved, problem)
    held = total([moved, times(space.option.latency_ns, *entries(tiling)) if again else Const(0)])
    return if_followed(tiling, problem, times(LEAK, held), held)


def _packing(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """The copy into the staging buffer; of an accumulator both ways.

    A block that fits is used while it is near; a larger one, or a whole copy, goes out to where it fits, and
    comes back.
    """
    space = tiling.space
    if operand.packed:
        return Const(0)
    values = space.stage_values(operand)
    elements = prod(axis.extent for axis in space.option.axes if axis.name in operand.axes)
    once = (2 if operand.is_accumulator else 1) * elements * operand.pack_ns_per_element
    afar_ns = copying_afar(tiling, operand, problem)
    once += afar_ns
    moved = 2 * whole_bytes(space, operand)[1] / _bandwidth_of(whole_bytes(space, operand)[1], problem)
    # Parts on threads that use the same elements fill a whole copy together.
    together = prod(count for name, count in space.option.parts if name not in operand.axes)
    whole = Const((once + moved) / together)
    again = _again(tiling, operand)
    shared = times(copying_shared(tiling, operand, problem), *again)
    out = out_and_back(tiling, operand, problem, again, usable_bytes)
    at_once = total([times(once, *again), shared, out])
    costs = {0: Const(0), 1: copied(tiling, operand, at_once, afar_ns, again, problem.loops), 2: whole}
    return Cases(space.stage(operand), tuple((value, costs[value]) for value in values))


def _again(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """Factors of how often the whole of an operand is copied, block by block."""
    if not operand.is_accumulator:
        return _repeats(tiling, operand)
    # In a scratchpad sums come and go with each register block, where their tensor can hold them; else they
    # stay for all summing loops.
    come_and_go = operand.homes[0] and not operand.stage_whole
    sums = [axis for axis in tiling.space.axes if axis.is_reduction and come_and_go]
    return [tiling.blocks[axis.name] for axis in sums]


def _hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Hints about what an input's later iterations read."""
    return hinting(tiling, operand, problem, whole_bytes(tiling.space, operand)[0])


def _shown_hints(tiling: Tiling, operand: TileOperand, problem: Problem) -> Cost:
    """Hints about what streams or is late show, but not beside loads that follow rows and wait for memory
    anyway, nor about whole rows in sequence that are read in place.
    """
    hints = _hints(tiling, operand, problem)
    in_place = if_in_sequence(tiling, operand, Const(0), hints)
    return if_followed(tiling, problem, Const(0), by_stage(tiling.space, operand, in_place, hints))


def _moved(tiling: Tiling) -> dict[str, list[Cost]]:
    """Per unit that copies by itself, how long each operand keeps it busy with what crosses iterations."""
    operands = tiling.space.option.operands
    return {
        unit: [beside(tiling, o, _again(tiling, o)) if o.mover == unit else Const(0) for o in operands]
        for unit in movers(operands)
    }


def _bandwidth_of(size_bytes: int, problem: Problem) -> float:
    """Bandwidth towards the nearest memory that holds so much. Units: bytes per nanosecond."""
    for cache in problem.caches:
        if size_bytes <= usable_bytes(cache):
            return cache.bandwidth_bytes_per_ns
    return problem.memory_bandwidth_bytes_per_ns


def _repeats(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """How often loops that the operand does not follow, around one that it follows, repeat its copy."""
    repeats: dict[str, list[Cost]] = {}
    for name, first, second in tiling.space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer.name not in operand.axes and inner.name in operand.axes:
                blocks = tiling.blocks[outer.name]
                repeated = Threshold(tiling.blocks[inner.name], 1, Const(1), blocks)
                branches = ((value, repeated), (1 - value, Const(1)))
                repeats.setdefault(outer.name, []).append(Cases(name, branches))
    return [largest(parts) for parts in repeats.values()]


def _leaks(space: Space, missed: Sequence[Misses]) -> list[Cost]:
    """What shows of traffic that should hide: less of inputs, which are read in order and fetched ahead."""
    return [
        times(LEAK if operand.is_accumulator else STREAM_LEAK, cost)
        for level in missed
        for operand, cost in zip(space.option.operands, level.costs, strict=True)
    ]


def _pages(tiling: Tiling, operand: TileOperand, tlb: Tlb) -> Cost:
    """Visits to pages that the TLB has lost, by an operand whose rows are read in place.

    A register block visits each row of its part once; when those rows lie on more pages than the TLB holds,
    each visit pays. Of what streams, that is among what was measured of its rows; where hints have visited
    the pages before, it hides as other work does.
    """
    space = tiling.space
    rows = [axis for axis in operand.axes if axis != operand.dense_axis]
    known = operand.dense_axis and operand.pitch_bytes and not operand.subscripts and not operand.streams
    if not known or not tlb.miss_ns or 0 not in space.stage_values(operand):
        return Const(0)
    rows_per_page = max(1, tlb.page_bytes // operand.pitch_bytes)
    inside = {a.name: tiling.block[a.name] if a.is_reduction else tiling.step[a.name] for a in space.axes}
    together = times(*(extent_of(space, axis, inside) for axis in rows))
    all_rows = prod(axis.extent for axis in space.option.axes if axis.name in rows)
    around = [
        tiling.blocks[axis.name] if axis.is_reduction else tiling.steps[axis.name]
        for axis in space.axes
        if axis.name not in rows
    ]
    visits = times(tlb.miss_ns * all_rows / rows_per_page, *around)
    paid = Threshold(together, tlb.count * rows_per_page, Const(0), visits)
    return by_stage(space, operand, by_asking(tiling, operand, paid, times(LEAK, paid)), Const(0))
