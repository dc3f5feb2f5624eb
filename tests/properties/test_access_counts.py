"""Access counts that are computed equal those that walking the loops gives."""

from __future__ import annotations

import random

import pytest
from brute_accesses import walked_accesses, walked_issues

from isamap.plan.access_counts import CONVENTIONS, Convention, Refill, count_accesses, count_issues
from isamap.plan.loop_nest import CountedOperand, Keep, LoopNest, NestLoop, Role, Subscript

NESTS = 1000
REFILLS: tuple[Refill, ...] = ("entry", "change", "delta")
ROLES: tuple[Role, ...] = ("read", "write", "update")


@pytest.mark.parametrize("seed", range(10))
def test_counts_of_random_nests_equal_what_walking_them_gives(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(NESTS // 10):
        nest = random_nest(rng)
        mixed = Convention(
            "mixed",
            first_read=rng.random() < 0.5,
            refill=rng.choice(REFILLS),
            latch=rng.choice(REFILLS),
            shared_port=False,
        )
        assert count_issues(nest) == walked_issues(nest), nest
        for convention in (rng.choice(list(CONVENTIONS.values())), mixed):
            counted = {
                (a.operand, a.level): (a.reads, a.fills, a.updates, a.drains)
                for a in count_accesses(nest, convention)
            }
            assert counted == walked_accesses(nest, convention), (nest, convention)


def random_nest(rng: random.Random) -> LoopNest:
    """Up to four axes in up to three loops each, steps that need not divide, and three operands."""
    axes = tuple((axis, rng.randint(1, 6)) for axis in "abcd"[: rng.randint(1, 4)])
    waiting = [[NestLoop(axis, step) for step in random_steps(rng, extent)] for axis, extent in axes]
    loops: list[NestLoop] = []
    while any(waiting):
        loops.append(rng.choice([turns for turns in waiting if turns]).pop(0))
    operands = tuple(random_operand(rng, name, axes, len(loops)) for name in "xyz")
    return LoopNest(axes, tuple(loops), operands)


def random_steps(rng: random.Random, extent: int) -> list[int]:
    """Decreasing; the last one is what an issue covers."""
    steps = {rng.randint(1, extent) for _ in range(rng.randint(0, 2))} | {rng.choice((1, 1, 2))}
    return sorted(steps, reverse=True)


def random_operand(
    rng: random.Random, name: str, axes: tuple[tuple[str, int], ...], loops: int
) -> CountedOperand:
    """Windows, strides, diagonals, axes read backwards; up to two levels between home and datapath."""
    subscripts: list[Subscript] = []
    for _ in range(rng.randint(0, 3)):
        moved = rng.sample(axes, rng.randint(1, min(2, len(axes))))
        subscripts.append(tuple((axis, rng.choice((1, 1, 2, 3, -1))) for axis, _ in moved))
    depths = sorted(rng.randint(0, loops) for _ in range(rng.randint(0, 2)))
    keeps = (Keep("home", 0), *(Keep(f"level{n}", depth) for n, depth in enumerate(depths)))
    return CountedOperand(name, name.upper(), tuple(subscripts), keeps, rng.choice(ROLES))
