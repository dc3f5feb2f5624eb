"""A schedule for a machine whose tiles are longer or shorter: as many tiles in each loop, other elements.

Q = 4, tiles of 8:  for n by 16 { unroll n by 8 { issue; } }
Q = 8, tiles of 16: for n by 32 { unroll n by 16 { issue; } }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from isamap.plan.loops import LoopStep, UnrolledLoop
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.schedule import NestSchedule, Schedule, unclaimed


def at_other_tiles(
    schedule: Schedule, problem: Problem, other: Problem, lengths: tuple[int, int]
) -> Schedule | None:
    """The schedule of a problem as an answer to that of the same machine at another length of its vectors.

    `lengths` are both, in the order of the problems. None where a mapping is not offered there, or cuts its
    axes otherwise. What comes out is judged as any schedule is.
    """
    nests: list[NestSchedule] = []
    for nest in schedule.nests:
        here = next((o for o in _offered(nest, problem) if o.choose == nest.choose), None)
        there = _counterpart(nest, tuple(_offered(nest, other)), lengths)
        if here is None or there is None:
            return None
        tiles = {axis.name: axis.tile for axis in here.axes}
        others = {axis.name: axis.tile for axis in there.axes}
        if tiles.keys() != others.keys() or any(loop.step % tiles[loop.axis] for loop in nest.loops):
            return None
        loops = tuple(_loop(loop, tiles, others) for loop in nest.loops)
        nests.append(replace(nest, choose=there.choose, loops=loops))
    return replace(unclaimed(schedule), nests=tuple(nests))


def _offered(nest: NestSchedule, problem: Problem) -> Iterator[NestOption]:
    """The options of a nest's mapping."""
    question: NestProblem = next(one for one in problem.nests if one.statement == nest.statement)
    return (option for option in question.options if option.mapping == nest.mapping)


def _counterpart(
    nest: NestSchedule, options: tuple[NestOption, ...], lengths: tuple[int, int]
) -> NestOption | None:
    """The option that chooses as much of a vector; what does not grow with it is chosen alike."""
    here, there = lengths
    grown = tuple((name, value * there // here) for name, value in nest.choose)
    chosen = dict(nest.choose)

    def fits(option: NestOption) -> bool:
        grows = dict(grown)
        return all(value in (grows.get(name), chosen.get(name)) for name, value in option.choose)

    exact = next((option for option in options if option.choose == grown), None)
    return exact or next((option for option in options if fits(option)), None)


def _loop(loop: LoopStep, tiles: Mapping[str, int], others: Mapping[str, int]) -> LoopStep:
    tile, other = tiles[loop.axis], others[loop.axis]
    step = loop.step // tile * other
    if isinstance(loop, UnrolledLoop):
        return replace(loop, step=step)
    return replace(loop, step=step, rest=tuple(piece // tile * other for piece in loop.rest))
