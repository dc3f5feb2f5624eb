"""Kernels dealt to devices: plans that are checked, CP-SAT beside trying all, and a solver that fails."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from isamap.plan.device_plan import (
    DeviceKernel,
    DevicePlan,
    DeviceProblem,
    Phase,
    check_device_plan,
    cost_ns,
    needs_of,
)
from isamap.scheduler.graphs import devices
from isamap.scheduler.graphs.devices import DeviceWindow, by_levels, deal, least_ns, partition_devices
from isamap.scheduler.process.isolate import warn_of_failure
from isamap.source import Diagnostic


def fork(start_ns: float = 100.0, crossing_ns: float = 0.0) -> DeviceProblem:
    """Return a kernel, two that read its result, and one that reads theirs."""
    jobs = (
        DeviceKernel(500.0, ("x",), ("a",)),
        DeviceKernel(1000.0, ("a",), ("b",)),
        DeviceKernel(900.0, ("a",), ("c",)),
        DeviceKernel(500.0, ("b", "c"), ("y",)),
    )
    return DeviceProblem(jobs, 2, start_ns, dict.fromkeys("abc", crossing_ns))


def random_problem(seed: int, count: int) -> DeviceProblem:
    rng = random.Random(seed)
    jobs: list[DeviceKernel] = []
    for n in range(count):
        read = sorted(rng.sample(range(n), min(n, rng.randint(0, 2))))
        jobs.append(DeviceKernel(float(rng.randint(50, 900)), tuple(f"t{m}" for m in read), (f"t{n}",)))
    crossing = {f"t{n}": float(rng.choice((0, 30, 200))) for n in range(count)}
    return DeviceProblem(tuple(jobs), 2, float(rng.choice((0, 100, 400))), crossing)


def deals(problem: DeviceProblem) -> Iterator[tuple[Phase, ...]]:
    """Yield every deal to two devices in as many slots as there are kernels, each alone or side by side."""
    count = len(problem.jobs)
    places = [(slot, device) for slot in range(count) for device in (0, 1)]
    for where in product(places, repeat=count):
        used = sorted({slot for slot, _ in where})
        if used != list(range(len(used))):
            continue
        yield tuple(
            tuple(
                part
                for device in (0, 1)
                if (part := tuple(n for n, place in enumerate(where) if place == (slot, device)))
            )
            for slot in used
        )


def is_sound(problem: DeviceProblem, phases: tuple[Phase, ...]) -> bool:
    return not check_device_plan(problem, DevicePlan(phases, cost_ns(problem, phases)))


def test_branches_are_side_by_side_where_starting_takes_less_than_that_saves() -> None:
    plan = partition_devices(fork(), 5.0, deal)
    assert plan.cost_ns == 500 + 100 + 1000 + 500
    assert sorted(map(len, plan.phases)) == [1, 1, 2]
    assert partition_devices(fork(start_ns=1000.0), 5.0, deal).phases == (((0, 1, 2, 3),),)


def test_what_another_device_wrote_is_dearer_to_read() -> None:
    assert partition_devices(fork(crossing_ns=200.0), 5.0, deal).cost_ns == 500 + 100 + 1100 + 200 + 500
    assert partition_devices(fork(crossing_ns=500.0), 5.0, deal).cost_ns == 2900


def test_a_kernel_waits_for_those_that_touched_what_it_writes() -> None:
    jobs = (DeviceKernel(1.0, (), ("a",)), DeviceKernel(1.0, ("a",), ("b",)), DeviceKernel(1.0, (), ("a",)))
    assert needs_of(jobs) == (frozenset(), frozenset({0}), frozenset({0, 1}))


@pytest.mark.parametrize("seed", range(8))
def test_the_solver_finds_the_best_of_all_deals(seed: int) -> None:
    problem = random_problem(seed, 4)
    least = min(cost_ns(problem, phases) for phases in deals(problem) if is_sound(problem, phases))
    found = partition_devices(problem, 10.0, deal)
    assert found.cost_ns == pytest.approx(least, abs=0.5)
    assert least_ns(problem) <= least + 1e-6


def test_a_part_alone_is_the_first_devices_in_the_model_too() -> None:
    jobs = (
        DeviceKernel(1.0, (), ("a",)),
        DeviceKernel(1.4, ("a",), ("b",)),
        DeviceKernel(8.0, ("a", "b"), ("c",)),
        DeviceKernel(6.7, (), ("d",)),
    )
    problem = DeviceProblem(jobs, 2, 0.0, dict.fromkeys("acd", 2.0))
    assert partition_devices(problem, 10.0, deal).cost_ns == pytest.approx(10.4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [12, 3 * devices.STRETCH])
def test_a_deal_is_sound_and_no_dearer_than_one_device_or_levels(seed: int, count: int) -> None:
    problem = random_problem(seed, count)
    found = partition_devices(problem, 2.0, deal)
    assert check_device_plan(problem, found) == ()
    assert found.cost_ns <= min(
        sum(job.cost_ns for job in problem.jobs), cost_ns(problem, by_levels(problem))
    )


def test_each_fault_in_a_deal_is_found() -> None:
    problem = fork()
    plan = partition_devices(problem, 5.0, deal)
    faults = {
        "missing": replace(plan, phases=plan.phases[:-1]),
        "there twice": replace(plan, phases=(*plan.phases, plan.phases[-1])),
        "not there yet": replace(plan, phases=plan.phases[::-1]),
        "3 parts for 2 devices": replace(plan, phases=(((0,), (1,), (2,)), ((3,),))),
        "is empty": replace(plan, phases=((), *plan.phases)),
        "it costs": replace(plan, cost_ns=plan.cost_ns - 10),
        "its bound": replace(plan, bound_ns=plan.cost_ns + 10),
    }
    assert check_device_plan(problem, plan) == ()
    for fault, wrong in faults.items():
        assert any(fault in d.message for d in check_device_plan(problem, wrong)), fault


def test_a_failing_solver_is_told_of_and_levels_are_kept() -> None:
    def ask(_: DeviceWindow) -> DevicePlan | Diagnostic | None:
        return warn_of_failure("out of luck", "plan")

    found = partition_devices(fork(), 1.0, ask)
    assert found.phases == (((0,),), ((1,), (2,)), ((3,),))
    assert [warning.notes for warning in found.warnings] == [("out of luck",)]


def test_a_process_of_its_own_says_the_same() -> None:
    assert partition_devices(fork(), 5.0) == partition_devices(fork(), 5.0, deal)
