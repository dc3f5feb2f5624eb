"""Which form of a kernel to compile: as written, or rewritten so that instructions perform more of it.

    gemm_s8s8, where an instruction multiplies u8 by i8  ->  one factor shifted, and the sum corrected

Each form that lets an instruction perform something new is planned quickly; the cheapest by the model is
taken, the kernel as written where nothing is cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.driver.request import BEST_FORM, Request
from isamap.driver.rewriting import forms_of
from isamap.ir import Kernel, Range, bind
from isamap.machine import Machine
from isamap.match import improving_rewrites
from isamap.plan.build import build_problem
from isamap.plan.plugins import load_cost_model, load_heuristic
from isamap.plan.protocols import FlooredModel
from isamap.scheduler import narrow_problem
from isamap.source import Diagnostic, Infeasible, NoMapping, UsageProblem
from isamap.transform import Rewrite, make_guards_explicit

MOST_FORMS = 12


def choose_form(
    request: Request, kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range]
) -> Rewrite:
    """The form to compile, with the steps that lead to it: none for the kernel as written.

    Raises: UsageProblem for the number of a form that there is not.
    """
    if request.transform is None:
        return Rewrite(kernel, ())
    if request.transform == BEST_FORM:
        return _cheapest(kernel, machine, sizes, request)
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
    kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range], request: Request
) -> Rewrite:
    """What cannot be performed in any form is left to the pipeline, which says why."""
    found = improving_rewrites(kernel, machine)[: MOST_FORMS - 1]
    forms = (Rewrite(kernel, ()), *(improvement.rewrite for improvement in found))
    costs = [_cost_ns(form.kernel, machine, sizes, request) for form in forms]
    return forms[min(range(len(forms)), key=lambda i: costs[i])]


def _cost_ns(kernel: Kernel, machine: Machine, sizes: Mapping[str, int | Range], request: Request) -> float:
    """What a quick plan costs; infinite where there is none. Units: nanoseconds of the model."""
    try:
        canonical, model = (
            make_guards_explicit(bind(kernel, dict(sizes))),
            load_cost_model(request.cost_model),
        )
        if isinstance(model, FlooredModel) and not request.packed:
            problem = narrow_problem(canonical, machine, sizes, request.threads, model)
        else:
            problem = build_problem(canonical, machine, sizes, request.threads, request.packed)
        quick = load_heuristic("greedy").schedule(problem, model, limit_s=1.0, fixed={})
    except (NoMapping, Infeasible, UsageProblem):  # a rewrite may read a packed input at two places
        return float("inf")
    return quick.cost_ns if quick.cost_ns is not None else float("inf")
