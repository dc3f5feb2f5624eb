"""Formulate the scheduling problems of a kernel's variants, and choose the variant to compile.

A problem comes from the cache, or is built from the mappings that `match` finds: all of them, those that may
win, enough for a first schedule, or named ones. Rewrites give variants of a kernel of which instructions
perform more:

    gemm_s8s8, where an instruction multiplies u8 by i8  ->  one factor shifted, and the sum corrected

Each variant that lets an instruction perform something new is scheduled quickly, and the cheapest few are
scheduled thoroughly. The cheapest by the model wins. The kernel as written wins if no variant is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal

from isamap.driver.blocking import of_nests
from isamap.driver.cached_schedules import PROBLEMS, problem_key
from isamap.driver.matching import forms_at_points, forms_of
from isamap.driver.request import BEST_FORM, DEFAULT_COST_MODEL, Request
from isamap.driver.stages import Clock
from isamap.formulate.build import build_problem
from isamap.formulate.matches import Matches, find_matches
from isamap.ir import Kernel, Operand, Range, bind, product
from isamap.ir.small_sizes import sample_sizes
from isamap.machine import Machine
from isamap.machine.cache_sets import uncrowding_bytes
from isamap.match import improving_rewrites, scratchpads
from isamap.plan.check.problem_rules import check_problem
from isamap.plan.plugins import load_cost_model, load_heuristic, plugin_package
from isamap.plan.problem import Problem
from isamap.plan.protocols import FlooredModel
from isamap.plan.schedule import Schedule
from isamap.plan.text import parse_schedule
from isamap.report.mapping_facts import Matched
from isamap.scheduler import FIRST_LOOKS, narrow_problem
from isamap.scheduler.nests.pricing import price
from isamap.source import Infeasible, NoMapping, UsageProblem, add_up, assert_rules, dataclass, field, replace
from isamap.source.cache import recall_content, remember_content
from isamap.source.codec import read_as, write
from isamap.transform import Rewrite, accesses, dense_form, edges_apart, make_guards_explicit, statements

# --- row room -------------------------------------------------------------------------------------------

# Pad the rows of a kernel's own arrays if they would share sets of a cache.
#
# f32[9, 9, 512], an image with its border      f32[9, 9, 528], of which the last 16 are not touched


def with_dense_arrays(kernel: Kernel, machine: Machine) -> Kernel:
    """Return the kernel with some inputs declared dense, so that transfers can treat adjacent axes as one.

    Its transfers then take axes that follow each other in memory as one: rows r, s, c of filters F[r, s, c, k].
    """
    if machine.target.run != "model" or not scratchpads(machine):
        return kernel
    summed, others = set[str](), set[str]()
    for statement in statements(kernel):
        found = summed if statement.reduction_axes else others
        found |= {read.buffer for read in accesses(statement)}

    def dense(o: Operand) -> Operand:
        if o.role != "in" or o.strides is not None or len(o.shape) < 3 or o.name not in summed - others:
            return o
        return replace(o, strides=tuple(product(o.shape[d + 1 :]) for d in range(len(o.shape))))

    return replace(kernel, operands=tuple(map(dense, kernel.operands)))


def with_row_room(canonical: Kernel, kernel: Kernel, machine: Machine) -> Kernel:
    """Return the canonical form of a kernel, with row padding for the temporaries that it introduces.

    Of open sizes there are several programs, which have their arrays in common: those stay as they are.
    """
    if any(size.value is None for o in canonical.operands for size in o.shape):
        return canonical
    own = {o.name for o in kernel.operands}
    operands = tuple(o if o.name in own else _with_room(o, machine) for o in canonical.operands)
    return replace(canonical, operands=operands)


def _with_room(o: Operand, machine: Machine) -> Operand:
    if len(o.shape) < 2 or o.dtype.bits % 8:
        return o
    size = o.dtype.bits // 8
    more = uncrowding_bytes((o.shape[-1].value or 0) * size, machine)
    return replace(o, shape=(*o.shape[:-1], o.shape[-1] + more // size)) if more else o


# --- formulation ----------------------------------------------------------------------------------------


Extent = Literal["whole", "narrow", "first"] | tuple[str, ...]
"""The mappings of a problem: all, those that may win, enough for a first schedule, or those of these names."""


def extent_of(request: Request) -> Extent:
    """Return which mappings the problem of a request must contain.

    All of it where a person decides, or where more than the best schedule is asked for; and for cost models
    that have no floors.
    """
    decided = of_nests(request.fixed) or request.schedule is not None
    model = load_cost_model(request.cost_model)
    if (
        decided
        or request.within
        or request.measures
        or request.best > 1
        or not isinstance(model, FlooredModel)
    ):
        return "whole"
    return "first" if request.heuristic == "greedy" else "narrow"


def is_own(request: Request) -> bool:
    """Return whether isamap's own cost model, and no plug-in, decides which mappings are left out."""
    return not plugin_package(load_cost_model(request.cost_model))


def problem_in(
    extent: Extent,
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    matches: Sequence[Matches],
) -> Problem:
    """Return the problem of a canonical kernel to the requested extent, given its matches. Raises: NoMapping."""
    if not isinstance(extent, str) or extent == "whole":
        named = None if extent == "whole" else extent
        return build_problem(kernel, machine, sizes, request.threads, request.packed, named, matches)
    looks = FIRST_LOOKS if extent == "first" else None
    model = load_cost_model(request.cost_model)
    return narrow_problem(kernel, machine, sizes, request.threads, model, looks, matches, request.packed)


@dataclass(frozen=True, slots=True)
class Questions:
    """The problems of a kernel's variants, each formulated once. `known` are cached matches of variants."""

    request: Request
    machine: Machine
    sizes: Mapping[str, int | Range]
    clock: Clock
    known: dict[Kernel, tuple[Matches, ...]] = field(default_factory=dict[Kernel, "tuple[Matches, ...]"])
    formulated: dict[tuple[Kernel, Extent], Problem] = field(
        default_factory=dict["tuple[Kernel, Extent]", Problem]
    )

    def matches(self, kernel: Kernel) -> tuple[Matches, ...]:
        """Return the mappings of a canonical kernel's statements."""
        if kernel not in self.known:
            with self.clock("match"):
                self.known[kernel] = find_matches(kernel, self.machine)
        return self.known[kernel]

    def problem(self, kernel: Kernel, extent: Extent) -> Problem:
        """Return the problem of a canonical kernel to the requested extent. Raises: NoMapping."""
        if (kernel, extent) not in self.formulated:
            with self.clock("formulate"):
                self.formulated[kernel, extent] = self._recall_or_build(kernel, extent)
        return self.formulated[kernel, extent]

    def _recall_or_build(self, kernel: Kernel, extent: Extent) -> Problem:
        """Return the problem, cached or newly formulated."""
        is_kept = self.request.cache and (extent == "whole" or is_own(self.request))
        scratchpads = [m.name for m in self.machine.memories.values() if m.kind == "scratchpad"]
        asked = f"{extent} {scratchpads}"  # registers with addresses are among them
        key = problem_key(self.request, kernel, asked) if is_kept and isinstance(extent, str) else None
        known = read_as(Problem, recall_content(PROBLEMS, key))
        if known is not None:
            return known
        known = self.matches(kernel)
        problem = problem_in(extent, self.request, kernel, self.machine, self.sizes, known)
        assert_rules(f"the problem of `{kernel.name}`", check_problem, problem)
        if key is not None:
            remember_content(PROBLEMS, key, write(problem))
        return problem


def formulate_matched(matched: Matched) -> tuple[Kernel, Problem, Mapping[str, int]]:
    """Return the canonical kernel, the problem that `compile` formulates, and the sizes of both.

    The problem holds mappings enough for a first schedule. Open sizes get sample values, 32 where `where`
    allows it. Raises: NoMapping if compilation refuses the kernel.
    """
    *_, sample = sample_sizes(matched.kernel, count=4)
    sizes = {p.name: sample[p.name] for p in matched.kernel.params if p.dtype is None}
    kernel, machine = bind(matched.kernel, sizes), matched.machine
    canonical = with_dense_arrays(with_row_room(make_guards_explicit(kernel), kernel, machine), machine)
    model = load_cost_model(DEFAULT_COST_MODEL)
    assert isinstance(model, FlooredModel), "the default model has floors"
    known = find_matches(canonical, machine)
    return canonical, narrow_problem(canonical, machine, {}, 1, model, FIRST_LOOKS, known), sizes


def choose_registers(addressed: Questions, numbered: Questions, canonical: Kernel) -> Questions:
    """Return the problems for the cheaper of two machines: with registers addressed by loops, or named by issues.

    The stages of a replayed schedule decide; else the cheaper quick plan does.
    """
    request, clock = addressed.request, addressed.clock
    if request.schedule is not None:
        before = {m.name for m in numbered.machine.memories.values() if m.kind == "registers"}
        staged = {s.memory for nest in parse_schedule(request.schedule).nests for s in nest.stages}
        return addressed if staged & before else numbered
    costs = [plan_ns(request, canonical, q.problem, "greedy", clock) for q in (numbered, addressed)]
    return numbered if costs[0] < costs[1] or costs[1] == float("inf") else addressed


MOST_FORMS = 12
# Forms whose quick plans cost up to so many times the least are searched as the chosen one will be, so many
# at most. Of s8 2 x 512 x 500000 a quick plan costs over 1.7 times what is found, another form's less.
RIVAL, MOST_RIVALS = 2.5, 3

LEAST_AT_POINTS_NS = 100_000
"""Convolutions that take less are not computed at points: the search for dozens of statements takes longer."""

LEAST_COPY = 0.1
"""Copies that take a smaller share of a quick plan stay: nine sums take longer to plan than they spare."""

ProblemOf = Callable[[Kernel, Extent], Problem]
"""A function that returns the problem of a canonical kernel to a requested extent. Raises: NoMapping."""


def canonical_form(
    request: Request, kernel: Kernel, machine: Machine, problem_of: ProblemOf, clock: Clock
) -> Rewrite:
    """Return a bound kernel in the form that is matched: with explicit guards, and perhaps with merged axes.

    Elements beyond an array come from a padded copy of it or, if that is cheaper, from separate edge
    statements.
    """
    if request.transform != BEST_FORM:
        made = with_row_room(make_guards_explicit(kernel), kernel, machine)
        return Rewrite(with_dense_arrays(made, machine), ())
    padded, apart = _dense(kernel, machine), edges_apart(kernel)
    if apart is None:
        return padded
    asked = problem_of, "greedy", clock  # both have the same middle, which a quick plan misses alike
    plan = quick_plan(request, padded.kernel, *asked)
    copies = {o.name for o in padded.kernel.operands} - {o.name for o in kernel.operands}
    if plan is not None and _share_ns(request, padded.kernel, plan, copies) < LEAST_COPY * plan.ns:
        return padded
    cut = _dense(apart.kernel, machine)
    if plan_ns(request, cut.kernel, *asked) < (float("inf") if plan is None else plan.ns):
        return Rewrite(cut.kernel, (*apart.steps, *cut.steps))
    return padded


def _share_ns(request: Request, canonical: Kernel, plan: HeuristicPlan, written: Set[str]) -> float:
    """Return the time of the statements that write these arrays, in a plan. Units: nanoseconds of the model."""
    known = statements(canonical)
    costs = price(plan.schedule, plan.problem, load_cost_model(request.cost_model))
    nests = zip(plan.problem.nests, costs, strict=True)
    return add_up(ns or 0.0 for n, ns in nests if known[n.statement].assign.target.buffer in written)


def _dense(kernel: Kernel, machine: Machine) -> Rewrite:
    found = dense_form(with_row_room(make_guards_explicit(kernel), kernel, machine))
    return replace(found, kernel=with_dense_arrays(found.kernel, machine))


def choose_form(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    clock: Clock,
) -> Rewrite:
    """Return the variant to compile, with its rewrites: none for the kernel as written.

    Raises: UsageProblem for the number of a form that there is not.
    """
    if request.transform is None:
        return Rewrite(kernel, ())
    if request.transform == BEST_FORM:
        return _cheapest(request, kernel, machine, sizes, problem_of, clock)
    forms = forms_of(request.kernel, machine, request.sizes)
    number = int(request.transform)
    if not 1 <= number < len(forms):
        raise UsageProblem.of(
            "option-value",
            f"--transform takes the number of a rewrite below {len(forms)}, not `{number}`",
            help="`isamap match --transform --all` lists them",
        )
    return Rewrite(forms[number].kernel, forms[number].steps, rounded=forms[number].rounded)


def _cheapest(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    clock: Clock,
) -> Rewrite:
    """Return the kernel as written, or the variant with the cheapest plan."""
    written = Rewrite(kernel, ())
    found = improving_rewrites(kernel, machine)[: MOST_FORMS - 1]
    forms = [written, *(improvement.rewrite for improvement in found)]
    at_points = forms_at_points(kernel, sizes)
    if len(forms) == 1 and not at_points:
        return written
    costs = [_cost_ns(request, form.kernel, machine, sizes, problem_of, "greedy", clock) for form in forms]
    if min(costs) >= LEAST_AT_POINTS_NS:
        forms += at_points
        costs += [_cost_ns(request, f.kernel, machine, sizes, problem_of, "greedy", clock) for f in at_points]
    order = sorted(range(len(forms)), key=lambda i: costs[i])
    rivals = [i for i in order if costs[i] <= RIVAL * costs[order[0]]][:MOST_RIVALS]
    if len(rivals) == 1 or request.heuristic == "greedy":
        return forms[order[0]]
    # A quick plan misses what takes several decisions at once, in one form and not in another.
    asked = machine, sizes, problem_of, request.heuristic, clock
    searched = {i: _cost_ns(request, forms[i].kernel, *asked) for i in rivals}
    return forms[min(rivals, key=lambda i: searched[i])]


def _cost_ns(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    heuristic: str,
    clock: Clock,
) -> float:
    """Return the cost of a heuristic's plan for a variant. Units: nanoseconds of the model."""
    try:
        canonical = _dense(bind(kernel, dict(sizes)), machine).kernel
    except (NoMapping, UsageProblem):
        return float("inf")
    return plan_ns(request, canonical, problem_of, heuristic, clock)


def plan_ns(
    request: Request, canonical: Kernel, problem_of: ProblemOf, heuristic: str, clock: Clock
) -> float:
    """Return the cost of a heuristic's plan, or infinity without one. Units: nanoseconds of the model."""
    plan = quick_plan(request, canonical, problem_of, heuristic, clock)
    return float("inf") if plan is None else plan.ns


@dataclass(frozen=True, slots=True)
class HeuristicPlan:
    """A heuristic's schedule with the problem that it solves."""

    schedule: Schedule
    problem: Problem
    ns: float


def quick_plan(
    request: Request, canonical: Kernel, problem_of: ProblemOf, heuristic: str, clock: Clock
) -> HeuristicPlan | None:
    """Return a heuristic's plan, or None if it finds none whose cost is known."""
    model = load_cost_model(request.cost_model)
    may_narrow = isinstance(model, FlooredModel)
    try:
        problem = problem_of(canonical, "narrow" if may_narrow else "whole")
        limit_s = 1.0 if heuristic == "greedy" else request.limit_s / MOST_RIVALS
        with clock("schedule"):
            plan = load_heuristic(heuristic).schedule(problem, model, limit_s=limit_s, fixed={})
    except (NoMapping, Infeasible, UsageProblem):  # a rewrite may read a packed input at two places
        return None
    return None if plan.cost_ns is None else HeuristicPlan(plan, problem, plan.cost_ns)
