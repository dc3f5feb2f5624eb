"""Random small problems of more kinds: companions to take along, threads to deal to, scratchpads to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from properties.random_problems import random_option, random_problem

from isamap.machine.timings import StreamTimes
from isamap.plan.problem import Fusion, NestOption, NestProblem, Problem, TileOperand, with_fields

PARTNERS = (0, 2, 3)
"""Statements around the sum, which is statement 1: what it starts from, and two that finish it."""


def fused_problem(random: Random) -> Problem:
    """Return a sum with up to three elementwise statements around it that it may take along, or may not."""
    return with_companions(random, random_problem(random, statements=1, options=2))


def threaded_problem(random: Random) -> Problem:
    """For one to four threads, some of which share caches and memory; now and then with companions."""
    asked = random_problem(random, statements=1, options=2)
    nests = tuple(
        replace(
            nest,
            options=tuple(replace(o, can_split_sums=random.random() < 0.6) for o in nest.options),
        )
        for nest in asked.nests
    )
    asked = replace(
        asked,
        nests=nests,
        caches=(asked.caches[0], replace(asked.caches[1], shared=random.random() < 0.5)),
        memory_shared=random.random() < 0.5,
        threads=random.choice([1, 2, 2, 3, 3, 3, 4]),
        thread_start_ns=random.choice([0.0, 1.0, 5.0, 50.0]),
    )
    return with_companions(random, asked) if random.random() < 0.3 else asked


def scratch_problem(random: Random) -> Problem:
    """Operands staged in one scratchpad or two, which hold some tiles; now and then with companions."""
    asked = random_problem(random, statements=1, options=2)
    nests = tuple(
        replace(nest, options=tuple(_in_scratchpads(random, o) for o in nest.options)) for nest in asked.nests
    )
    tile = 16
    capacities = tuple(
        (name, random.randint(1, most) * tile + random.choice([0, 0, 5]))
        for name, most in (("acc", random.choice([2, 8])), ("spad", random.choice([3, 10, 40])))
    )
    registers = (("reg", random.choice([1, 3, 4, 16])), ("wide", random.choice([1, 4])))
    asked = replace(asked, nests=nests, scratchpads=capacities, registers=registers)
    return with_companions(random, asked) if random.random() < 0.2 else asked


def kept_problem(random: Random) -> Problem:
    """Inside ordered loops whose iterations may read the same copy of an input; on several threads."""
    asked = threaded_problem(random)

    def kept(operand: TileOperand) -> TileOperand:
        serves = operand.costs.staged_ns is not None and not operand.is_accumulator
        return with_fields(operand, iterations_of_copy=random.choice([1, 2, 50])) if serves else operand

    nests = tuple(
        replace(nest, options=tuple(replace(o, operands=tuple(map(kept, o.operands))) for o in nest.options))
        for nest in asked.nests
    )
    return replace(asked, nests=nests)


def hinted_problem(random: Random) -> Problem:
    """For one to four threads, with inputs that may be asked for early: late ones and streaming ones."""
    asked = threaded_problem(random)
    streams = StreamTimes(
        traffic_factor=random.choice([0.6, 1.0]),
        computing_factor=random.choice([0.5, 1.8]),
        hinted_computing_factor=random.choice([0.0, 0.5]),
        row_start_ns=random.choice([1.0, 20.0]),
        hinted_start_ns=random.choice([0.0, 1.0]),
        long_bytes=random.choice([16, 64]),
        ahead_bytes=0,
        long_start_ns=random.choice([None, 0.0, 30.0]),
    )
    swept_ns = asked.memory_rows.swept_ns
    hinted = {
        "hinted_swept_count": random.choice([0, 2, 8, 64]),
        "hinted_swept_ns": random.choice([0.0, swept_ns / 2]),
        "hinted_traffic_factor": random.choice([None, 0.0, 0.3]),
    }
    nests = tuple(
        replace(nest, options=tuple(_with_hints(random, option) for option in nest.options))
        for nest in asked.nests
    )
    caches = tuple(replace(cache, rows=replace(cache.rows, **hinted)) for cache in asked.caches)
    rows = replace(asked.memory_rows, **hinted)
    return replace(
        asked,
        nests=nests,
        caches=caches,
        memory_rows=rows,
        memory_streams=streams,
        hinted=("l1", "l2"),
    )


KINDS: dict[str, Callable[[Random], Problem]] = {
    "companions": fused_problem,
    "threads": threaded_problem,
    "scratchpads": scratch_problem,
}


def with_companions(random: Random, problem: Problem) -> Problem:
    """Return the problem's first statement as statement 1, among elementwise ones that its options take along."""
    there = random.sample(PARTNERS, random.randint(1, len(PARTNERS)))
    options = tuple(_taking(random, option, there) for option in problem.nests[0].options)
    alone = tuple(NestProblem(number, (_elementwise(random),)) for number in there)
    nests = sorted((NestProblem(1, options), *alone), key=lambda nest: nest.statement)
    return replace(problem, nests=tuple(nests))


def _taking(random: Random, option: NestOption, there: Sequence[int]) -> NestOption:
    """Return the option with some of the statements on offer, some of which need others of them."""
    offered = sorted(number for number in there if random.random() < 0.8)
    fusions = tuple(
        Fusion(
            number,
            tuple(other for other in offered[:place] if random.random() < 0.5),
            random.choice([0.0, 1.0, 5.0, 20.0, 60.0]),
        )
        for place, number in enumerate(offered)
    )
    return replace(option, fusions=fusions)


def _elementwise(random: Random) -> NestOption:
    """Return an option without sums, of few decisions."""
    option = random_option(random, "each")
    axes = tuple(replace(axis, extent=min(axis.extent, 3 * axis.tile)) for axis in option.axes[:2])
    names = [axis.name for axis in axes]
    operands = tuple(
        with_fields(o, axes=tuple(n for n in o.axes if n in names), stage_whole=False, dense_axis="")
        for o in option.operands
        if o.name != "b"
    )
    return replace(option, axes=axes, operands=operands)


def _with_hints(random: Random, option: NestOption) -> NestOption:
    """Return the option with hints for inputs; what streams is not late, and has rows."""
    found: list[TileOperand] = []
    for operand in option.operands:
        if operand.is_accumulator or not operand.axes:
            found.append(operand)
            continue
        ns = random.choice([0.0, 0.01, 0.2])
        streams = bool(operand.layout.pitch_bytes) and random.random() < 0.3
        late = operand.prefetching.is_late and not streams
        ahead = random.choice([0, 64, 4096])
        hints = (("l1", ns), ("l2", ns)) if random.random() < 0.8 else ()
        found.append(with_fields(operand, hints=hints, is_streamed=streams, is_late=late, ahead_bytes=ahead))
    return replace(option, operands=tuple(found))


def _in_scratchpads(random: Random, option: NestOption) -> NestOption:
    """Return the option with inputs in a scratchpad, sums in another, the same, or the workspace."""
    homes = {name: random.choice(["spad", "spad", "spad", ""]) for name in "ab"}
    homes["c"] = random.choice(["acc", "acc", "spad", ""])
    return replace(option, operands=tuple(_housed(random, o, homes[o.name]) for o in option.operands))


def _housed(random: Random, operand: TileOperand, home: str) -> TileOperand:
    if not home:
        return operand
    staged = operand.costs.staged_ns if operand.costs.staged_ns is not None else 1.0
    in_place = operand.costs.direct_ns if random.random() < 0.3 else None
    memory = home if random.random() < 0.5 else operand.memory
    homes = (home, "") if random.random() < 0.2 else (home,)
    found = with_fields(operand, homes=homes, staged_ns=staged, direct_ns=in_place, memory=memory)
    if operand.is_accumulator or random.random() < 0.5:
        return found
    return with_fields(found, direct_busy_ns=(in_place or 0.0) / 2, staged_busy_ns=staged)
