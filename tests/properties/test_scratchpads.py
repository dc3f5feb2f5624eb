"""Random products staged in random scratchpads: what is found fits, and what is refused does not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from plan_problems import gemm_option, problem

from isamap.plan.check import check_schedule
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler import schedule
from isamap.source import Infeasible

TILE = 16


def random_problem(rng: random.Random) -> Problem:
    """Return a product on tiles whose operands are read in one scratchpad, and whose sums in another."""
    m, n, k = (rng.randint(1, 6) * rng.choice((8, 16)) for _ in range(3))
    option = gemm_option(m, n, k)
    a, b, c = option.operands
    cells = TILE * TILE
    operands = (
        with_fields(a, direct_ns=None, homes=("spad",), memory="spad", tile_elements=cells),
        with_fields(b, direct_ns=None, homes=("spad",), memory="weights", tile_elements=cells),
        with_fields(c, direct_ns=None, homes=("acc",), memory="acc", tile_elements=cells),
    )
    axes = tuple(replace(axis, tile=TILE) for axis in option.axes)
    capacities = (
        ("acc", rng.choice((512, 1024, 4096, 9000))),
        ("spad", rng.choice((1024, 2048, 5000, 20000))),
    )
    made = problem(replace(option, axes=axes, operands=operands), registers={"weights": 2})
    return replace(made, scratchpads=capacities)


def least_bytes(asked: Problem) -> dict[str, int]:
    """Return one tile of each operand: cache blocks and register blocks of one issue."""
    (option,) = asked.nests[0].options
    found: dict[str, int] = {}
    for operand in option.operands:
        size = operand.tile_elements * operand.staging.staged_bytes
        found[operand.staging.homes[0]] = found.get(operand.staging.homes[0], 0) + size
    return found


@pytest.mark.parametrize(("heuristic", "seed"), list(product(("greedy", "annealing", "cpsat"), range(8))))
def test_what_is_found_fits_and_what_is_refused_cannot(heuristic: str, seed: int) -> None:
    asked = random_problem(random.Random(seed))
    fits = all(least_bytes(asked)[name] <= capacity for name, capacity in asked.scratchpads)
    if not fits:
        with pytest.raises(Infeasible) as caught:
            schedule(asked, heuristic=heuristic)
        assert [d.code for d in caught.value.diagnostics] == ["scratchpad-too-small"]
        return
    found = schedule(asked, heuristic=heuristic, limit_s=20.0)
    assert check_schedule(found, asked) == ()
    assert all(stage.address is not None for stage in found.nests[0].stages)


def test_a_larger_scratchpad_never_makes_the_optimum_worse() -> None:
    asked = replace(random_problem(random.Random(3)), scratchpads=(("acc", 4096), ("spad", 5000)))
    larger = replace(asked, scratchpads=(("acc", 8192), ("spad", 20000)))
    small, large = (schedule(p, heuristic="cpsat", limit_s=20.0) for p in (asked, larger))
    assert small.status == large.status == "OPTIMAL"
    assert small.cost_ns is not None
    assert large.cost_ns is not None
    assert large.cost_ns <= small.cost_ns * (1 + 1e-9)
