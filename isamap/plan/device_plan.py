"""Kernels of a graph assigned to devices, in phases that end when all devices are done: data, and a check.

    ((0,),), ((1, 3), (2,)), ((4,),)     kernel 0 alone, then 1 and 3 in parallel with 2, then 4

A device is a core with caches of its own. In a phase with several parts each device performs one. Kernels of
different parts do not need each other. A phase with one part is the first device's, which is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isamap.source import Diagnostic, dataclass

Phase = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A kernel: the names of its tensors, and its price on one device. Units: nanoseconds."""

    cost_ns: float
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceProblem:
    """Kernels in a feasible order, the number of devices, and the costs of transfers between devices.

    `start_ns` is the time to start a phase on several devices and to wait for its end. Reading a tensor
    that another device wrote takes `crossing_ns` longer. Units: nanoseconds.
    """

    jobs: tuple[DeviceKernel, ...]
    devices: int
    start_ns: float
    crossing_ns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """A sequence of phases. Units: nanoseconds. No plan costs less than `bound_ns`.

    `warnings` report failures of the solver, after which the best known plan is returned.
    """

    phases: tuple[Phase, ...]
    cost_ns: float
    bound_ns: float = 0.0
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """All kernels in phase order, part after part, which is a feasible order for one device."""
        return tuple(n for phase in self.phases for part in phase for n in part)


def needs_of(jobs: Sequence[DeviceKernel]) -> tuple[frozenset[int], ...]:
    """Return the kernels for which each kernel waits: earlier ones with a common tensor that either writes."""
    writers: dict[str, int] = {}
    readers: dict[str, set[int]] = {}
    found: list[frozenset[int]] = []
    for number, job in enumerate(jobs):
        needs = {writers[t] for t in (*job.reads, *job.writes) if t in writers}
        for tensor in job.writes:
            needs |= readers.pop(tensor, set())
            writers[tensor] = number
        for tensor in job.reads:
            readers.setdefault(tensor, set()).add(number)
        found.append(frozenset(needs - {number}))
    return tuple(found)


def cost_ns(problem: DeviceProblem, phases: Sequence[Phase]) -> float:
    """Return the total time: the slowest part of each phase, reads from other devices, and starts of phases."""
    wrote: dict[str, int] = {}
    total = 0.0
    for phase in phases:
        times: list[float] = []
        for device, part in enumerate(phase):
            jobs = [problem.jobs[n] for n in part]
            crossing = (
                problem.crossing_ns.get(t, 0.0)
                for job in jobs
                for t in dict.fromkeys(job.reads)
                if wrote.get(t, device) != device
            )
            times.append(sum(job.cost_ns for job in jobs) + sum(crossing))
            wrote |= {t: device for job in jobs for t in job.writes}
        total += max(times, default=0.0) + (problem.start_ns if len(phase) > 1 else 0.0)
    return total


def check_device_plan(problem: DeviceProblem, plan: DevicePlan) -> tuple[Diagnostic, ...]:
    """Return the errors in a plan, or () if it is correct."""
    found: list[Diagnostic] = []
    if sorted(plan.order) != list(range(len(problem.jobs))):
        return (_error("a kernel is missing, or there twice"),)
    needs, done = needs_of(problem.jobs), set[int]()
    for number, phase in enumerate(plan.phases):
        if len(phase) > problem.devices:
            found.append(_error(f"phase {number} has {len(phase)} parts for {problem.devices} devices"))
        if not phase or not all(phase):
            found.append(_error(f"a part of phase {number} is empty"))
        for part in phase:
            there = set(done)
            for job in part:
                if missing := needs[job] - there:
                    said = f"kernel {job} in phase {number} needs {min(missing)}, which is not there yet"
                    found.append(_error(said))
                there.add(job)
        done |= {job for part in phase for job in part}
    if not found and abs(cost := cost_ns(problem, plan.phases) - plan.cost_ns) > 1e-6 * plan.cost_ns + 1e-6:
        found.append(_error(f"it costs {cost + plan.cost_ns:.1f} ns, not {plan.cost_ns:.1f}"))
    if plan.bound_ns > plan.cost_ns * (1 + 1e-9) + 1e-6:
        found.append(_error(f"its bound is {plan.bound_ns:.1f} ns, above its cost"))
    return tuple(found)


def _error(message: str) -> Diagnostic:
    return Diagnostic("device-plan-wrong", message)
