"""What complete search tries beyond the loops of one statement: dealing, taking along, and what fits where.

Stated anew after docs/threads.md, docs/scratchpads.md and docs/command-schedule.md; nothing of the
scheduler's is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod

from isamap.plan.problem import NestOption, Problem, TileAxis, TileOperand

# --- scratchpads ------------------------------------------------------------------------------------------

Cut = tuple[Sequence[TileAxis], Sequence[int]]
"""The axes from outside inward, and the blocks in the order in which the problem lists the axes."""


def fits(
    option: NestOption,
    unrolled: Mapping[str, int],
    cut: Cut,
    stages: Sequence[int],
    capacities: Mapping[str, int],
    twice: Collection[str] = (),
) -> bool:
    """Return whether what is staged in scratchpads is there at the same time: all buffers of the nest.

    Of operands in `twice` there are two copies.
    """
    order, sizes = cut
    running = sorted(order, key=option.axes.index)
    chosen = dict(zip((axis.name for axis in running), sizes, strict=True))
    outside = [(a.name, chosen[a.name]) for a in order if chosen[a.name] < a.extent]
    sweeps = [(a.name, unrolled[a.name] * a.tile) for a in running if not a.is_reduction]
    issues = [(a.name, a.tile) for a in option.axes]
    needed = dict.fromkeys(capacities, 0)
    for operand, choice in zip(option.operands, stages, strict=True):
        if choice and operand.staging.homes[0]:
            depth = _copied_at(operand, choice, outside, option, len(sweeps))
            loops = [*outside, *sweeps, *issues]
            copies = 2 if operand.name in twice else 1
            needed[operand.staging.homes[0]] += copies * _bytes(operand, option, loops, depth)
    return all(size <= capacities[memory] for memory, size in needed.items())


def _copied_at(
    operand: TileOperand, choice: int, outside: list[tuple[str, int]], option: NestOption, sweeps: int
) -> int:
    """Return how many loops stand around a copy."""
    if choice == 2:
        return 0
    if not operand.is_accumulator:
        return max((n + 1 for n, (name, _) in enumerate(outside) if name in operand.axes), default=0)
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    cut = [n for n, (name, _) in enumerate(outside) if name in sums]
    return cut[0] if cut and operand.staging.stage_whole else len(outside) + sweeps


def _bytes(operand: TileOperand, option: NestOption, loops: list[tuple[str, int]], depth: int) -> int:
    """Whole tiles of all that the loops inside go through."""
    left = {axis.name: axis.extent for axis in option.axes}
    tiles = 1
    for place, (name, step) in enumerate(loops):
        if place >= depth and name in operand.axes:
            tiles *= -(-left[name] // step)
        left[name] = min(left[name], step)
    return tiles * operand.tile_elements * operand.staging.staged_bytes


# --- threads ----------------------------------------------------------------------------------------------


def every_dealing(option: NestOption, problem: Problem) -> Iterator[NestOption]:
    """Yield the option itself, and as one part sees it, for each way to deal one axis or two to all threads."""
    yield option
    if any(operand.staging.homes[0] for operand in option.operands):
        return  # how cores share a scratchpad is not known
    axes = [a for a in option.axes if _issues(a) > 1 and (not a.is_reduction or option.can_split_sums)]
    seen: set[tuple[tuple[str, int], ...]] = set()
    for count in (1, 2):
        for dealt in combinations(axes, count):
            for parts in product(range(2, problem.threads + 1), repeat=count):
                if prod(parts) <= problem.threads:
                    part = _part(option, dict(zip((a.name for a in dealt), parts, strict=True)))
                    if part.parts not in seen:
                        seen.add(part.parts)
                        yield part


def _part(option: NestOption, counts: Mapping[str, int]) -> NestOption:
    """Return the largest part: whole issues, as even as can be."""
    dealt = [axis for axis in option.axes if axis.name in counts]
    return sized_as_a_part(
        option, {a.name: -(-_issues(a) // min(counts[a.name], _issues(a))) * a.tile for a in dealt}
    )


def sized_as_a_part(option: NestOption, steps: Mapping[str, int]) -> NestOption:
    """Return the option of a part of so many elements along the axes that are dealt."""
    axes = [replace(a, extent=steps[a.name]) if a.name in steps else a for a in option.axes]
    parts = [(a.name, -(-a.extent // steps[a.name])) for a in option.axes if a.name in steps]
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    apart = prod(count for name, count in parts if name not in sums)
    fusions = tuple(replace(f, extra_ns=f.extra_ns / apart) for f in option.fusions)
    return replace(option, axes=tuple(axes), parts=tuple(parts), fusions=fusions)


def _issues(axis: TileAxis) -> int:
    return -(-axis.extent // axis.tile)


def seen_by_a_part(problem: Problem, option: NestOption) -> Problem:
    """Return the machine while the others run: what cores share is divided."""
    others = prod(count for _, count in option.parts)
    caches = tuple(
        replace(
            cache,
            capacity_bytes=cache.capacity_bytes // (others if cache.shared else min(others, cache.cores)),
            bandwidth_bytes_per_ns=cache.bandwidth_bytes_per_ns / (others if cache.shared else 1),
        )
        for cache in problem.caches
    )
    divided = problem.memory_bandwidth_bytes_per_ns / (others if problem.memory_shared else 1)
    return replace(problem, caches=caches, memory_bandwidth_bytes_per_ns=divided)


def dealing_ns(problem: Problem, option: NestOption, placed: Mapping[str, int]) -> float:
    """Return what threads take to begin, once for the parts, for each input staged as a whole, twice for a joined
    sum, what it takes to join one, and to fetch a result of several rows that are divided. Units: nanoseconds.
    """
    if not option.parts:
        return 0.0
    sums = {axis.name for axis in option.axes if axis.is_reduction}
    copies = prod(count for name, count in option.parts if name in sums)
    extents = {axis.name: axis.extent for axis in option.axes}
    whole = sum(1 for o in option.operands if not o.is_accumulator and placed[o.name] == 2)
    found = problem.thread_start_ns * (1 + whole + (2 if copies > 1 else 0))
    if copies == 1 and problem.caches and not problem.private:
        for o in (o for o in option.operands if o.is_accumulator):
            others = prod(extents[name] for name in o.axes if name != o.layout.dense_axis)
            pieces = dict(option.parts).get(o.layout.dense_axis, 1) if others > 1 else 1
            found += (
                problem.model.remote_byte_ns
                * prod(extents[name] for name in o.axes)
                * o.layout.tensor_bytes
                * (pieces - 1)
                / pieces
            )
    if copies > 1:
        own = seen_by_a_part(problem, option)
        for o in (o for o in option.operands if o.is_accumulator):
            moved = prod(extents[name] for name in o.axes) * o.staging.staged_bytes * (copies + 1) / copies
            near = [c.bandwidth_bytes_per_ns for c in own.caches if moved <= c.capacity_bytes]
            found += moved / (near[0] if near else own.memory_bandwidth_bytes_per_ns)
    return found


# --- taking along -----------------------------------------------------------------------------------------


def every_taking(option: NestOption, there: set[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Statements that may be taken along together, with what that adds. Units: nanoseconds."""
    offered = [fusion for fusion in option.fusions if fusion.statement in there]
    for count in range(len(offered) + 1):
        for chosen in combinations(offered, count):
            taken = tuple(fusion.statement for fusion in chosen)
            if all(set(fusion.needs) <= set(taken) for fusion in chosen):
                yield taken, sum(fusion.extra_ns for fusion in chosen)
