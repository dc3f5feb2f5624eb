"""Price software-pipelined copies, by the analytic model.

    a unit moves the data by itself     its time competes for the longest one that counts; the wait of
                                        the first iteration, and the iterations that share the work, are added
    the unit that computes copies       the same time as before, and `share_ns` for each slice
    interleaved with the sum, if its    as if a unit moved the data, but loads into registers are added to the
    unit has its registers to itself    copies' time; and `share_turns_count` for each step
                                        of the sum
    interleaved with the sum, else      the same time as before, and as much for each step
    lanes fill a buffer n iterations    as if a unit moved the data; all of them take no less than their copies and
    ahead                               arrivals, n of which are on their way at the same time

If the same instruction stream copies and computes, interleaving the packing with the inner loop's iterations
never hid it: nine products on Zen 5 ran 0.83 to 1.05 times as fast, 0 to 260 ns a register block slower.
`docs/decisions/0012-software-pipelining.md` has the reasons.

Known errors: each register block is assumed to perform a slice, also of copies that a loop around several
blocks shares. The second copy of a buffer counts for the level to which it is written, not for what it
evicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from isamap.plan.cost import Cases, Const, Cost, Threshold, largest, times, total
from isamap.plan.problem import Problem, TileAxis, TileOperand
from isamap.scheduler.deciding.software_pipelining import (
    CONCURRENT,
    MOST_AHEAD,
    copies,
    is_filled_by_lanes,
    iterations_ahead,
    name_of,
    pipelined_operands,
)
from isamap.scheduler.deciding.tiling import Tiling
from isamap.scheduler.effects.least import StorageChoice
from isamap.scheduler.effects.levels import Misses
from isamap.scheduler.effects.register_loads import least_loads, shown_hints


def added_by_copies(
    tiling: Tiling,
    operand: TileOperand,
    at_once: Cost,
    afar_ns: float,
    repeats: Sequence[Cost],
    problem: Problem,
) -> Cost:
    """Return the additional time of an operand's copies per block. `at_once` is the time without pipelining.

    `repeats` are factors of how often the whole operand is copied. `afar_ns` is the extra time of all these
    copies because the data are far away, for results in both directions.
    """
    if operand not in pipelined_operands(tiling.space):
        return at_once
    if is_filled_by_lanes(tiling.space.option, operand):
        return exposed_by_lanes(tiling, operand, repeats)
    shares = accumulator_loads(tiling)
    if not operand.staging.mover:
        late = total([at_once, times(problem.loops.share_ns, *shares)])
    else:
        first = _last_results(tiling, operand) if operand.is_accumulator else _first_fills(tiling, operand)
        waits = times(operand.staging.moved_ns_per_element, *first, *_per_whole(operand, repeats))
        late = total([_loading_time(tiling, operand, afar_ns), waits, times(problem.loops.turn_ns, *shares)])
    decided: dict[int, Cost] = {0: at_once, 1: late}
    if operand.staging.is_concurrent and not operand.is_accumulator:
        element_ns = operand.staging.pack_ns_per_element + afar_ns / _elements(tiling, operand)
        decided[CONCURRENT] = times(element_ns, *_first_fills(tiling, operand), *_per_whole(operand, repeats))
    elif not operand.is_accumulator:
        decided[CONCURRENT] = total([at_once, _interleaving_time(tiling, problem)])
    return Cases(name_of(tiling.space, operand), tuple(decided.items()))


def exposed_by_lanes(tiling: Tiling, operand: TileOperand, repeats: Sequence[Cost]) -> Cost:
    """Return the additional time of copies by lanes, which cannot compute meanwhile.

    Copied ahead, what is filled before the first iteration is exposed, and its arrival.
    """
    space = tiling.space
    if operand not in pipelined_operands(space):
        return Const(0)
    followed = space.axes_of(operand)
    begun = [
        largest([Const(1), *_around(tiling, axis, followed, Const(1), tiling.blocks[axis.name], sweep=False)])
        for axis in followed
    ]
    first = times(_copied_ns(tiling, operand), *_first_fills(tiling, operand), *repeats)
    arrival = times(operand.staging.arrives_ns, *begun, *repeats)
    costs = [_with_arrivals(tiling, operand, repeats)]
    costs += [total([times(ahead, first), arrival]) for ahead in range(1, MOST_AHEAD + 1)]
    return Cases(name_of(space, operand), tuple(enumerate(costs)))


def arrivals(tiling: Tiling, operand: TileOperand, repeats: Sequence[Cost]) -> Cost:
    """Return the time of a loop whose iterations wait for copies that lanes started some iterations earlier.

    So many are on their way at the same time, each for as long as it is copied, and as it takes to arrive.
    """
    space = tiling.space
    if not is_filled_by_lanes(space.option, operand) or operand not in pipelined_operands(space):
        return Const(0)
    every = _with_arrivals(tiling, operand, repeats)
    ahead = ((n, times(1 / n, every)) for n in range(1, MOST_AHEAD + 1))
    return Cases(name_of(space, operand), ((0, Const(0)), *ahead))


def _with_arrivals(tiling: Tiling, operand: TileOperand, repeats: Sequence[Cost]) -> Cost:
    """Return the time of all copies of an operand by lanes, one after the other."""
    fills = (tiling.blocks[axis.name] for axis in tiling.space.axes_of(operand))
    moved = times(_elements(tiling, operand) * _copied_ns(tiling, operand), *repeats)
    return total([moved, times(operand.staging.arrives_ns, *fills, *repeats)])


def _copied_ns(tiling: Tiling, operand: TileOperand) -> float:
    """Return the time for which lanes copy an element. Units: nanoseconds."""
    staging = operand.staging
    if staging.flow is not None:
        return max((ns for _, ns in staging.flow.begun), default=0.0) / _elements(tiling, operand)
    return staging.moved_ns_per_element if staging.mover else staging.pack_ns_per_element


def interleaved_copies(tiling: Tiling, operand: TileOperand, at_once: Cost, problem: Problem) -> Cost:
    """Return how long other units are busy with copies that are interleaved with the sum."""
    if (
        not operand.staging.is_concurrent
        or operand.is_accumulator
        or operand not in pipelined_operands(tiling.space)
    ):
        return Const(0)
    nothing, made = Const(0), total([at_once, _interleaving_time(tiling, problem)])
    return Cases(name_of(tiling.space, operand), ((0, nothing), (1, nothing), (CONCURRENT, made)))


def _interleaving_time(tiling: Tiling, problem: Problem) -> Cost:
    """Return the cost of interleaving work with each step of a sum."""
    steps = (tiling.steps[axis.name] for axis in tiling.space.axes)
    return times(problem.model.share_turns_count * problem.loops.turn_ns, *steps)


def buffers(tiling: Tiling, operand: TileOperand) -> Cost:
    """Return the number of copies of an input's buffer."""
    return Const(1) if operand.is_accumulator else copies(tiling.space, operand)


def busy_with_copies(tiling: Tiling, operand: TileOperand, repeats: Sequence[Cost]) -> Cost:
    """Return how long copies for other iterations keep a separate unit busy."""
    if not operand.staging.mover or operand not in pipelined_operands(tiling.space):
        return Const(0)
    once = _elements(tiling, operand) * operand.staging.moved_ns_per_element
    moved = times(once, *_per_whole(operand, repeats))
    space = tiling.space
    deep = is_filled_by_lanes(space.option, operand)
    by_value = iterations_ahead(space.option, operand)
    alone = ((v, moved if n and (deep or v != CONCURRENT) else Const(0)) for v, n in by_value)
    return Cases(name_of(space, operand), tuple(alone))


def _per_whole(operand: TileOperand, repeats: Sequence[Cost]) -> Sequence[Cost]:
    """Return factors of how often the whole operand is moved. Software-pipelined results are stored once."""
    return () if operand.is_accumulator else repeats


def movers(operands: Iterable[TileOperand]) -> tuple[str, ...]:
    """Return the units that copy operands by themselves."""
    return tuple(
        sorted(
            {
                operand.staging.mover
                for operand in operands
                if operand.staging.mover and operand.staging.flow is None
            }
        )
    )


def _elements(tiling: Tiling, operand: TileOperand) -> int:
    return prod(axis.extent for axis in tiling.space.option.axes if axis.name in operand.axes)


def _loading_time(tiling: Tiling, operand: TileOperand, afar_ns: float) -> Cost:
    """Return the time to load sums when they are needed. Only their write-back is software-pipelined."""
    if not operand.is_accumulator:
        return Const(0)
    both = 2 * operand.staging.pack_ns_per_element
    moved = _elements(tiling, operand) * max(0.0, both - operand.staging.moved_ns_per_element)
    return Const(moved + afar_ns / 2)


def accumulator_loads(tiling: Tiling) -> list[Cost]:
    """Return factors of how often accumulators enter registers: per register block, and per block of sums."""
    return [
        tiling.blocks[axis.name] if axis.is_reduction else tiling.steps[axis.name]
        for axis in tiling.space.axes
    ]


def _first_fills(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """Return factors of the elements that are filled before loops start: one block for each start."""
    followed = tiling.space.axes_of(operand)
    found: list[Cost] = []
    for axis in tiling.space.option.axes:
        if axis in followed:
            one = tiling.block[axis.name]
            all_of_them = times(one, tiling.blocks[axis.name])
            found.append(largest([one, *_around(tiling, axis, followed, one, all_of_them, sweep=False)]))
        elif axis.name in operand.axes:
            found.append(Const(axis.extent))
    return found


def _last_results(tiling: Tiling, operand: TileOperand) -> list[Cost]:
    """Return factors of the elements that are stored after loops end: one register block for each end."""
    axes = tiling.space.register_axes
    found: list[Cost] = []
    for axis in tiling.space.option.axes:
        if axis in axes:
            one = tiling.step[axis.name]
            per_block = times(one, tiling.blocks[axis.name])
            all_of_them = times(per_block, tiling.iterations[axis.name])
            swept = largest([tiling.iterations[other.name] for other in axes])
            inside = [
                Threshold(swept, 1, one, per_block),
                *_around(tiling, axis, axes, one, per_block, sweep=False),
                *_around(tiling, axis, axes, one, all_of_them, sweep=True),
            ]
            found.append(largest([one, *inside]))
        elif axis.name in operand.axes:
            found.append(Const(axis.extent))
    return found


def _around(
    tiling: Tiling, axis: TileAxis, axes: Sequence[TileAxis], one: Cost, each: Cost, *, sweep: bool
) -> list[Cost]:
    """Return factors with `each` if an axis' loop is around another loop with several iterations, else `one`."""
    space = tiling.space
    trips = tiling.iterations if sweep else tiling.blocks
    found: list[Cost] = []
    for name, first, second in space.sweep_pairs() if sweep else space.order_pairs():
        for outer, inner, value in ((first, second, 1), (second, first, 0)):
            if outer == axis and inner in axes:
                several = Threshold(trips[inner.name], 1, one, each)
                found.append(Cases(name, ((value, several), (1 - value, one))))
    return found


# --- overlap inefficiency: the exposed part of work that should be hidden -------------------------------


def exposed_parts(tiling: Tiling, hidden: Cost, missed: Sequence[Misses], problem: Problem) -> Iterator[Cost]:
    """Yield the parts of hidden time, of hints and of traffic that are exposed because overlap is imperfect."""
    model = problem.model
    yield times(model.leak_factor, hidden)
    operands = tiling.space.option.operands
    yield from (shown_hints(tiling, o, problem) for o in operands if not o.is_accumulator)
    for level in missed:
        for operand, cost in zip(operands, level.costs, strict=True):
            yield times(model.leak_factor if operand.is_accumulator else model.stream_leak_factor, cost)


def least_leak(way: StorageChoice) -> float:
    """Return the exposed part of the operand loads' time."""
    return way.problem.model.leak_factor * least_loads(way)
