"""Find the register blocks that fit into the registers, once for all options with equal register needs.

fitting((Taker("zmm", 1, (True, False)), Taker("zmm", 1, (False, True)), Taker("zmm", 1, (True, True), True)),
        (("zmm", 32),), (64, 4), 64)  ->  ((2, 2), (2, 3), (2, 4), (3, 2), …)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from math import prod

from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Taker:
    """The register needs of an operand: registers per tile, and the unrolled axes that it depends on."""

    memory: str
    registers: int
    follows: tuple[bool, ...]
    is_accumulator: bool = False


@lru_cache(maxsize=4096)
def fitting(
    takers: tuple[Taker, ...], registers: tuple[tuple[str, int], ...], limits: tuple[int, ...], most: int
) -> tuple[tuple[int, ...], ...]:
    """Factors above 1 for at most two axes, up to their limits and `most` in all, that fit."""
    found: list[tuple[int, ...]] = []
    first, second = (*limits, 1, 1)[:2]
    for i in range(2, first + 1) if limits else (1,):
        for j in range(2, second + 1) if len(limits) > 1 else (1,):
            factors = (i, j)[: len(limits)]
            if prod(factors) > most or not _fits(takers, dict(registers), factors):
                break  # a larger factor takes more
            found.append(factors)
    return tuple(found)


def _fits(takers: Sequence[Taker], registers: dict[str, int], factors: tuple[int, ...]) -> bool:
    """Return whether some order of the unrolled axes leaves no memory short of registers."""
    return any(_fits_in_order(takers, registers, factors, o) for o in permutations(range(len(factors))))


def _fits_in_order(
    takers: Sequence[Taker], registers: dict[str, int], factors: tuple[int, ...], order: tuple[int, ...]
) -> bool:
    needed: dict[str, int] = {}
    for taker in takers:
        follows = [taker.follows[i] for i in order]
        tiles = live(follows, [factors[i] for i in order], is_accumulator=taker.is_accumulator)
        needed[taker.memory] = needed.get(taker.memory, 0) + tiles * taker.registers
    return all(count <= registers.get(memory, count) for memory, count in needed.items())


def live(follows: Sequence[bool], factors: Sequence[int], *, is_accumulator: bool) -> int:
    """Tiles that wait in registers: all of an accumulator, else those that are used again.

    Both are given per unrolled axis, outer to inner: whether the operand follows it, and its factor.
    """
    if is_accumulator:
        return prod(factor for follow, factor in zip(follows, factors, strict=True) if follow)
    tiles = 1
    reused = False
    for follow, factor in zip(follows, factors, strict=True):
        reused = reused or not follow
        tiles *= factor if reused and follow else 1
    return tiles
