"""Parts that share a core: what each may use, the time of all of them, and cores that wait for the last ones."""

from __future__ import annotations

import pytest
from plan_problems import gemm

from isamap.plan.cost import evaluate
from isamap.plan.problem import NestOption, Problem
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.partitioning import part_cost, part_of
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.effects.time_parts import Counts
from isamap.scheduler.search.greedy import first_assignment
from isamap.source.records import replace

MODEL = AnalyticModel()
CORES = 3


def on_cores(m: int, *, residents: int) -> tuple[Problem, NestOption]:
    """Return a product on cores that four teams of threads share, and its option for blocks of eight members."""
    made = gemm(m, 64, 64)
    (nest,) = made.nests
    option = replace(nest.options[0], team=4, members=8)
    shared = {"private": ("shared",), "scratchpads": (("shared", 48 << 10),)}
    of_core = (("shared", 100 << 10), ("zmm", 128))
    problem = replace(made, nests=(replace(nest, options=(option,)),), threads=4 * CORES, team_threads=4)
    return replace(problem, residents=residents, of_core=of_core, **shared), option


@pytest.mark.parametrize(
    ("parts", "team", "residents", "registers", "shared_bytes"),
    [
        (3, 4, 1, 16, 48 << 10),  # 128 registers for 8 members; a block may have no more than 48 KiB
        (4, 4, 2, 8, 48 << 10),  # two blocks on the core
        (6, 4, 2, 8, 48 << 10),
        (12, 4, 2, 8, 48 << 10),  # more parts than residents: they follow one another
        (12, 1, 1, 4, 25 << 10),  # blocks of one thread: four of them on each core
        (24, 1, 2, 2, 12800),
    ],
)
def test_blocks_share_what_a_core_has(
    parts: int, team: int, residents: int, registers: int, shared_bytes: int
) -> None:
    problem, option = on_cores(24, residents=2)
    option = replace(option, team=team, parts=(("m", parts),))
    assert problem.residents_of(option) == residents
    assert problem.registers_of(option) == {"zmm": registers}
    assert problem.room(option) == {"shared": shared_bytes}


def test_the_compilers_own_registers_are_not_free_for_tiles() -> None:
    """A block of sixteen warps got all registers of a core for its fragments, so that addresses were spilled."""
    problem, option = on_cores(24, residents=1)
    model = replace(problem.model, kernel_registers_count=1, input_registers_count=4, loop_registers_count=2)
    asked = replace(problem, model=model)
    inputs = sum(not operand.is_accumulator for operand in option.operands)
    assert asked.compiler_registers(option) == 1 + 4 * inputs + 2 == 11
    assert asked.compiler_registers(option, loops=3) == 15
    assert problem.registers_of(option) == {"zmm": 16}
    assert asked.registers_of(option) == {"zmm": 5}


def test_a_core_takes_no_less_than_the_work_of_its_residents_and_the_waits_of_one() -> None:
    problem, option = on_cores(24, residents=2)
    part = part_of(option, {"m": 6})
    assert part is not None
    (nest,) = problem.nests
    made = first_assignment(
        Space(0, part, problem.registers_of(part), {}, problem.room(part)), {"m": 1, "n": 1, "k": 1}
    )
    assert made is not None
    ns = dict[str, float]()
    added = 0.0
    for share in MODEL.shares(problem, nest, part):
        ns[share.name] = ns.get(share.name, 0.0) + float(evaluate(share.cost, made))
        added += float(evaluate(share.cost, made)) if share.counts is Counts.ON_TOP else 0.0
    stored_ns = 4 * 4 * 0.42  # 4 rows of 4 vectors each, in and out once
    assert ns["residents"] == pytest.approx(2 * max(ns["issues"], ns["operand loads"]) + stored_ns)
    # Six parts are two on each core, at the same time: one round.
    assert float(evaluate(part_cost(problem, nest, part, MODEL), made)) >= ns["residents"] + added


@pytest.mark.parametrize(
    ("m", "parts", "residents", "idle"),
    [
        (3, 3, 1, 0),
        (4, 4, 1, 1 - 4 / 6),  # one core has a second part, two wait for it
        (4, 2, 1, 1 / 3),  # two parts of two rows on three cores
        (6, 6, 2, 0),
        (4, 4, 2, 1 - 4 / 6),
    ],
)
def test_cores_wait_for_the_last_parts(m: int, parts: int, residents: int, idle: float) -> None:
    problem, option = on_cores(m, residents=residents)
    part = part_of(option, {"m": parts})
    assert part is not None
    (nest,) = problem.nests
    made = first_assignment(
        Space(0, part, problem.registers_of(part), {}, problem.room(part)), {"m": 1, "n": 1, "k": 1}
    )
    assert made is not None
    ns = {share.name: float(evaluate(share.cost, made)) for share in MODEL.shares(problem, nest, part)}
    assert ns["waves"] == pytest.approx(idle * ns["issues"])
