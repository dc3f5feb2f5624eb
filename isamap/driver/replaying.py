"""What is known about the cost of a schedule that is replayed from a file.

A file says what it cost, and what was proven, when it was written. That holds for the question that was asked
then: the same kernel, machine, model, threads and so on; and a text that was changed since claims nothing. So
a schedule is priced anew, and what is proven stands only where all of that is as it was.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import isclose

from isamap.codegen.cache import digest
from isamap.driver.request import Request
from isamap.machine import machine_digest
from isamap.plan.plugins import load_cost_model
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule, unclaimed
from isamap.plan.text import DIGITS
from isamap.scheduler.nests.pricing import price
from isamap.source import added
from isamap.version import __version__

# Of what a price is added up in another order.
ROUNDING = 1e-9


def question_of(request: Request) -> str:
    """How the digest begins of all that a proof depends on, but for what a schedule's text says by itself.

    Raises: as `machine_digest`.
    """
    options = [request.transform, request.threads, sorted(request.packed), request.cold]
    parts = (__version__, request.kernel.text, machine_digest(request.machine), json.dumps(options))
    return digest(*parts)[:DIGITS]


def replayed(schedule: Schedule, request: Request, problem: Problem) -> Schedule:
    """The schedule with its price by the model of today, and with what was proven where that still holds.

    Units: nanoseconds. There is no price where the model cannot say one. Raises: as `load_cost_model`.
    """
    model = load_cost_model(request.cost_model)
    parts = price(schedule, problem, model)
    if any(part is None for part in parts):
        return unclaimed(schedule)
    cost_ns = added(part or 0.0 for part in parts)
    profile = request.profile.digest[:DIGITS] if request.profile else ""
    asked = (model.name, profile, question_of(request))
    if asked == (schedule.model, schedule.profile, schedule.question) and _is(schedule.cost_ns, cost_ns):
        return schedule
    return replace(unclaimed(schedule), model=model.name, profile=profile, cost_ns=cost_ns)


def _is(said_ns: float | None, cost_ns: float) -> bool:
    return said_ns is not None and isclose(said_ns, cost_ns, rel_tol=ROUNDING)
