"""Assign a program's steps to devices: cores with private caches, which run in parallel in phases.

    deal(program, costs, machine, devices=2, limit_s=10)

Kernels have their compiled prices, and moves are priced by their bytes. A phase costs the machine's time to
start threads, which is measured by calibration or stated in its description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from isamap.formulate.hierarchy import Memories
from isamap.graph.group_prices import near_of
from isamap.graph.model_program import ModelProgram, called_by, reads_of, writes_of
from isamap.graph.types import size_bytes
from isamap.machine import Machine
from isamap.plan.device_plan import DeviceKernel, DevicePlan, DeviceProblem, Phase, check_device_plan
from isamap.scheduler.graphs.devices import partition_devices


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """A program with steps in phase order, its phases as step numbers, and the plan."""

    program: ModelProgram
    phases: tuple[Phase, ...]
    plan: DevicePlan
    devices: int
    alone_ns: float


def deal(
    program: ModelProgram, costs: Mapping[str, float], machine: Machine, devices: int, limit_s: float
) -> DeviceAssignment:
    """Return the assignment of steps to devices. `costs` are prices by kernel. Units: ns, seconds of wall clock."""
    problem = problem_of(program, costs, machine, devices)
    plan = partition_devices(problem, limit_s)
    wrong = check_device_plan(problem, plan)
    assert not wrong, "\n".join(d.message for d in wrong)
    place = {step: n for n, step in enumerate(plan.order)}
    phases = tuple(tuple(tuple(place[n] for n in part) for part in phase) for phase in plan.phases)
    steps = tuple(program.steps[n] for n in plan.order)
    alone_ns = sum(job.cost_ns for job in problem.jobs)
    return DeviceAssignment(replace(program, steps=steps), phases, plan, devices, alone_ns)


def problem_of(
    program: ModelProgram, costs: Mapping[str, float], machine: Machine, devices: int
) -> DeviceProblem:
    """Return the steps as kernels with prices, for the assignment to devices."""
    near, memories = near_of(machine), Memories.of(machine)
    jobs: list[DeviceKernel] = []
    crossing: dict[str, float] = {}
    for step in program.steps:
        passed = (*reads_of(step), *writes_of(step))
        sizes = {p.tensor: size_bytes(p.dtype, p.shape) for p in passed}
        cost = costs[called_by(step)] if called_by(step) else memories.moved_ns(sum(sizes.values()))
        reads, writes = (
            tuple(dict.fromkeys(p.tensor for p in found)) for found in (reads_of(step), writes_of(step))
        )
        jobs.append(DeviceKernel(machine.model.call_ns + cost, reads, writes))
        own = {t: size for t, size in sizes.items() if t in writes and size <= near.capacity_bytes}
        crossing |= {t: size * near.far_ns_per_byte for t, size in own.items()}
    return DeviceProblem(tuple(jobs), devices, machine.thread_start_ns, crossing)


def places_of(phases: tuple[Phase, ...]) -> list[tuple[int, int]]:
    """Return the start and the end of each step. Steps in parallel parts of a phase share their times."""
    places: list[tuple[int, int]] = []
    for phase in phases:
        at, count = len(places), sum(map(len, phase))
        alone = len(phase) == 1
        places += [(at + n, at + n + 1) if alone else (at, at + count) for n in range(count)]
    return places
