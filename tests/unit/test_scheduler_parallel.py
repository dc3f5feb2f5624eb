"""What a part of a statement sees of a machine whose cores share some of what they have."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from plan_problems import CACHES, gemm

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.problem import Problem
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.partitioning import part_of, part_problem
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.scheduler.nests.pricing import price
from isamap.source import Source
from isamap.syntax import parse_kernel
from tests.device_kernels import product


def seen(problem: Problem, threads: int, **parts: int) -> Problem:
    """Return the problem of one of so many parts, with some threads beside it."""
    part = part_of(problem.nests[0].options[0], parts)
    assert part is not None
    return part_problem(replace(problem, threads=threads), part)


def test_parts_divide_the_room_of_a_cache_that_cores_share_and_not_its_bandwidth() -> None:
    nearest, second, last = CACHES
    problem = replace(gemm(1024, 1024, 1024), caches=(nearest, second, replace(last, cores=3)))
    for threads, parts, room in ((2, 2, 2), (3, 3, 3), (8, 8, 3), (2, 8, 2)):
        found = seen(problem, threads, m=parts).caches
        assert found[:2] == (nearest, second)
        assert found[2].capacity_bytes == last.capacity_bytes // room
        assert found[2].bandwidth_bytes_per_ns == last.bandwidth_bytes_per_ns


def test_parts_divide_both_where_the_link_is_shared() -> None:
    nearest, second, last = CACHES
    problem = replace(gemm(1024, 1024, 1024), caches=(nearest, second, replace(last, cores=2, shared=True)))
    found = seen(problem, 4, n=4).caches[2]
    assert found.capacity_bytes == last.capacity_bytes // 4
    assert found.bandwidth_bytes_per_ns == last.bandwidth_bytes_per_ns / 4


@pytest.mark.parametrize("machine", ["nvidia-sm80", "amd-rdna3", "simt-32"])
def test_other_units_move_the_bytes_of_a_part_and_no_more(machine: str) -> None:
    """The traffic of all of an array was the price of each part, so that vectors seemed faster than matrices."""
    hardware = load_machine(machine)
    text = """kernel product() {
      in A: f16[256, 192]; in B: f16[192, 128]; inout C: f32[256, 128];
      for m in 256, n in 128, k in 192 { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }
    }"""
    problem = build_problem(bind(parse_kernel(Source("product.ir", text)), {}), hardware, {})
    seen = 0
    for option in problem.nests[0].options:
        if {"m", "n"} - {axis.name for axis in option.axes}:
            continue  # of axes that are fused
        part = part_of(option, {"m": 4, "n": 2})
        if part is None or prod(count for _, count in part.parts) != 8:
            continue
        for whole, own in zip(option.operands, part.operands, strict=True):
            if whole.staging.flow is None or own.staging.flow is None or whole.is_accumulator:
                continue
            shares = prod(count for name, count in part.parts if name in own.axes)
            for (unit, all_ns), (same, ns) in zip(
                whole.staging.flow.begun, own.staging.flow.begun, strict=True
            ):
                assert unit == same
                assert ns == pytest.approx(all_ns / shares)
                seen += 1
    assert seen


@pytest.mark.parametrize(("machine", "columns"), [("nvidia-sm80", 8), ("amd-rdna3", 4)])
def test_sums_of_a_block_stay_in_registers_while_its_tiles_are_staged_in_parts(
    machine: str, columns: int
) -> None:
    """They were loaded and stored for each part, which was most of the price of large products."""
    sizes = {"M": 64, "N": 64, "K": 1024}
    fixed = {"nest0.parallel.m": 4, "nest0.parallel.n": columns, "nest0.parallel.k": 1, "nest0.block.k": 32}
    fixed |= {f"nest0.stage.{name}": 1 for name in "ab"}
    made = compile_kernel(
        Request(product("f16", "f32"), machine, sizes, heuristic="greedy", fixed=fixed), "schedule"
    )
    assert made.schedule is not None
    assert made.problem is not None
    (nest,) = made.schedule.nests
    assert all(stage.depth > nest.hold for stage in nest.stages)
    assert price(made.schedule, made.problem, AnalyticModel()) == (pytest.approx(made.schedule.cost_ns),)
    (spent,) = where_time_goes(made.schedule, made.problem, AnalyticModel())
    assert spent is not None
    moved_ns = spent.sums()["accumulators"]
    (option,) = [
        o for o in made.problem.nests[0].options if (o.mapping, o.choose) == (nest.mapping, nest.choose)
    ]
    sums = next(o for o in option.operands if o.is_accumulator)
    assert sums.costs.direct_ns is not None
    assert moved_ns < 8 * sums.costs.direct_ns, (
        "a part moves each of four tiles once in and once out, and 32 parts would move them 32 times"
    )


def test_lanes_copy_tiles_for_later_iterations_while_they_compute() -> None:
    """Copies were taken to hide behind sums in any case, though all lanes wait for each other around them."""
    sizes = {"M": 64, "N": 64, "K": 1024}
    fixed = {"nest0.parallel.m": 4, "nest0.parallel.n": 8, "nest0.parallel.k": 1, "nest0.block.k": 64}
    fixed |= {f"nest0.stage.{name}": 1 for name in "ab"}
    found: dict[int | None, tuple[float, dict[str, float]]] = {}
    for ahead in (0, 1, 3, None):
        asked = fixed if ahead is None else fixed | {f"nest0.ahead.{name}": ahead for name in "ab"}
        made = compile_kernel(
            Request(product("f16", "f32"), "nvidia-sm80", sizes, heuristic="greedy", fixed=asked), "schedule"
        )
        assert made.schedule is not None
        assert made.problem is not None
        (nest,) = made.schedule.nests
        if ahead is None:
            assert all(stage.ahead > 0 for stage in nest.stages)
        else:
            assert [stage.ahead for stage in nest.stages] == [ahead, ahead]
        assert price(made.schedule, made.problem, AnalyticModel()) == (pytest.approx(made.schedule.cost_ns),)
        (spent,) = where_time_goes(made.schedule, made.problem, AnalyticModel())
        assert spent is not None
        found[ahead] = made.schedule.cost_ns or 0.0, spent.sums()
    assert found[1][0] < found[0][0]
    assert found[1][1]["barriers"] == pytest.approx(found[0][1]["barriers"] / 2)
    best_ns, _ = found[None]
    assert best_ns <= min(ns for ns, _ in found.values())


@pytest.mark.parametrize("machine", ["nvidia-sm80", "nvidia-sm90", "amd-rdna3"])
def test_a_product_is_computed_by_matrix_instructions_where_a_machine_has_them(machine: str) -> None:
    """Their operands are staged for a whole block."""
    made = compile_kernel(
        Request(product("f16", "f32"), machine, {"M": 256, "N": 256, "K": 256}, heuristic="greedy"),
        "schedule",
    )
    assert made.schedule is not None
    (nest,) = made.schedule.nests
    performed = load_machine(machine).instructions[nest.mapping.split()[0]].instruction
    fragments = [o for o in performed.operands if o.role == "in"]
    assert all(len(o.shape) == 2 for o in fragments), nest.mapping


def test_threads_divide_the_outer_axis_of_a_result_where_inner_ones_cost_the_same() -> None:
    """Filters of single channels were divided by channels, so that each core fetched half from the other one."""
    text = """kernel filtered() {
      in a: f32[16, 16, 384]; in w: f32[3, 3, 384]; inout y: f32[14, 14, 384];
      for h in 14, v in 14, c in 384, r in 3, s in 3 { y[h, v, c] += a[h + r, v + s, c] * w[r, s, c]; }
    }"""
    request = Request(Source("filtered.ir", text), "x86-avx512", {}, heuristic="greedy", threads=2)
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    (nest,) = made.schedule.nests
    assert [loop.axis for loop in nest.loops[: nest.parallel]] == ["h"]
    assert made.problem is not None
    assert price(made.schedule, made.problem, AnalyticModel()) == (pytest.approx(made.schedule.cost_ns),)
    problem = made.problem
    free = replace(problem, model=replace(problem.model, remote_byte_ns=0.0))
    divided = compile_kernel(replace(request, fixed={"nest0.parallel.c": 2}), "schedule").schedule
    assert divided is not None
    with_lines, without = (price(divided, asked, AnalyticModel())[0] for asked in (problem, free))
    written_bytes = 14 * 14 * 384 * 4 / 2  # by one of two parts; half of it is fetched
    assert with_lines is not None
    assert without is not None
    assert with_lines - without == pytest.approx(0.04 * written_bytes / 2)
    assert price(made.schedule, free, AnalyticModel()) == price(made.schedule, problem, AnalyticModel())
