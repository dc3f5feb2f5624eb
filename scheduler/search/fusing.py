"""Decide which statements are fused with a sum, exactly, and together with its mapping.

A statement costs either its own nest, or its addition to the tiles of the sum with which it is fused. Both
are numbers once its own nest is solved. Each option of the sum therefore has a cheapest choice of fused
statements, whose cost is added to that of the option before the options are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from math import inf

from isamap.plan.cost import Const, evaluate, total
from isamap.plan.decisions import fuse_of
from isamap.plan.problem import Fusion, NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.scheduler.deciding.space import Assignment
from isamap.scheduler.nests.pricing import fusions_in_unit
from isamap.scheduler.search.assembling import ROUNDING, STATUSES, Solved
from isamap.scheduler.search.candidates import Candidate, OpenOption, fixed_names, open_options
from isamap.source import Infeasible, add_up, dataclass, replace

# With more statements to fuse than this, choices are the first one, the first two, ...
MAX_CHOSEN_FREELY = 8

Solve = Callable[[NestProblem, tuple[OpenOption, ...], int], Solved]
"""Answers for one nest, given its options and how many nests are still to be answered, this one included."""


def solve_all(
    problem: Problem, model: CostModel, fixed: Assignment, solve: Solve, stop: float = inf
) -> tuple[Solved, ...]:
    """Return the answer for every nest that is not fused into another one, in the order of the problem.

    Raises: Infeasible as `solve` does.
    """
    groups = solve_groups(problem, model, fixed, solve, stop)
    parts = [part for group in groups for part in group.parts(group.answer)]
    return tuple(sorted(parts, key=lambda part: part.candidate.option.space.statement))


def solve_groups(
    problem: Problem, model: CostModel, fixed: Assignment, solve: Solve, stop: float = inf
) -> tuple[FusedGroup, ...]:
    """Return each nest that no other nest may fuse, with the nests that it may fuse. Raises: Infeasible.

    `stop` as in `open_options`.
    """
    problem = _with_fusions_in_unit(problem, model)
    asked = {nest.statement for nest in problem.nests}
    offered = {s for nest in problem.nests for s in _offered_statements(nest)} & asked
    found: dict[int, Solved | None] = {}
    groups: list[FusedGroup] = []
    for position, nest in enumerate(sorted(problem.nests, key=lambda n: n.statement not in offered)):
        options = open_options(problem, nest, model, fixed, stop)
        # A nest that is not asked about stays as it is, and so is not fused.
        alone = {s: found[s] for s in _offered_statements(nest) if s in found}
        choices = [c for o in options if (c := _cheapest(o, alone, fixed)) is not None] if alone else []
        if alone:
            widened = (c.widened() for c in choices)
            options = tuple(sorted(widened, key=lambda o: (o.floor_ns, o.number)))
        left = len(problem.nests) - position
        if nest.statement in offered:
            with suppress(Infeasible):  # it has no nest of its own, but may be fused
                found[nest.statement] = None
                found[nest.statement] = _with_excluded(solve(nest, options, left), nest.others_ns)
        else:
            answer = _with_excluded(solve(nest, options, left), nest.others_ns)
            own = {s: a for s, a in alone.items() if a is not None}
            groups.append(FusedGroup(answer, tuple(choices), own, _slack_of(choices, alone, fixed)))
    return tuple(groups)


def _with_fusions_in_unit(problem: Problem, model: CostModel) -> Problem:
    nests = (
        replace(n, options=tuple(replace(o, fusions=fusions_in_unit(o, problem, model)) for o in n.options))
        for n in problem.nests
    )
    return replace(problem, nests=tuple(nests))


def _with_excluded(solved: Solved, others_ns: float) -> Solved:
    """Return the answer of a statement whose excluded mappings cost at least `others_ns`."""
    if others_ns >= solved.bound_ns:
        return solved
    is_best = solved.status == "OPTIMAL" and others_ns >= solved.candidate.cost_ns * (1 - ROUNDING)
    status = "FEASIBLE" if solved.status == "OPTIMAL" and not is_best else solved.status
    return replace(solved, bound_ns=others_ns, status=status, proved_by="lower bounds")


def _offered_statements(nest: NestProblem) -> list[int]:
    """Return the statements that some option of a nest can fuse."""
    return sorted({f.statement for o in nest.options for f in o.fusions})


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """The answer for a nest and for the statements that it may fuse, each in a nest of its own.

    The answer's costs include all of them, as its options do. `choices` say how. Units: `slack_ns` in nanoseconds,
    by which the included costs exceed what is proven of all choices of fused statements.
    """

    answer: Solved
    choices: tuple[FusedOption, ...]
    alone: Mapping[int, Solved]
    slack_ns: float = 0.0

    @property
    def statement(self) -> int:
        return self.answer.candidate.option.space.statement

    def parts(self, answer: Solved, chosen: FusedOption | None = None) -> tuple[Solved, ...]:
        """Return an answer for the group as separate nests, each with its own cost.

        `chosen` are the statements that it fuses, by default the cheapest choice. Their bounds add up to the
        bound of all together, because another choice may leave others separate.
        """
        if not self.choices:
            return (answer,)
        option = answer.candidate.option
        key = option.number, option.space.option.parts, option.space.option.alone
        chosen = chosen or next(
            c
            for c in self.choices
            if (c.option.number, (own := c.option.space.option).parts, own.alone) == key
        )
        others = [part for s, part in self.alone.items() if s not in chosen.fused]
        left_ns = add_up(part.bound_ns for part in others)
        proven_ns = max(0.0, answer.bound_ns - self.slack_ns)
        if left_ns > proven_ns:
            others = [replace(o, bound_ns=o.bound_ns * proven_ns / left_ns) for o in others]
        return (_settle_answer(answer, chosen, self.alone, self.slack_ns), *others)


@dataclass(frozen=True, slots=True)
class FusedOption:
    """An option with its fused statements.

    Units: nanoseconds. `extra_ns` is added to its own nest, `other_ns` is the cost of the separate nests.
    """

    option: OpenOption
    fused: tuple[int, ...]
    extra_ns: float
    other_ns: float

    @property
    def added_ns(self) -> float:
        return self.extra_ns + self.other_ns

    def widened(self) -> OpenOption:
        """Return the option with the cost of all fused statements included."""
        cost = total([self.option.cost, Const(self.added_ns)])
        floor = self.option.floor_ns + self.added_ns
        return replace(self.option, cost=cost, floor_ns=floor, known_floors=())


def _cheapest(
    option: OpenOption, alone: Mapping[int, Solved | None], fixed: Assignment
) -> FusedOption | None:
    """Return the best choice for an option, or None if the fixed decisions allow none."""
    return min(
        choices_of(option, alone, fixed), key=lambda c: (c.added_ns, -len(c.fused), c.fused), default=None
    )


def _slack_of(choices: Iterable[FusedOption], alone: Mapping[int, Solved | None], fixed: Assignment) -> float:
    """Return by how much the cheapest choice of an option may exceed the lower bound of all its choices.

    That is the most of all options. A statement counts with its bound where it stays separate, and with its addition
    to the sum where it is fused.
    """
    proven = {
        s: replace(part, candidate=replace(part.candidate, cost_ns=part.bound_ns))
        if part is not None
        else None
        for s, part in alone.items()
    }
    least = ((c, _cheapest(c.option, proven, fixed)) for c in choices)
    return max((c.added_ns - one.added_ns for c, one in least if one is not None), default=0.0)


def choices_of(
    option: OpenOption, alone: Mapping[int, Solved | None], fixed: Assignment
) -> tuple[FusedOption, ...]:
    """Return all choices of statements in `alone` that an option may fuse.

    A statement without an answer of its own has to be fused.
    """
    offered = {f.statement: f for f in option.space.option.fusions if f.statement in alone}
    costs = {s: part.candidate.cost_ns for s, part in alone.items() if part is not None}
    needed = alone.keys() - costs.keys()
    return tuple(
        FusedOption(
            option, fused, add_up(offered[s].extra_ns for s in fused), add_up(_unfused_costs(costs, fused))
        )
        for fused in _closed_sets(tuple(offered.values()))
        if needed <= set(fused) and _agrees(option.space.statement, fused, alone, fixed)
    )


def least_added_ns(offered: tuple[Fusion, ...], costs: Mapping[int, float]) -> float:
    """Return the least cost of statements, each either fused with a sum or in its own nest at the given cost."""
    return min(
        add_up([*(f.extra_ns for f in offered if f.statement in fused), *_unfused_costs(costs, fused)])
        for fused in _closed_sets(offered)
    )


def _unfused_costs(costs: Mapping[int, float], fused: tuple[int, ...]) -> Iterator[float]:
    """Yield the costs of the statements that are not fused."""
    yield from (ns for statement, ns in costs.items() if statement not in fused)


def _closed_sets(offered: tuple[Fusion, ...]) -> Iterator[tuple[int, ...]]:
    """Yield sets of statements that may be fused together. Each set contains the prerequisites of its members."""
    numbers = [f.statement for f in offered]
    free = len(offered) <= MAX_CHOSEN_FREELY
    for count in range(len(offered) + 1):
        for chosen in combinations(numbers, count) if free else (tuple(numbers[:count]),):
            if all(set(f.needs) <= set(chosen) for f in offered if f.statement in chosen):
                yield chosen


def _agrees(statement: int, fused: tuple[int, ...], alone: Iterable[int], fixed: Assignment) -> bool:
    """Return whether a choice agrees with the fixed decisions. A statement with a decided nest is not fused."""
    for other in alone:
        pinned = fixed.get(fuse_of(statement, other), 0 if fixed_names(fixed, other) else None)
        if pinned not in (None, int(other in fused)):
            return False
    return True


def _settle_answer(
    answer: Solved, chosen: FusedOption, alone: Mapping[int, Solved], slack_ns: float
) -> Solved:
    """Return the answer with the cost of its own nest and of the statements that it fuses.

    The bound holds for any fusion: a separate nest may cost as little as its own bound.
    """
    option, assignment = chosen.option, answer.candidate.assignment
    own_ns = float(evaluate(option.cost, assignment)) + chosen.extra_ns
    left_ns = add_up(part.bound_ns for s, part in alone.items() if s not in chosen.fused)
    bound_ns = min(own_ns, max(0.0, answer.bound_ns - slack_ns - left_ns))
    if slack_ns == 0 and answer.bound_ns == answer.candidate.cost_ns:
        bound_ns = own_ns  # the same numbers, without the rounding of going there and back
    statuses = {answer.status, *(part.status for part in alone.values())}
    return replace(
        answer,
        candidate=Candidate(option, assignment, own_ns, chosen.fused),
        bound_ns=bound_ns,
        status=next(word for word in STATUSES if word in statuses),
        reproducible=answer.reproducible and all(part.reproducible for part in alone.values()),
    )
