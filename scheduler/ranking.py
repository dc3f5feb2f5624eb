"""Rank the K cheapest distinct schedules of a problem by a cost model, with the number of proven ranks.

Per statement a pool of schedules grows around the best ones known; the solver looks for one outside of the
list that is cheaper than the last inside, until it proves that there is none. The lists of several statements
are combined afterwards: a kernel's cost is the sum over its statements. Two ways to decide an option may be
the same loops: a schedule is known by its text, with all its ways.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from math import factorial, inf, prod

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_nest
from isamap.scheduler.conflicts.conflicts import explain_conflict
from isamap.scheduler.cpsat import DETERMINISTIC_SHARE, SOLVER, SearchLimits, solve_nest
from isamap.scheduler.deciding.fixing import resolve
from isamap.scheduler.deciding.orders import agrees, canonical, decisions_of
from isamap.scheduler.deciding.per_operand import open_values
from isamap.scheduler.deciding.space import Assignment, RegisterBlock, Space
from isamap.scheduler.deciding.summing import sum_choices
from isamap.scheduler.search.assembling import ROUNDING, Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import FusedGroup, solve_groups
from isamap.scheduler.search.greedy import first_candidate
from isamap.scheduler.search.points import neighbours
from isamap.source import add_up, dataclass, field, replace

# Up to so many decided options a statement's schedules are all looked at.
ENUMERATED = 4000
ALL = "enumeration"
# What each question to the solver counts at least, as a share of the effort for all: so many are asked.
LEAST_EFFORT = 0.01


@dataclass(frozen=True, slots=True)
class Ranking:
    """The cheapest distinct schedules, best first.

    No schedule outside of the list costs less than `rest_ns` (nanoseconds of the model; infinite where there
    are no others), unless it differs from a listed one only in the place of one-iteration loops.
    """

    schedules: tuple[Schedule, ...]
    rest_ns: float
    reproducible: bool

    @property
    def proven(self) -> int:
        """The number of leading schedules that are proven to be the cheapest ones, in this order."""
        limit = self.rest_ns * (1 + ROUNDING)
        return sum(1 for s in self.schedules if s.cost_ns is not None and s.cost_ns <= limit)


def k_best(
    problem: Problem,
    model: CostModel,
    k: int,
    *,
    limit_s: float = 10.0,
    fixed: Mapping[str, int] | None = None,
) -> Ranking:
    """Return the `k` cheapest schedules whose loops differ, fewer if there are no more.

    Units: `limit_s` in seconds of wall clock. Raises: Infeasible if nothing agrees with `fixed`.
    """
    assert k >= 1, "a ranking has a first"
    stop = time.monotonic() + limit_s
    effort = DETERMINISTIC_SHARE * limit_s / max(1, len(problem.nests))
    decided = resolve(problem, fixed or {})
    lists: dict[int, _Found] = {}

    def solve(nest: NestProblem, options: tuple[OpenOption, ...], left: int) -> Solved:
        limits = SearchLimits((stop - time.monotonic()) / left, effort)
        found = _rank_nest(nest, options, k, limits, decided)
        found = lists[nest.statement] = replace(found, rest_ns=min(found.rest_ns, nest.others_ns))
        return found.solved(found.candidates[0])

    with explain_conflict(problem, decided):
        groups = solve_groups(problem, model, decided, solve)
    found = _combine_statements(problem, model.name, [_Ranked(g, lists[g.statement]) for g in groups], k)
    return replace(found, schedules=tuple(replace(s, fixed=tuple(decided.items())) for s in found.schedules))


@dataclass(frozen=True, slots=True)
class _Found:
    """The cheapest schedules of one statement, and a lower bound of all others. Units: nanoseconds."""

    candidates: tuple[Candidate, ...]
    rest_ns: float
    reproducible: bool
    found_by: str
    proved_by: str

    @property
    def least_ns(self) -> float:
        return min(self.candidates[0].cost_ns, self.rest_ns)

    def solved(self, candidate: Candidate) -> Solved:
        """Return one of the schedules as the answer for its statement."""
        is_best = candidate.cost_ns <= self.least_ns * (1 + ROUNDING)
        word = "OPTIMAL" if is_best else "FEASIBLE"
        bound_ns = min(self.least_ns, candidate.cost_ns)
        engines = self.found_by, self.proved_by
        return Solved(candidate, bound_ns, word, self.reproducible, 0.0, (), *engines)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The ranked schedules of a nest, each with those of the statements that it may fuse."""

    group: FusedGroup
    found: _Found


def _rank_nest(
    nest: NestProblem, options: tuple[OpenOption, ...], k: int, limits: SearchLimits, fixed: Mapping[str, int]
) -> _Found:
    """Return the cheapest schedules of a statement within the limits."""
    stop = time.monotonic() + limits.wall_s
    pool = Pool()
    pool.add(first_candidate(nest, options, fixed))
    if sum(count_assignments(option) for option in options) <= ENUMERATED:
        for option in options:
            for candidate in all_candidates(option):
                pool.add(candidate)
        listed = tuple(pool.ranked(k))
        return _Found(listed, _next_ns(pool, k), reproducible=True, found_by=ALL, proved_by=ALL)
    in_time = pool.expand(k, stop)
    rest, left = min((option.floor_ns for option in options), default=0.0), limits.effort
    found_by, proved_by = "greedy", "lower bounds"
    while in_time and left > 0 and len(listed := pool.ranked(k)) == k:
        # The last stays in sight of the solver, so that its question always has an answer.
        step = SearchLimits(stop - time.monotonic(), left)
        solved = solve_nest(options, listed[-1], step, pool.ways(listed[:-1], listed[-1]))
        if solved.bound_ns > rest:
            rest, proved_by = solved.bound_ns, solved.proved_by
        in_time = solved.reproducible
        left -= max(solved.effort, LEAST_EFFORT * limits.effort)
        if not pool.add(solved.candidate):
            break
        found_by = f"greedy, {SOLVER}"  # of the list, to which both add
        in_time = pool.expand(k, stop) and in_time
    return _Found(tuple(pool.ranked(k)), rest, in_time, found_by, proved_by)


def _next_ns(pool: Pool, k: int) -> float:
    """Return the cost of the schedule after the first `k`. The pool must be complete."""
    ranked = pool.ranked(k + 1)
    return ranked[k].cost_ns if len(ranked) > k else inf


def _combine_statements(problem: Problem, model: str, ranked: Sequence[_Ranked], k: int) -> Ranking:
    """Return the cheapest combinations of one schedule per statement."""
    lists = [r.found for r in ranked]
    chosen = _cheapest_sums([[c.cost_ns for c in found.candidates] for found in lists], k + 1)
    bound = add_up(found.least_ns for found in lists)
    beyond = [bound - found.least_ns + found.rest_ns for found in lists]
    beyond += [_sum(lists, picks) for picks in chosen[k:]]
    if any(r.group.choices for r in ranked):
        # Of what else may be fused, and of other nests for what is not, none is listed.
        beyond.append(bound)
    reproducible = all(found.reproducible for found in lists)
    schedules: list[Schedule] = []
    for picks in chosen[:k]:
        is_best = _sum(lists, picks) <= bound * (1 + ROUNDING)
        word = "OPTIMAL" if is_best else "FEASIBLE"
        solved = [
            replace(part, status=word, reproducible=reproducible)
            for r, i in zip(ranked, picks, strict=True)
            for part in r.group.parts(r.found.solved(r.found.candidates[i]))
        ]
        solved.sort(key=lambda part: part.candidate.option.space.statement)
        schedules.append(assemble(problem, model, solved))
    return Ranking(tuple(schedules), min(beyond, default=inf), reproducible)


def _sum(lists: Sequence[_Found], picks: Sequence[int]) -> float:
    return add_up(found.candidates[i].cost_ns for found, i in zip(lists, picks, strict=True))


def _cheapest_sums(costs: Sequence[Sequence[float]], count: int) -> list[tuple[int, ...]]:
    """Return the `count` cheapest ways to pick one number from each sorted list, as positions."""
    start = tuple(0 for _ in costs)
    queue = [(add_up(own[0] for own in costs), start)]
    found: list[tuple[int, ...]] = []
    seen = {start}
    while queue and len(found) < count:
        _, picks = heapq.heappop(queue)
        found.append(picks)
        for i, own in enumerate(costs):
            later = (*picks[:i], picks[i] + 1, *picks[i + 1 :])
            if later[i] < len(own) and later not in seen:
                seen.add(later)
                total = add_up(c[at] for c, at in zip(costs, later, strict=True))
                heapq.heappush(queue, (total, later))
    return found


@dataclass(slots=True)
class Pool:
    """The cheapest decisions for each distinct schedule text, and all other decisions that lead to it.

    The neighbours of those `expanded` are listed.
    """

    best: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    seen: dict[str, list[Candidate]] = field(default_factory=dict[str, list[Candidate]])
    expanded: set[str] = field(default_factory=set[str])

    def add(self, candidate: Candidate) -> bool:
        """Add a candidate. Return whether it is new."""
        text = print_nest(candidate.nest())
        ways = self.seen.setdefault(text, [])
        own = canonical(candidate.option.space, candidate.assignment)
        if any(canonical(w.option.space, w.assignment) == own for w in ways):
            return False
        ways.append(candidate)
        if text not in self.best or candidate.cost_ns < self.best[text].cost_ns:
            self.best[text] = candidate
        return True

    def ranked(self, k: int) -> list[Candidate]:
        """Return the cheapest `k` in a deterministic order."""
        return [self.best[text] for text in self._texts(k)]

    def ways(self, candidates: Sequence[Candidate], last: Candidate) -> list[Candidate]:
        """Return all known assignments with these candidates' loops, except those that the solver sees as `last`.

        A one-iteration loop may be anywhere in a text. A solver sees it in one place only.
        """
        kept = canonical(last.option.space, last.assignment)
        found = (way for c in candidates for way in self.seen[print_nest(c.nest())])
        return [
            way
            for way in found
            if way.option is not last.option or canonical(way.option.space, way.assignment) != kept
        ]

    def expand(self, k: int, stop: float) -> bool:
        """Add neighbours of the cheapest `k` until nothing changes. Return whether that was finished in time."""
        while open_ones := [text for text in self._texts(k) if text not in self.expanded]:
            for text in open_ones:
                if time.monotonic() > stop:
                    return False
                self.expanded.add(text)
                ranked = self.ranked(k)
                most = ranked[-1].cost_ns if len(ranked) == k else inf
                for other in neighbours(self.best[text]):
                    if other.cost_ns <= most:
                        self.add(other)
        return True

    def _texts(self, k: int) -> list[str]:
        return heapq.nsmallest(k, self.best, key=lambda text: (self.best[text].cost_ns, text))


# --- all of them ------------------------------------------------------------------------------------------


def count_assignments(option: OpenOption) -> int:
    """Return the number of assignments of an option, including infeasible ones."""
    space = option.space
    count = factorial(len(space.axes)) * factorial(len(space.register_axes))
    count *= prod(len(space.stage_values(operand)) for operand in space.option.operands)
    count *= prod(len(values) for values in open_values(space).values())
    return count * sum(
        prod(len(sizes) for sizes in _block_sizes(space, block, iterations))
        for block in option.register_blocks
        for iterations in sum_choices(space, block)
    )


def _block_sizes(space: Space, block: RegisterBlock, iterations: Assignment) -> list[tuple[int, ...]]:
    """Return the cache blocks of all axes that fit a register block and an unrolled sum."""
    return [space.blocks(a, block.get(a.name, iterations.get(space.unroll(a), 1))) for a in space.axes]


def all_candidates(option: OpenOption) -> Iterator[Candidate]:
    """Yield all candidates of an option."""
    space = option.space
    orders = [decisions_of(order, space.order_pairs()) for order in permutations(space.axes)]
    sweeps = [decisions_of(order, space.sweep_pairs()) for order in permutations(space.register_axes)]
    stages = [[(space.stage(o), value) for value in space.stage_values(o)] for o in space.option.operands]
    crossings = [[(name, value) for value in values] for name, values in open_values(space).items()]
    both = (
        (block, iterations) for block in option.register_blocks for iterations in sum_choices(space, block)
    )
    for block, iterations in both:
        unrolls = {space.unroll(axis): block[axis.name] for axis in space.register_axes} | iterations
        sizes = [
            [(space.block(axis), size) for size in own]
            for axis, own in zip(space.axes, _block_sizes(space, block, iterations), strict=True)
        ]
        for chosen in product(*sizes, *stages, *crossings):
            for order, sweep in product(orders, sweeps):
                assignment = {**unrolls, **dict(chosen), **order, **sweep}
                if agrees(assignment, space.fixed) and space.is_feasible(assignment):
                    yield candidate_of(option, assignment)
