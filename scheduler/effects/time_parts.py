"""The time of one statement by a cost model, as named parts.

    issues            18.8 ms    hides others behind it: the slowest of these counts
    from l2, b        11.5 ms
    packing, b         0.4 ms    comes on top

A cost model that can say this has a method `shares` beside `expression`; those of users need not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

from isamap.plan.cost import Cost, evaluate, largest, times, total
from isamap.plan.problem import NestOption, NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.plan.time_shares import NestTime, TimeShare
from isamap.scheduler.deciding.partitioning import overhead, part_cost, part_problem, rounds_of
from isamap.scheduler.nests.pricing import read_nest
from isamap.source import add_up, dataclass, replace

FUSED = "fused statements"


class Counts(Enum):
    """The ways in which the time of a part combines with other parts.

    `LONGEST` parts overlap: of all these the longest counts. A part `WITHIN` is a part of some of them,
    never longer than they are, and only listed. A part `BEYOND` counts only the time by which it is longer
    than every part listed before it. `ON_TOP` is added.
    """

    LONGEST = "longest"
    WITHIN = "within"
    BEYOND = "exceeds"
    ON_TOP = "on top"


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of a cost: its name, how it combines, and the operand that causes it ("" for none).

    Parts of one `name` add up. `words` is the name in reports ("": as `name`); in it `{units}` and
    `{instruction}` stand for the units and the instruction that perform the statement.
    """

    name: str
    operand: str
    counts: Counts
    cost: Cost
    words: str = ""


def total_time(shares: Iterable[TimePart]) -> Cost:
    """Return the total of parts: the longest one of those that overlap, plus those that add up."""
    hides: dict[str, list[Cost]] = {}
    on_top: list[Cost] = []
    for share in shares:
        match share.counts:
            case Counts.LONGEST | Counts.BEYOND:
                hides.setdefault(share.name, []).append(share.cost)
            case Counts.ON_TOP:
                on_top.append(share.cost)
            case Counts.WITHIN:
                pass  # what it is part of counts
    return total([largest(total(costs) for costs in hides.values()), *on_top])


@runtime_checkable
class SharingModel(Protocol):
    """A cost model that splits its costs into named parts."""

    def shares(self, problem: Problem, nest: NestProblem, option: NestOption) -> tuple[TimePart, ...]:
        """Return the parts of the expression of an option."""
        ...


def where_time_goes(schedule: Schedule, problem: Problem, model: CostModel) -> tuple[NestTime | None, ...]:
    """Return, per statement, its time in parts. It is None if the model has no price, and empty if it has no parts.

    A statement that is fused with another one has no time of its own.
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
    total_ns = float(evaluate(part_cost(problem, nest, option, model), assignment))
    fused = [
        TimeShare(FUSED, "", False, f.extra_ns, FUSED) for f in option.fusions if f.statement in chosen.fused
    ]
    own = part_problem(problem, option)
    parts: Sequence[TimePart] = model.shares(own, nest, option) if isinstance(model, SharingModel) else ()
    if option.parts:
        parts = [replace(part, cost=times(rounds_of(problem, option), part.cost)) for part in parts]
        parts = (*parts, TimePart("threads", "", Counts.ON_TOP, overhead(problem, nest, option)))

    def shown(part: TimePart, ns: float) -> TimeShare:
        hides = part.counts in {Counts.LONGEST, Counts.WITHIN}
        return TimeShare(part.name, part.operand, hides, ns, part.words or part.name)

    ns_of = [(part, nest.iterations * float(evaluate(part.cost, assignment))) for part in _together(parts)]
    shares = [shown(part, ns) for part, ns in ns_of if part.counts is not Counts.BEYOND]
    known_ns = NestTime(0, 0.0, tuple(shares)).slowest_ns
    for part, ns in ns_of:
        if part.counts is Counts.BEYOND:
            over_ns = max(0.0, ns - known_ns)
            known_ns += over_ns
            shares.append(shown(part, over_ns))
    return NestTime(nest.statement, total_ns + add_up(part.ns for part in fused), (*shares, *fused))


def _together(shares: Iterable[TimePart]) -> Iterator[TimePart]:
    """Yield parts with those of equal names and operands added up, in order of occurrence."""
    found: dict[tuple[str, str], list[TimePart]] = {}
    for share in shares:
        found.setdefault((share.name, share.operand), []).append(share)
    return (replace(alike[0], cost=total(one.cost for one in alike)) for alike in found.values())
