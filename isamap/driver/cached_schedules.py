"""The cache of problems and schedules, keyed by the digest of all inputs.

A problem depends on the kernel with its sizes, on the machine with its measured parameters, and on the
version of isamap. A schedule depends on every number of the problem, on the request, and on the version of
OR-Tools. Both are stored as text under their sha256. A cached schedule is checked like a new one: an entry
that is damaged, or breaks a rule, is ignored.

The module also prices a schedule that is replayed from a file.

The file states the cost and the proven bound of the time when it was written. They hold only for the same
kernel, machine, model, threads and so on, and only if the text was not edited. So a schedule is priced again,
and its bound is used only if nothing has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isclose

from isamap.driver.request import Request
from isamap.ir import Kernel, print_routine
from isamap.machine import machine_digest
from isamap.plan.check import check_schedule
from isamap.plan.plugins import load_cost_model, load_heuristic, plugin_package
from isamap.plan.problem import Problem
from isamap.plan.schedule import Schedule, forget_cost
from isamap.plan.text import DIGITS, parse_schedule, print_schedule
from isamap.scheduler.nests.pricing import price
from isamap.source import IsamapError, Source, add_up, replace
from isamap.source.cache import digest, program_state, recall_content, remember_content
from isamap.source.codec import write
from isamap.version import __version__, solver_version

PROBLEMS, SCHEDULES = "problems", "schedules"


def problem_key(request: Request, kernel: Kernel, extent: str) -> str:
    """Return the sha256 of everything on which a problem depends. `kernel` has bound sizes and explicit guards.

    `extent` is how many of the mappings it has. A cost model selects them. Raises: as `machine_digest`.
    """
    return digest(
        program_state(),
        print_routine(kernel),
        json.dumps(sorted(request.sizes.items())),
        request.machine,
        machine_digest(request.machine),
        json.dumps(
            [
                request.options()["profile"],
                request.threads,
                sorted(request.packed),
                extent,
                request.cost_model,
                request.cold,
            ]
        ),
    )


def schedule_key(request: Request, problem: Problem, fixed: Mapping[str, int]) -> str | None:
    """Return the sha256 of everything on which a schedule depends, or None if that is unknown.

    A plug-in may depend on anything.
    """
    if plugin_package(load_heuristic(request.heuristic)) or plugin_package(
        load_cost_model(request.cost_model)
    ):
        return None
    profile = request.profile.digest if request.profile else ""
    asked = (request.heuristic, request.cost_model, request.limit_s, sorted(fixed.items()), profile)
    return digest(program_state(), solver_version(), write(problem), json.dumps(asked))


def recall_schedule(key: str, problem: Problem) -> Schedule | None:
    """Return the cached schedule if it still solves the problem, or None."""
    content = recall_content(SCHEDULES, key)
    if content is None:
        return None
    try:
        found = parse_schedule(Source("schedule from the cache", content.decode("utf-8")))
    except (UnicodeDecodeError, IsamapError):
        return None
    return None if check_schedule(found, problem) else found


def remember_schedule(key: str, schedule: Schedule) -> None:
    """Cache a schedule that another run would also find, so neither a timed-out nor a failed one."""
    if schedule.reproducible and not schedule.findings:
        remember_content(SCHEDULES, key, print_schedule(schedule))


# Of what a price is added up in another order.
ROUNDING = 1e-9


def question_of(request: Request) -> str:
    """Return the start of the digest of all inputs of a proof, without those that the schedule's text states.

    Raises: as `machine_digest`.
    """
    options = [request.transform, request.threads, sorted(request.packed), request.cold]
    parts = (__version__, request.kernel.text, machine_digest(request.machine), json.dumps(options))
    return digest(*parts)[:DIGITS]


def reprice_schedule(schedule: Schedule, request: Request, problem: Problem) -> Schedule:
    """Return the schedule with its current price, and with its proven bound if that still holds.

    Units: nanoseconds. There is no price if the model cannot give one. Raises: as `load_cost_model`.
    """
    model = load_cost_model(request.cost_model)
    parts = price(schedule, problem, model)
    if any(part is None for part in parts):
        return forget_cost(schedule)
    cost_ns = add_up(part or 0.0 for part in parts)
    profile = request.profile.digest[:DIGITS] if request.profile else ""
    asked = (model.name, profile, question_of(request))
    if asked == (schedule.model, schedule.profile, schedule.question) and _is(schedule.cost_ns, cost_ns):
        return schedule
    return replace(forget_cost(schedule), model=model.name, profile=profile, cost_ns=cost_ns)


def _is(said_ns: float | None, cost_ns: float) -> bool:
    return said_ns is not None and isclose(said_ns, cost_ns, rel_tol=ROUNDING)
