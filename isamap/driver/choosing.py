"""Which form of a kernel to compile: as written, or rewritten so that instructions perform more of it.

    gemm_s8s8, where an instruction multiplies u8 by i8  ->  one factor shifted, and the sum corrected

Each form that lets an instruction perform something new is planned quickly, and the cheapest few as
thoroughly as the chosen one will be; the cheapest by the model is taken, the kernel as written where nothing
is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isamap.driver.matching import forms_of
from isamap.driver.posing import Extent
from isamap.driver.request import BEST_FORM, Request
from isamap.driver.stages import Clock
from isamap.ir import Kernel, Range, bind
from isamap.machine import Machine
from isamap.match import improving_rewrites
from isamap.plan.plugins import load_cost_model, load_heuristic
from isamap.plan.problem import Problem
from isamap.plan.protocols import FlooredModel
from isamap.source import Diagnostic, Infeasible, NoMapping, UsageProblem
from isamap.transform import Rewrite, make_guards_explicit

MOST_FORMS = 12
# Forms whose quick plans cost up to so many times the least are searched as the chosen one will be, so many
# at most. Of s8 2 x 512 x 500000 a quick plan costs over 1.7 times what is found, another form's less.
RIVAL, MOST_RIVALS = 2.5, 3

ProblemOf = Callable[[Kernel, Extent], Problem]
"""The problem of a canonical kernel, as much of it as is asked for. Raises: NoMapping."""


def choose_form(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    clock: Clock,
) -> Rewrite:
    """The form to compile, with the steps that lead to it: none for the kernel as written.

    Raises: UsageProblem for the number of a form that there is not.
    """
    if request.transform is None:
        return Rewrite(kernel, ())
    if request.transform == BEST_FORM:
        return _cheapest(request, kernel, machine, sizes, problem_of, clock)
    forms = forms_of(request.kernel, machine, request.sizes)
    number = int(request.transform)
    if not 1 <= number < len(forms):
        raise UsageProblem(
            Diagnostic(
                "option-value",
                f"--transform takes the number of a rewrite below {len(forms)}, not `{number}`",
                help="`isamap match --transform --all` lists them",
            )
        )
    return Rewrite(forms[number].kernel, forms[number].steps)


def _cheapest(
    request: Request,
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    clock: Clock,
) -> Rewrite:
    """What cannot be performed in any form is left to the pipeline, which says why."""
    written = Rewrite(kernel, ())
    found = improving_rewrites(kernel, machine)[: MOST_FORMS - 1]
    if not found:
        return written
    forms = (written, *(improvement.rewrite for improvement in found))
    costs = [_cost_ns(request, form.kernel, sizes, problem_of, "greedy", clock) for form in forms]
    order = sorted(range(len(forms)), key=lambda i: costs[i])
    rivals = [i for i in order if costs[i] <= RIVAL * costs[order[0]]][:MOST_RIVALS]
    if len(rivals) == 1 or request.heuristic == "greedy":
        return forms[order[0]]
    # A quick plan misses what takes several decisions at once, in one form and not in another.
    asked = sizes, problem_of, request.heuristic, clock
    searched = {i: _cost_ns(request, forms[i].kernel, *asked) for i in rivals}
    return forms[min(rivals, key=lambda i: searched[i])]


def _cost_ns(
    request: Request,
    kernel: Kernel,
    sizes: Mapping[str, int | Range],
    problem_of: ProblemOf,
    heuristic: str,
    clock: Clock,
) -> float:
    """What a heuristic's plan costs; infinite where there is none. Units: nanoseconds of the model."""
    model = load_cost_model(request.cost_model)
    may_narrow = isinstance(model, FlooredModel) and not request.packed
    try:
        canonical = make_guards_explicit(bind(kernel, dict(sizes)))
        problem = problem_of(canonical, "narrow" if may_narrow else "whole")
        limit_s = 1.0 if heuristic == "greedy" else request.limit_s / MOST_RIVALS
        with clock("schedule"):
            plan = load_heuristic(heuristic).schedule(problem, model, limit_s=limit_s, fixed={})
    except (NoMapping, Infeasible, UsageProblem):  # a rewrite may read a packed input at two places
        return float("inf")
    return plan.cost_ns if plan.cost_ns is not None else float("inf")
