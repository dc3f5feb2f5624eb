"""The pipeline from text to emitted C, with each stage timed.

parse → transform → match → formulate → schedule → check → lower → emit
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, isclose

from isamap.driver.block_choice import form_in_blocks
from isamap.driver.blocking import of_nests
from isamap.driver.cached_schedules import (
    question_of,
    recall_schedule,
    remember_schedule,
    reprice_schedule,
    schedule_key,
)
from isamap.driver.explaining import form_warnings, scalar_warnings, schedule_accesses
from isamap.driver.formulation import Extent, Questions, choose_form, choose_registers, extent_of
from isamap.driver.inputs import with_profile
from isamap.driver.printers import Artifact, emit_artifact
from isamap.driver.request import Request, complete_sizes, read_bound
from isamap.driver.stages import Clock, Watch
from isamap.driver.workspace_packing import ALL_PASSES, finish_program
from isamap.formulate.matches import Matches
from isamap.ir import Kernel, Range, bind
from isamap.lower.passes import State, lower_by_passes
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, at_one_length, load_machine, with_addressed_registers
from isamap.plan.access_counts import CONVENTIONS
from isamap.plan.check import check_schedule, warn_unused_capacity
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import PROVEN, Schedule, cost_unit
from isamap.plan.text import parse_schedule
from isamap.scheduler import complete
from isamap.scheduler import schedule as solve
from isamap.scheduler.effects.energy import DEAR, WithinModel
from isamap.scheduler.nests.pricing import price, start_only_from
from isamap.source import Diagnostic, UsageProblem, add_up, dataclass, field, replace
from isamap.source.process import full_collection_put_off
from isamap.source.progress import Limited
from isamap.syntax import parse_kernel
from isamap.transform import Rewrite

Seen = Callable[[str, State], None]
"""A callback that receives the name and the result of each lowering pass."""


def ignore_pass(_name: str, _state: State) -> None:
    """Ignore the results of passes."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """The results of the compilation's stages. Those after the last stage that ran are None.

    `kernel` has its sizes bound. `canonical` also has explicit guards, and is the kernel that is scheduled.
    `matches` are its mappings, none if the problem came from the cache. `passed` is the state after the
    requested last pass of lowering. `rewrite` is the variant that was compiled, with its steps; None for the
    kernel as written. `origin` is the source of the schedule. `versions` are compilations, up to their
    schedules, among which the sizes of a call choose. `schedule` is then that of the last one. `own_lengths`
    are vector lengths for which the program has a separate schedule.
    """

    kernel: Kernel
    machine: Machine | None = None
    canonical: Kernel | None = None
    matches: tuple[Matches, ...] = ()
    problem: Problem | None = None
    schedule: Schedule | None = None
    passed: tuple[State, ...] = ()
    program: LoweredProgram | None = None
    emitted: Artifact | None = None
    warnings: tuple[Diagnostic, ...] = ()
    stage_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    rewrite: Rewrite | None = None
    origin: Mapping[str, object] = field(default_factory=dict[str, object])
    versions: tuple[Compilation, ...] = ()
    own_lengths: tuple[int, ...] = ()


@full_collection_put_off()
def compile_kernel(
    request: Request,
    stop_after: str = "emit",
    watch: Watch = lambda _: None,
    extent: Extent | None = None,
    seen: Seen = ignore_pass,
) -> Compilation:
    """Compile a kernel's text to C, or to the named stage or pass. Raises: IsamapError of any kind.

    `extent` selects the mappings of the problem. By default it has all of them if `formulate` is the last
    stage, else those that the request needs. `seen` receives the result of each lowering pass.
    """
    clock = Clock(watch)
    with clock("parse"):
        parsed = parse_kernel(request.kernel)
        sizes = complete_sizes(parsed, request.sizes)
        kernel = bind(parsed, sizes)
    made = Compilation(kernel, stage_seconds=clock.seconds)
    if stop_after == "parse":
        return made
    with clock("parse"):
        machine = with_profile(at_one_length(load_machine(request.machine)), request.profile)
        machine = replace(machine, starts_cold=True) if request.cold else machine
    questions = Questions(request, with_addressed_registers(machine), sizes, clock)
    with clock("transform"):
        form = choose_form(request, parsed, questions.machine, sizes, questions.problem, clock)
        written = bind(form.kernel, sizes) if form.steps else kernel
        # Blocks of dozens of statements would be priced for minutes: forms at points are compiled as models' are.
        cut = replace(request, transform=None) if form.rounded else request
        dense, blocks = form_in_blocks(cut, written, machine, questions.problem, clock)
        canonical = dense.kernel
        form = replace(form, kernel=canonical, steps=(*form.steps, *dense.steps)) if dense.steps else form
        if questions.machine is not machine:
            questions = choose_registers(questions, Questions(request, machine, sizes, clock), canonical)
            machine = questions.machine
    made = replace(made, machine=machine, canonical=canonical, rewrite=form)
    if stop_after == "transform":
        return made
    if stop_after == "match":
        return replace(made, matches=questions.matches(canonical))
    problem = questions.problem(
        canonical, extent or ("whole" if stop_after == "formulate" else extent_of(request))
    )
    problem = replace(problem, blocks=tuple((one.axis, one.size) for one in blocks))
    made = replace(made, problem=problem, matches=questions.known.get(canonical, ()))
    if stop_after == "formulate":
        return made
    with clock("schedule"):
        if request.heuristic != "greedy":
            clock.watch(Limited("schedule", request.limit_s))
        schedule, origin = _choose_schedule(request, canonical, machine, problem, sizes, clock)
    if cost_unit(schedule.model) == "pJ":
        schedule = _with_counted_cost(schedule, canonical, machine, problem)
    with clock("check"):
        warnings = _warnings(request, made, schedule)
    made = replace(made, schedule=schedule, warnings=warnings, origin=origin)
    if stop_after in ("schedule", "check"):
        return made
    with clock("lower"):
        made = _lower_compilation(made, sizes, stop_after, seen)
    if made.program is None or stop_after == "lower":
        return made
    with clock("emit"):
        model = request.model or machine.target.run == "model"
        emitted = emit_artifact(made.program, machine, model=model)
    return replace(made, emitted=emitted)


def _with_counted_cost(schedule: Schedule, kernel: Kernel, machine: Machine, problem: Problem) -> Schedule:
    """Return the schedule with the energy that access counts give as its cost.

    The model prices fused statements alike in all schedules. Sums that leave registers before they are whole may cost
    more than that.
    """
    found = schedule_accesses(kernel, schedule, problem, machine, CONVENTIONS["isamap"])
    counted_pj = add_up(one.energy.total_pj for one in found if one.energy is not None)
    if schedule.cost_ns is None or isclose(counted_pj, schedule.cost_ns, rel_tol=PROVEN):
        return schedule
    bound_pj = None if schedule.lower_bound_ns is None else min(schedule.lower_bound_ns, counted_pj)
    status = "FEASIBLE" if schedule.status == "OPTIMAL" else schedule.status
    return replace(schedule, cost_ns=counted_pj, lower_bound_ns=bound_pj, status=status)


def _warnings(request: Request, made: Compilation, schedule: Schedule) -> tuple[Diagnostic, ...]:
    """Return warnings about the search for a schedule and about slow parts of the schedule."""
    assert made.machine, "the stages before have run"
    assert made.canonical, "the stages before have run"
    assert made.problem, "the stages before have run"
    is_transformed = request.transform is not None
    scalars = scalar_warnings(
        made.canonical, made.machine, made.problem, schedule, is_transformed=is_transformed
    )
    forms = () if is_transformed else form_warnings(made.kernel, made.machine)
    said = {form.span for form in forms}  # of these statements it is known what would help
    unused = warn_unused_capacity(schedule, made.problem)
    return (*schedule.findings, *unused, *(s for s in scalars if s.span not in said), *forms)


def _lower_compilation(
    made: Compilation, sizes: Mapping[str, int | Range], stop_after: str, seen: Seen
) -> Compilation:
    """Return the compilation with the program, or with the result of the requested last pass."""
    assert made.machine, "the stages before have run"
    assert made.canonical, "the stages before have run"
    assert made.schedule, "the stages before have run"
    known = made.canonical, made.machine, made.schedule, sizes
    last: State | None = None
    for name, state in lower_by_passes(*known, matches=made.matches, passes=ALL_PASSES):
        seen(name, state)
        last = state
        if name == stop_after:
            return replace(made, passed=(state,))
    assert isinstance(last, LoweredProgram), "the last pass leaves a program"
    return replace(made, program=finish_program(last, made.machine))


def _choose_schedule(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    problem: Problem,
    sizes: Mapping[str, int | Range],
    clock: Clock,
) -> tuple[Schedule, Mapping[str, object]]:
    """Return the schedule and its origin. Measurement and simulation only happen if an option requests them."""
    if request.tune or request.tuned:
        from isamap.driver.tuning import TuningKey, tuned_schedule  # brings what measures

        question = TuningKey(request, kernel, machine, problem, sizes)
        return tuned_schedule(question, lambda: find_schedule(request, problem, clock))
    schedule = find_schedule(request, problem, clock)
    if request.evaluate:
        from isamap.driver.refining import searched_schedule  # brings what evaluates

        schedule = searched_schedule(request, kernel, machine, problem, sizes, schedule)
        return schedule, {"from": "evaluation"}
    return schedule, {"from": "model" if request.schedule is None else "file"}


def _solve_for_objective(request: Request, problem: Problem, fixed: Mapping[str, int]) -> Schedule:
    """Return the schedule that the heuristic finds for the objective, within the bound if one is given.

    A bound is a factor on the least of another cost, of each statement by itself: so it holds of the kernel,
    and nothing is proven of a kernel of several statements.
    """

    def ask(question: Problem, model: CostModel) -> Schedule:
        return solve(question, model=model, fixed=fixed, heuristic=request.heuristic, limit_s=request.limit_s)

    model = load_cost_model(request.cost_model)
    if request.cost_model == "edp" and len(problem.nests) > 1:
        said = f"{problem.kernel} has {len(problem.nests)} statements, and a product is minimised of one"
        help_ = "take `--objective energy --within time=1.1`, or the statements as kernels"
        raise UsageProblem.of("objective-unavailable", said, help=help_)
    if not request.within:
        return ask(problem, model)
    name, factor = read_bound(request.within)
    bounded = load_cost_model(name)
    least = ask(problem, bounded)
    spent = [cost or 0.0 for cost in price(least, problem, bounded)]
    costs = [cost or 0.0 for cost in price(least, problem, model)]
    bare = replace(least, nests=tuple(replace(nest, fused=()) for nest in least.nests))
    loads = [
        cost or 0.0 for cost in price(bare, problem, bounded)
    ]  # fused statements are not in a statement's own
    limits = [
        (nest.statement, ceil((factor - 1) * cost + load))
        for nest, cost, load in zip(problem.nests, spent, loads, strict=True)
    ]
    dear = DEAR * max(costs) / max(1.0, min(s for s in spent if s > 0))
    within = WithinModel(model, bounded, tuple(limits), dear, f"{model.name} within {request.within}")
    made = ask(start_only_from(problem, least), within)
    if (made.cost_ns or 0.0) > sum(costs) * (1 + PROVEN):
        made = replace(made, nests=least.nests, cost_ns=add_up(costs), found_by=least.found_by)
    return made if len(problem.nests) == 1 else replace(made, lower_bound_ns=0.0, status="FEASIBLE")


@full_collection_put_off()
def find_schedule(request: Request, problem: Problem, clock: Clock | None = None) -> Schedule:
    """Return the checked schedule, replayed, cached or found. Raises: UsageProblem, Infeasible."""

    def find(question: Problem, fixed: Mapping[str, int]) -> Schedule:
        key = schedule_key(request, question, fixed) if request.cache else None
        known = recall_schedule(key, question) if key is not None else None
        if known is not None:
            return known
        made = replace(_solve_for_objective(request, question, fixed), question=question_of(request))
        if request.profile:
            made = replace(made, profile=request.profile.digest[:12])
        if key is not None:
            remember_schedule(key, made)
        return made

    if request.schedule is None:
        given = {name: value for name, value in of_nests(request.fixed).items() if value is not None}
        schedule = find(problem, given)
    else:
        schedule = parse_schedule(request.schedule)
        if of_nests(request.fixed):
            schedule = complete(problem, schedule, of_nests(request.fixed), find)
    with (clock or Clock())("check"):
        findings = check_schedule(schedule, problem)
    if findings:
        assert request.schedule is not None, f"the scheduler broke its rules: {findings}"
        raise UsageProblem(*findings)
    return schedule if request.schedule is None else reprice_schedule(schedule, request, problem)
