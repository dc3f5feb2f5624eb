"""The pipeline on one screen: text in, emitted C out, each stage timed.

text → parse → match → schedule → lower → emit
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

from isamap.codegen.c import EmittedC, emit_c
from isamap.driver.choosing import choose_form
from isamap.driver.narrowing import Extent, extent_of, is_own, problem_in
from isamap.driver.profiles import with_profile
from isamap.driver.recalled import (
    problem_key,
    recall_problem,
    recall_schedule,
    remember_problem,
    remember_schedule,
    schedule_key,
)
from isamap.driver.replaying import question_of, replayed
from isamap.driver.request import Request
from isamap.driver.sizes import complete_sizes
from isamap.driver.slowness import form_warnings, scalar_warnings
from isamap.driver.workspace import finished
from isamap.ir import Kernel, Range, bind
from isamap.lower.lower import lower
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, load_machine
from isamap.plan.check import check_schedule
from isamap.plan.parse import parse_schedule
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule
from isamap.scheduler import complete
from isamap.scheduler import schedule as solve
from isamap.source import Diagnostic, UsageProblem
from isamap.source.collecting import full_collection_put_off
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite, make_guards_explicit

STAGES = ("parse", "match", "schedule", "lower", "emit")

Watch = Callable[[str], None]
"""Told the name of each stage when it begins."""


@dataclass(slots=True)
class Clock:
    """How long each stage took. Units: `seconds`."""

    watch: Watch = lambda _: None
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def __call__(self, stage: str) -> Generator[None]:
        """Times what runs inside."""
        self.watch(stage)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Compilation:
    """What the stages made; those behind the last stage that ran are None.

    `kernel` has its sizes bound; `canonical` has its guards made explicit besides, and is what is scheduled.
    `rewrite` is the form that was compiled, with its steps; none for the kernel as written. `origin` says
    where the schedule is from. `versions` are the compilations, up to their schedules, among which the sizes
    of a call choose; then the schedule here is that of the last one.
    """

    kernel: Kernel
    machine: Machine | None = None
    canonical: Kernel | None = None
    problem: Problem | None = None
    schedule: Schedule | None = None
    program: LoweredProgram | None = None
    emitted: EmittedC | None = None
    warnings: tuple[Diagnostic, ...] = ()
    stage_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    rewrite: Rewrite | None = None
    origin: Mapping[str, object] = field(default_factory=dict[str, object])
    versions: tuple[Compilation, ...] = ()


@full_collection_put_off()
def compile_kernel(
    request: Request,
    stop_after: str = "emit",
    watch: Watch = lambda _: None,
    extent: Extent | None = None,
) -> Compilation:
    """The way from a kernel's text to C, or to the stage named. Raises: IsamapError of every kind.

    The problem has as many mappings as `extent` says; without it all of them where it is the last that is
    made, else those that the request needs.
    """
    clock = Clock(watch)
    with clock("parse"):
        parsed = parse_kernel(request.kernel)
        sizes = complete_sizes(parsed, request.sizes)
        kernel = bind(parsed, sizes)
    if stop_after == "parse":
        return Compilation(kernel, stage_seconds=clock.seconds)
    with clock("match"):
        machine = with_profile(load_machine(request.machine), request.profile)
        machine = replace(machine, starts_cold=True) if request.cold else machine

        @cache  # the problem of the form that is chosen was made to choose it
        def problem_of(of: Kernel, extent: Extent) -> Problem:
            return _asked(request, of, machine, sizes, extent)

        form = choose_form(request, parsed, machine, sizes, problem_of)
        canonical = make_guards_explicit(bind(form.kernel, sizes) if form.steps else kernel)
        needed = extent or ("whole" if stop_after == "match" else extent_of(request))
        problem = problem_of(canonical, needed)
    if stop_after == "match":
        return Compilation(kernel, machine, canonical, problem, stage_seconds=clock.seconds, rewrite=form)
    with clock("schedule"):
        schedule, origin = _chosen(request, canonical, machine, problem, sizes)
        scalars = scalar_warnings(canonical, machine, problem, schedule)
        forms = form_warnings(kernel, machine) if request.transform is None else ()
        said = {form.span for form in forms}  # of these statements it is known what would help
        warnings = (*schedule.findings, *(s for s in scalars if s.span not in said), *forms)
    if stop_after == "schedule":
        made = (kernel, machine, canonical, problem, schedule, None, None)
        return Compilation(*made, warnings, clock.seconds, form, origin)
    with clock("lower"):
        program = finished(lower(canonical, machine, schedule, sizes), machine)
    if stop_after == "lower":
        made = (kernel, machine, canonical, problem, schedule, program, None)
        return Compilation(*made, warnings, clock.seconds, form, origin)
    with clock("emit"):
        emitted = emit_c(program, machine, model=request.model or machine.target.run == "model")
    made = (kernel, machine, canonical, problem, schedule, program, emitted)
    return Compilation(*made, warnings, clock.seconds, form, origin)


def _asked(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    extent: Extent,
) -> Problem:
    """The problem, recalled or built."""
    is_kept = request.cache and (extent == "whole" or is_own(request))
    key = problem_key(request, kernel, extent) if is_kept and isinstance(extent, str) else None
    known = recall_problem(key) if key is not None else None
    if known is not None:
        return known
    problem = problem_in(extent, request, kernel, machine, sizes)
    if key is not None:
        remember_problem(key, problem)
    return problem


def _chosen(
    request: Request, kernel: Kernel, machine: Machine, problem: Problem, sizes: Mapping[str, int | Range]
) -> tuple[Schedule, Mapping[str, object]]:
    """The schedule with where it is from. Only what is asked to measures, or simulates."""
    if request.tune or request.tuned:
        from isamap.driver.tuning import Question, tuned_schedule  # brings what measures

        question = Question(request, kernel, machine, problem, sizes)
        return tuned_schedule(question, lambda: find_schedule(request, problem))
    schedule = find_schedule(request, problem)
    if request.evaluate:
        from isamap.driver.search import searched_schedule  # brings what evaluates

        schedule = searched_schedule(request, kernel, machine, problem, sizes, schedule)
        return schedule, {"from": "evaluation"}
    return schedule, {"from": "model" if request.schedule is None else "file"}


@full_collection_put_off()
def find_schedule(request: Request, problem: Problem) -> Schedule:
    """The schedule that is replayed, recalled or found, checked. Raises: UsageProblem, Infeasible."""

    def found(question: Problem, fixed: Mapping[str, int]) -> Schedule:
        key = schedule_key(request, question, fixed) if request.cache else None
        known = recall_schedule(key, question) if key is not None else None
        if known is not None:
            return known
        made = solve(
            question,
            heuristic=request.heuristic,
            model=request.cost_model,
            limit_s=request.limit_s,
            fixed=fixed,
        )
        made = replace(made, question=question_of(request))
        if request.profile:
            made = replace(made, profile=request.profile.digest[:12])
        if key is not None:
            remember_schedule(key, made)
        return made

    if request.schedule is None:
        given = {name: value for name, value in request.fixed.items() if value is not None}
        schedule = found(problem, given)
    else:
        schedule = parse_schedule(request.schedule)
        if request.fixed:
            schedule = complete(problem, schedule, request.fixed, found)
    findings = check_schedule(schedule, problem)
    if findings:
        assert request.schedule is not None, f"the scheduler broke its rules: {findings}"
        raise UsageProblem(*findings)
    return schedule if request.schedule is None else replayed(schedule, request, problem)
