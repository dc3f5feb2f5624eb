"""Partition statements for threads: each partition is an option, priced by its largest part.

    gemm 1024 x 1024 x 1024 on 2 threads      ->      itself, and parts of 512 x 1024 x 1024,
                                                      1024 x 512 x 1024, 1024 x 1024 x 512

All parts run in parallel, and the largest one takes longest. The statement therefore costs as much as a
problem of that part's size, with the cache capacity and the bandwidth that the other cores leave. This cost
is multiplied by the number of rounds, and the start of the threads is added. Every cost model can thus price
threads, and its bounds stay exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations
from math import prod

from isamap.plan.cost import Cases, Const, Cost, times, total
from isamap.plan.cost.sharing import share_equal_parts
from isamap.plan.decisions import parallel_of, stage_of
from isamap.plan.problem import NestOption, NestProblem, Problem, TileAxis, TileOperand, with_fields
from isamap.plan.protocols import CostModel
from isamap.scheduler.deciding.space import issues_along
from isamap.source.records import replace

Assignment = Mapping[str, int]
Parts = tuple[tuple[str, int], ...]

# Limit of the search: of more axes than these, those with the most issues may be dealt.
MAX_DEALT_AXES = 4
# Limit of the search: up to so many threads, ways that leave some idle are looked at, so one more is never worse.
IDLE_UP_TO = 4
# Regions of a sum in parts in addition to that of the parts. Source: `lower/parallel_parts.py` joins its copies, and
# writes them back.
JOINING_REGIONS = 2


def part_options(
    problem: Problem, statement: int, option: NestOption, fixed: Assignment
) -> Iterator[NestOption]:
    """Yield the unpartitioned option, then one option for each way to partition it among the threads.

    Yield nothing if the parts that a person has fixed are impossible.
    """
    pinned = {
        axis.name: fixed[parallel_of(statement, axis.name)]
        for axis in option.axes
        if parallel_of(statement, axis.name) in fixed
    }
    cut = {name: parts for name, parts in pinned.items() if parts != 1}
    if not cut:
        yield option
    seen: set[tuple[Parts, bool]] = set()
    teams, axes = (
        problem.teams(option),
        [a for a in _divisible_axes(option, problem.private) if a.name not in pinned],
    )
    at_once = (_part_counts(teams * n, axes, cut) for n in sorted({1, problem.residents}))
    ways = ((more, False) for more in chain.from_iterable(at_once))
    for more, alone in chain(ways, _in_rounds(problem, option, axes, cut)):
        found = part_of(option, {**cut, **more})
        agrees = found is not None and all((name, parts) in found.parts for name, parts in cut.items())
        if found is not None and agrees and (found.parts, alone) not in seen:
            seen.add((found.parts, alone))
            yield with_shared_data(replace(found, alone=alone), problem)


def _in_rounds(
    problem: Problem, option: NestOption, axes: Sequence[TileAxis], cut: Mapping[str, int]
) -> Iterator[tuple[dict[str, int], bool]]:
    """Yield numbers of parts that cores with private memories perform in several rounds, and whether each is alone.

    A part is as many tiles of sums as its registers hold: sums of larger parts would leave them between blocks.
    """
    sums = next((o for o in option.operands if o.is_accumulator and o.registers), None)
    outer = [axis for axis in axes if not axis.is_reduction]
    if not problem.private or sums is None or not (cut or outer):
        return
    for alone in (False, True)[: 1 + (problem.residents > 1)]:
        if cut:
            yield {}, alone
            continue
        part = replace(option, parts=tuple((a.name, issues_along(a)) for a in outer), alone=alone)
        tiles = problem.registers_of(part).get(sums.memory, 0) // sums.registers
        for n in range(tiles.bit_length()):
            sizes = dict(
                zip((a.name for a in outer), (1 << n, 1 << tiles.bit_length() - 1 - n), strict=False)
            )
            counts = {a.name: -(-issues_along(a) // sizes.get(a.name, 1)) for a in outer}
            if prod(counts.values()) > problem.teams(option) * problem.residents_of(part):
                yield {name: count for name, count in counts.items() if count > 1}, alone


def part_of(option: NestOption, parts: Mapping[str, int]) -> NestOption | None:
    """Return the option of the largest part under a partition, or None if an axis cannot be cut like that.

    Parts are whole issues and as even as possible: six issues cannot make five parts.
    """
    axes = {axis.name: axis for axis in option.axes}
    shares: dict[str, int] = {}
    for name, count in parts.items():
        issues = issues_along(axes[name])
        if not 2 <= count <= issues or (axes[name].is_reduction and not option.can_split_sums):
            return None
        shares[name] = -(-issues // count)
    cut = tuple(replace(a, extent=shares[a.name] * a.tile) if a.name in shares else a for a in option.axes)
    made = tuple((a.name, -(-issues_along(a) // shares[a.name])) for a in option.axes if a.name in shares)
    outside = prod(count for name, count in made if not axes[name].is_reduction)
    fusions = tuple(replace(f, extra_ns=f.extra_ns / outside) for f in option.fusions)
    operands = tuple(_of_part(operand, option.axes, cut) for operand in option.operands)
    return replace(option, axes=cut, operands=operands, fusions=fusions, parts=made)


def _of_part(operand: TileOperand, whole: Sequence[TileAxis], cut: Sequence[TileAxis]) -> TileOperand:
    """Return an operand as one part sees it. Separate units move only the tiles of the part."""
    flow = operand.staging.flow
    if flow is None:
        return operand
    share = _moved_elements(operand, cut) / _moved_elements(operand, whole)
    return with_fields(operand, flow=flow.scaled(min(1.0, share)))


def _moved_elements(operand: TileOperand, axes: Sequence[TileAxis]) -> int:
    """Return the elements of an operand, each counted once. Windows count once for each plane."""
    extents = {axis.name: axis.extent for axis in axes if axis.name in operand.axes}
    windows = {w.along: w for w in operand.staging.windows}
    taps = {w.tap for w in operand.staging.windows}

    def moved_along(name: str) -> int:
        if name not in windows:
            return extents[name]
        return sum(extents[name] + reach for reach in windows[name].reaches(extents[windows[name].tap]))

    return prod(moved_along(name) for name in extents if name not in taps)


def _divisible_axes(option: NestOption, private: Collection[str]) -> list[TileAxis]:
    """Return the axes that may be divided among threads, those with the most issues first.

    Return none if an operand is staged in a scratchpad that the parts would have to share.
    """
    if any(
        operand.staging.homes[0] and operand.staging.homes[0] not in private for operand in option.operands
    ):
        return []
    found = [a for a in option.axes if issues_along(a) > 1 and (not a.is_reduction or option.can_split_sums)]
    return sorted(found, key=issues_along, reverse=True)[:MAX_DEALT_AXES]


def _part_counts(threads: int, axes: list[TileAxis], cut: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield numbers of parts by axis that use as many threads as possible, with one or two axes besides `cut`.

    With few threads, smaller numbers of parts follow: if cores share a bottleneck, these may be faster.
    """
    left = threads // prod(cut.values())
    if cut:
        yield {}
    if left < 2:
        return
    least = 2 if threads <= IDLE_UP_TO else left
    for axis in axes:
        yield from ({axis.name: min(count, issues_along(axis))} for count in range(left, least - 1, -1))
    if len(cut) < 2:
        for first, second in combinations(axes, 2):
            for count in sorted({left // divisor for divisor in range(2, left)} - {1}):
                if left // count > 1:
                    yield {first.name: count, second.name: left // count}


# --- their order ---------------------------------------------------------------------------------------

# Order parts so that those that run at the same time read the same data from the cache that they share.
#
#     par m by 256 {            16 x 32 parts of 256 x 128, 132 at the same time: 4.1 panels of A, 32 of B
#       par n by 128 { … } }
#     par m by 2048 {           groups of 8 x 32 parts: 8 panels of A, 16.5 of B
#       par n by 128 {
#         par m by 256 { … } } }
#
# Parts advance through a sum together. A memory therefore transfers once what all parts that run at the same time
# have in common. The cache in front of it transfers all of it. If the cache has room for all data of more parts than
# these, their data remain, too. The traffic decides the order, so that solvers price one order of each partition.


def with_shared_data(option: NestOption, problem: Problem, order: Parts = ()) -> NestOption:
    """Return the option of one part whose memories transfer what parts have in common once.

    `order` is that of the parts, or () for the one with the least traffic.
    """
    if not problem.cached or not option.parts:
        return option
    option = replace(option, parts=order or option.parts)
    summed = {axis.name for axis in option.axes if axis.is_reduction}
    orders = [option.parts] if order or any(n in summed for n, _ in option.parts) else _orders(option.parts)
    ways = ([*_share_fills(replace(option, parts=parts), problem)] for parts in orders)
    parts, operands = min(
        zip(orders, ways, strict=True), key=lambda way: (_busy_ns(way[1], problem), len(way[0]))
    )
    return replace(option, parts=parts, operands=tuple(operands))


def _orders(parts: Parts) -> list[Parts]:
    """Return the orders of parts: axes in any order, and groups of parts along the outermost one."""
    found: list[Parts] = []
    for first, *others in permutations(parts):
        name, count = first
        found.append((first, *others))
        sizes = [n for n in range(2, count) if count % n == 0] if others else ()
        found += [((name, count // n), *others, (name, n)) for n in sizes]
    return found


def _share_fills(option: NestOption, problem: Problem) -> Iterator[TileOperand]:
    cached, count = dict(problem.cached), prod(n for _, n in option.parts)
    places = min(count, problem.teams(option) * problem.residents_of(option))
    for operand in option.operands:
        flow = operand.staging.flow
        begun = () if flow is None or operand.is_accumulator else flow.begun
        if flow is not None and any(name in cached for name, _ in begun):
            room = min(cached[name] for name, _ in begun if name in cached)
            together = _count_parts(option, places, room)
            share = _different(option.parts, together, operand.axes) / together
            once = tuple((name, ns * share if name in cached else ns) for name, ns in begun)
            yield with_fields(operand, flow=replace(flow, begun=once))
        else:
            yield operand


def _count_parts(option: NestOption, places: int, room_bytes: int) -> int:
    """Return how many parts after each other find the data of the first of them in a cache: `places` or more."""
    inner = (prod(n for _, n in option.parts[start:]) for start in range(len(option.parts)))
    return next((n for n in inner if n > places and _touched_bytes(option, n) <= room_bytes), places)


def _touched_bytes(option: NestOption, together: int) -> float:
    extents = {axis.name: axis.extent for axis in option.axes}
    sizes = ((o, o.layout.tensor_bytes * prod(extents[a] for a in o.axes)) for o in option.operands)
    return sum(size * _different(option.parts, together, o.axes) for o, size in sizes)


def _different(parts: Parts, together: float, axes: Sequence[str]) -> float:
    """Return how many different blocks of an operand so many parts after each other have in the mean."""
    found = 1.0
    for name, count in reversed(parts):
        found *= min(count, max(1.0, together)) if name in axes else 1
        together /= count
    return found


def _busy_ns(operands: Sequence[TileOperand], problem: Problem) -> float:
    cached = dict(problem.cached)
    flows = (o.staging.flow for o in operands)
    return sum(ns for flow in flows if flow is not None for name, ns in flow.begun if name in cached)


# --- what it costs ----------------------------------------------------------------------------------------


def part_cost(problem: Problem, nest: NestProblem, option: NestOption, model: CostModel) -> Cost:
    """Return the cost of all iterations of a statement under an option, partitioned or not. Units: nanoseconds."""
    if not option.parts:
        return share_equal_parts(times(nest.iterations, model.expression(problem, nest, option)))
    one = times(rounds_of(problem, option), model.expression(part_problem(problem, option), nest, option))
    return share_equal_parts(times(nest.iterations, total([one, overhead(problem, nest, option)])))


def rounds_of(problem: Problem, option: NestOption) -> int:
    """Return how many parts each place performs one after the other."""
    return -(-_count(option) // (problem.teams(option) * problem.residents_of(option)))


def overhead(problem: Problem, nest: NestProblem, option: NestOption) -> Cost:
    """Return the time to start threads and to join partial sums, for each iteration."""
    iterations = option.carried.iterations if option.carried is not None else 1  # inside what threads do
    return times(1 / iterations, total(_overheads(problem, nest, option))) if option.parts else Const(0)


def part_problem(problem: Problem, option: NestOption) -> Problem:
    """Return the problem of one thread's part, in which it has its share of common resources."""
    sharing = min(_count(option), problem.teams(option))
    if sharing == 1:
        return problem
    caches = tuple(
        replace(
            cache,
            capacity_bytes=cache.capacity_bytes // (sharing if cache.shared else min(sharing, cache.cores)),
            bandwidth_bytes_per_ns=cache.bandwidth_bytes_per_ns / (sharing if cache.shared else 1),
        )
        for cache in problem.caches
    )
    beyond = problem.memory_bandwidth_bytes_per_ns / (sharing if problem.memory_shared else 1)
    return replace(problem, caches=caches, memory_bandwidth_bytes_per_ns=beyond)


def _count(option: NestOption) -> int:
    return prod(count for _, count in option.parts)


def _bandwidth_of(size_bytes: float, problem: Problem) -> float:
    """Return the bandwidth of the nearest memory that has room for this size. Units: bytes per nanosecond."""
    held = (c.bandwidth_bytes_per_ns for c in problem.caches if size_bytes <= c.capacity_bytes)
    return next(held, problem.memory_bandwidth_bytes_per_ns)


def _overheads(problem: Problem, nest: NestProblem, option: NestOption) -> Iterator[Cost]:
    start = problem.thread_start_ns
    axes = {axis.name: axis for axis in option.axes}
    copies = prod(count for name, count in option.parts if axes[name].is_reduction)
    yield Const(start * (1 + (JOINING_REGIONS if copies > 1 else 0)))
    for operand in option.operands:
        if operand.is_accumulator and copies > 1:
            elements = prod(axes[name].extent for name in operand.axes)
            moved = elements * operand.staging.staged_bytes * (copies + 1) / copies
            yield Const(moved / _bandwidth_of(moved, part_problem(problem, option)))
        elif operand.is_accumulator and problem.caches and not problem.private:
            # Other kernels mostly divide outer axes: pieces of rows are then fetched from the cores that wrote them.
            dense = operand.layout.dense_axis
            rows = prod(axes[name].extent for name in operand.axes if name != dense)
            pieces = prod(count for name, count in option.parts if name == dense and rows > 1)
            written = prod(axes[name].extent for name in operand.axes) * operand.layout.tensor_bytes
            yield Const(written * (1 - 1 / pieces) * problem.model.remote_byte_ns)
        elif (
            not operand.is_accumulator
            and operand.costs.staged_ns is not None
            and not operand.staging.is_packed
        ):
            values = (1, 2) if operand.costs.direct_ns is None else (0, 1, 2)
            # What is staged as a whole is filled before, by all threads together.
            # A memory of each part is filled by that part.
            shared_start = 0 if operand.staging.homes[0] else start
            branches = tuple((value, Const(shared_start if value == 2 else 0)) for value in values)
            yield Cases(stage_of(nest.statement, operand.name), branches)
