"""A modelled cost in parts that have names: where the time of one statement goes.

    issues            18.8 ms    hides others behind it: the slowest of these counts
    from l2, b        11.5 ms
    packing, b         0.4 ms    comes on top

A cost model that can say this has a method `shares` beside `expression`; those of users need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from isamap.plan.cost import Cost, evaluate
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.time_shares import NestTime, TimeShare
from isamap.scheduler.nests.pricing import read_nest
from isamap.scheduler.parallel import overhead, part_cost, part_problem
from isamap.source import added

FUSED = "fused statements"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a cost, and the operand that causes it ("" for none).

    Parts of one `name` add up; of those that `overlaps` only the largest sum counts. Of one that is `beyond`
    them, only what it is longer than the longest of those, and of what was beyond before it, comes on top.
    """

    name: str
    operand: str
    overlaps: bool
    cost: Cost
    beyond: bool = False


@runtime_checkable
class SharingModel(Protocol):
    """A cost model that says of what its costs are made."""

    def shares(self, problem: Problem, nest: NestProblem, option: NestOption) -> tuple[Share, ...]:
        """The parts of the expression of an option."""
        ...


def where_time_goes(schedule: Schedule, problem: Problem, model: CostModel) -> tuple[NestTime | None, ...]:
    """Per statement the time in parts; None where the model cannot price it, no parts where it has none.

    A statement that another one takes along has no time of its own.
    """
    nests = {nest.statement: nest for nest in schedule.nests}
    found: list[NestTime | None] = []
    for nest in problem.nests:
        if nest.statement not in nests:
            found.append(NestTime(nest.statement, 0.0, ()))
            continue
        chosen = nests[nest.statement]
        read = read_nest(problem, nest, chosen)
        found.append(None if read is None else _time(problem, nest, chosen, *read, model))
    return tuple(found)


def _time(
    problem: Problem,
    nest: NestProblem,
    chosen: NestSchedule,
    option: NestOption,
    assignment: Mapping[str, int],
    model: CostModel,
) -> NestTime:
    total = float(evaluate(part_cost(problem, nest, option, model), assignment))
    fused = [TimeShare(FUSED, "", False, f.extra_ns) for f in option.fusions if f.statement in chosen.fused]
    own = part_problem(problem, option)
    parts: Sequence[Share] = model.shares(own, nest, option) if isinstance(model, SharingModel) else ()
    if option.parts:
        parts = (*parts, Share("threads", "", False, overhead(problem, nest, option)))
    shares = [
        TimeShare(p.name, p.operand, p.overlaps, nest.turns * float(evaluate(p.cost, assignment)))
        for p in parts
        if not p.beyond
    ]
    known_ns = NestTime(0, 0.0, tuple(shares)).slowest_ns
    for part in (p for p in parts if p.beyond):
        over_ns = max(0.0, nest.turns * float(evaluate(part.cost, assignment)) - known_ns)
        known_ns += over_ns
        shares.append(TimeShare(part.name, part.operand, False, over_ns))
    return NestTime(nest.statement, total + added(part.ns for part in fused), (*shares, *fused))
