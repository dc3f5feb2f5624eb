"""Assign kernels of a graph to devices by CP-SAT: the phase and the device of each.

    partition_devices(problem, limit_s=10)      no dearer by the model than one device, or a distribution by levels

Phases of one device and phases of several devices alternate. Long graphs are distributed in windows of their
order, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from isamap.plan.device_plan import DevicePlan, DeviceProblem, Phase, cost_ns, needs_of
from isamap.scheduler.graphs.asking import ask_for
from isamap.source import Diagnostic, dataclass, replace

STRETCH = 32
"""The number of kernels that are assigned as one problem."""
MOST_PHASES = 8
"""Of several devices, in a stretch."""
TENTHS = 10
SEED = 0
EFFORT_PER_S = 0.2

Ask = Callable[["DeviceWindow"], DevicePlan | Diagnostic | None]


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """The kernels of a part of the order, after others that wrote tensors on devices. `start` is an assignment."""

    problem: DeviceProblem
    wrote: Mapping[str, int]
    start: tuple[Phase, ...]
    limit_s: float


def ask_apart(stretch: DeviceWindow) -> DevicePlan | Diagnostic | None:
    """Return the decision of a separate process, or the warning that it failed."""
    return ask_for(DevicePlan, stretch, stretch.limit_s)


def partition_devices(problem: DeviceProblem, limit_s: float, ask: Ask = ask_apart) -> DevicePlan:
    """Return the best partition that is found. Units: seconds of wall clock."""
    stop = time.monotonic() + limit_s
    count = len(problem.jobs)
    stretches = [range(at, min(at + STRETCH, count)) for at in range(0, count, STRETCH)]
    phases: list[Phase] = []
    failures: dict[Diagnostic, None] = {}
    for number, stretch in enumerate(stretches):
        own = replace(problem, jobs=problem.jobs[stretch.start : stretch.stop])
        left = max(0.1, stop - time.monotonic()) / (len(stretches) - number)
        start = by_levels(own)
        job = DeviceWindow(own, _writers(problem, phases), start, left)
        found = ask(job) if problem.devices > 1 and len(stretch) > 1 else None
        if isinstance(found, Diagnostic):
            failures[found] = None
        chosen = found.phases if isinstance(found, DevicePlan) else start
        phases += [tuple(tuple(n + stretch.start for n in part) for part in phase) for phase in chosen]
    alone: tuple[Phase, ...] = ((tuple(range(count)),),) if count else ()
    options = (tuple(_merge_phases(phases)), by_levels(problem), alone)
    best = min(options, key=lambda option: cost_ns(problem, option))
    cost = cost_ns(problem, best)
    return DevicePlan(best, cost, min(cost, least_ns(problem)), tuple(failures))


def least_ns(problem: DeviceProblem) -> float:
    """Return a lower bound on all partitions: an equal share for each device, and the longest dependence chain."""
    ends: list[float] = []
    for job, needs in zip(problem.jobs, needs_of(problem.jobs), strict=True):
        ends.append(job.cost_ns + max((ends[n] for n in needs), default=0.0))
    return max(sum(job.cost_ns for job in problem.jobs) / problem.devices, max(ends, default=0.0))


def by_levels(problem: DeviceProblem) -> tuple[Phase, ...]:
    """Distribute ready kernels to devices, the longest first, if that saves time."""
    needs, done = needs_of(problem.jobs), set[int]()
    phases: list[Phase] = []
    while len(done) < len(problem.jobs):
        ready = [n for n in range(len(problem.jobs)) if n not in done and needs[n] <= done]
        done |= set(ready)
        parts: list[list[int]] = [[] for _ in range(problem.devices)]
        loads = [0.0] * problem.devices
        for job in sorted(ready, key=lambda n: -problem.jobs[n].cost_ns):
            device = loads.index(min(loads))
            parts[device].append(job)
            loads[device] += problem.jobs[job].cost_ns
        pays = max(loads) + problem.start_ns < sum(loads)
        phases.append(tuple(tuple(sorted(p)) for p in parts if p) if pays else (tuple(ready),))
    return tuple(_merge_phases(phases))


def _merge_phases(phases: Sequence[Phase]) -> Iterator[Phase]:
    """Yield the phases, with consecutive phases of one device merged."""
    alone: tuple[int, ...] = ()
    for phase in phases:
        if len(phase) == 1:
            alone += phase[0]
            continue
        if alone:
            yield (alone,)
        alone = ()
        yield phase
    if alone:
        yield (alone,)


def _writers(problem: DeviceProblem, phases: Sequence[Phase]) -> dict[str, int]:
    """Return, for each tensor, the device that wrote it."""
    return {
        t: d for phase in phases for d, part in enumerate(phase) for n in part for t in problem.jobs[n].writes
    }


# --- the model --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Model:
    """The solver's model. `at` has a literal per kernel, slot and device. Even slots belong to the first device."""

    stretch: DeviceWindow
    model: Any
    slots: int
    at: list[dict[tuple[int, int], Any]]

    def on(self, job: int, device: int) -> Any:
        """Return the literal that is true if a kernel runs on a device."""
        return sum(var for (_, d), var in self.at[job].items() if d == device)


def deal(stretch: DeviceWindow) -> DevicePlan | None:
    """Return the best partition of a window that is found within its effort, or None."""
    from ortools.sat.python import cp_model

    problem = stretch.problem
    count = min(MOST_PHASES, max(1, len(problem.jobs) // 2))
    places = [(s, d) for s in range(2 * count + 1) for d in range(problem.devices if s % 2 else 1)]
    model = cp_model.CpModel()
    made = _Model(
        stretch, model, 2 * count + 1, [{p: model.new_bool_var("") for p in places} for _ in problem.jobs]
    )
    for own in made.at:
        model.add_exactly_one(own.values())
    _require_inputs(made)
    model.minimize(sum(_times(made)))
    _hint(made)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several under a wall clock answer differently each time
    solver.parameters.random_seed = SEED
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = EFFORT_PER_S * stretch.limit_s
    solver.parameters.max_time_in_seconds = stretch.limit_s
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    where = [next(p for p, var in own.items() if solver.value(var)) for own in made.at]
    phases: list[Phase] = []
    for slot in range(made.slots):
        parts = [
            tuple(n for n, place in enumerate(where) if place == (slot, d)) for d in range(problem.devices)
        ]
        if parts[0]:
            phases.append(tuple(part for part in parts if part))
    return DevicePlan(tuple(phases), cost_ns(problem, phases))


def _require_inputs(made: _Model) -> None:
    """Constrain the inputs of each kernel to be written in an earlier slot, or in its own part."""
    for job, needs in enumerate(needs_of(made.stretch.problem.jobs)):
        for other in needs:
            when = [sum(s * v for (s, _), v in made.at[n].items()) for n in (other, job)]
            made.model.add(when[0] <= when[1])
            for (slot, device), var in made.at[job].items():
                apart = [v for (s, d), v in made.at[other].items() if s == slot and d != device]
                if apart:
                    made.model.add_at_most_one(var, *apart)


def _times(made: _Model) -> list[Any]:
    """Return the time of each slot: of its slowest part, plus the start of several parts."""
    model, problem = made.model, made.stretch.problem
    whole = sum(round(job.cost_ns * TENTHS) for job in problem.jobs)
    whole += sum(round(ns * TENTHS) * len(problem.jobs) for ns in problem.crossing_ns.values())
    crossing = _find_crossing(made)
    times: list[Any] = []
    for slot in range(made.slots):
        devices = range(problem.devices if slot % 2 else 1)
        parts: list[Any] = []
        for device in devices:
            own = [round(j.cost_ns * TENTHS) * made.at[n][slot, device] for n, j in enumerate(problem.jobs)]
            for job, cost, crosses in crossing:
                both = model.new_bool_var("")
                model.add(both >= made.at[job][slot, device] + crosses - 1)
                own.append(cost * both)
            parts.append(sum(own))
        if len(parts) == 1:
            times += parts
            continue
        longest, runs = model.new_int_var(0, whole, ""), model.new_bool_var("")
        for part in parts:
            model.add(longest >= part)
        for own_at in made.at:
            for device in devices[1:]:  # none is left out: a part alone would be the first one's
                model.add_implication(own_at[slot, device], runs)
                model.add(own_at[slot, device] <= sum(other[slot, device - 1] for other in made.at))
        times += [longest, round(problem.start_ns * TENTHS) * runs]
    return times


def _find_crossing(made: _Model) -> list[tuple[int, int, Any]]:
    """Return reader, cost and literal for each tensor that may be read from another device."""
    problem = made.stretch.problem
    writers = {t: n for n, job in enumerate(problem.jobs) for t in job.writes}
    found: list[tuple[int, int, Any]] = []
    for number, job in enumerate(problem.jobs):
        for tensor in dict.fromkeys(job.reads):
            cost = round(problem.crossing_ns.get(tensor, 0.0) * TENTHS)
            writer, device = writers.get(tensor), made.stretch.wrote.get(tensor)
            if not cost or (writer is None and device is None):
                continue
            crosses = made.model.new_bool_var("")
            for d in range(problem.devices):
                there = made.on(writer, d) if writer is not None else int(d == device)
                made.model.add(crosses >= made.on(number, d) - there)
            found.append((number, cost, crosses))
    return found


def _hint(made: _Model) -> None:
    """Hint the start to the solver, as far as its phases fit into the slots."""
    where: dict[int, tuple[int, int]] = {}
    slot = 0
    for phase in made.stretch.start:
        odd = len(phase) > 1  # what is side by side is in odd slots, each in one of its own
        slot += 1 if odd != bool(slot % 2) else 2 if odd else 0
        if slot >= made.slots:
            return
        where |= {n: (slot, d) for d, part in enumerate(phase) for n in part}
    for number, own in enumerate(made.at):
        for place, var in own.items():
            made.model.add_hint(var, where[number] == place)
