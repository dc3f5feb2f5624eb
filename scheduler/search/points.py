"""The search space of measuring searches: complete schedules as points, and the moves between them.

    space = SearchSpace.around(problem, model, fixed, first, listed)
    point = space.changed(space.first, rng)      one decision changed, in one statement
    space.schedule(point)                        to be lowered, compiled, measured

Each point is feasible: tiles fit into registers and scratchpads, and fixed decisions are kept. A point has
a candidate for each group of statements: a nest, and its fused statements. Decisions, moves and costs are
those of the built-in heuristics.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from isamap.plan.problem import NestProblem, Problem
from isamap.plan.protocols import CostModel
from isamap.plan.schedule import Schedule
from isamap.plan.text import print_nest
from isamap.scheduler.deciding.fixing import resolve
from isamap.scheduler.deciding.space import Assignment, RegisterBlock, Space
from isamap.scheduler.deciding.summing import nearest, sum_choices
from isamap.scheduler.nests.pricing import read_nest
from isamap.scheduler.search.assembling import Solved, assemble
from isamap.scheduler.search.candidates import Candidate, OpenOption, candidate_of
from isamap.scheduler.search.fusing import FusedGroup, FusedOption, choices_of, solve_groups
from isamap.scheduler.search.greedy import all_moves, first_assignment, first_candidate
from isamap.source import add_up, dataclass, replace

# --- neighbours of a schedule of one statement ----------------------------------------------------------


def neighbours(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidates that differ in one decision or in the register block."""
    option = candidate.option
    for move in all_moves(option, candidate.assignment):
        assignment = {**candidate.assignment, **move}
        if option.space.is_feasible(assignment):
            yield candidate_of(option, assignment)
    for block in option.register_blocks:
        fitted = with_block(option, candidate.assignment, block)
        if fitted is not None and option.space.is_feasible(fitted):
            yield candidate_of(option, fitted)


def with_block(option: OpenOption, assignment: Assignment, block: RegisterBlock) -> Assignment | None:
    """Return the assignment with another register block and the nearest cache blocks that fit it."""
    space = option.space
    found = dict(assignment)
    iterations = [
        made for made in sum_choices(space, block) if all(n <= assignment[name] for name, n in made.items())
    ]
    if not iterations:
        return None
    found |= iterations[-1]
    for axis in space.axes:
        factor = block.get(axis.name, found.get(space.unroll(axis), 1))
        sizes = space.blocks(axis, factor)
        if not sizes:
            return None
        found[space.block(axis)] = nearest(sizes, assignment[space.block(axis)])
        if not axis.is_reduction:
            found[space.unroll(axis)] = factor
    return found


# How many changes are drawn before a point counts as one without neighbours.
DRAWS = 32
# Shares of changes that take another mapping, or set of statements to fuse, and another register block.
JUMPS, BLOCKS = 0.1, 0.3


@dataclass(frozen=True, slots=True)
class Point:
    """A complete schedule: a candidate per group, in the order of the space. Points with equal loops are equal.

    Units: `cost_ns` in nanoseconds of the model.
    """

    candidates: tuple[Candidate, ...]
    text: str

    @property
    def cost_ns(self) -> float:
        return add_up(candidate.cost_ns for candidate in self.candidates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, slots=True)
class OptionWithFused:
    """One of a group's options with its fused statements, whose cost the option includes."""

    option: OpenOption
    choice: FusedOption


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """All schedules of a problem that agree with the fixed decisions.

    `first` is the starting point of a search, `listed` are the model's cheapest schedules in order, without
    `first`.
    """

    problem: Problem
    model: CostModel
    fixed: Assignment
    groups: tuple[FusedGroup, ...]
    ways: tuple[tuple[OptionWithFused, ...], ...]
    first: Point
    listed: tuple[Point, ...] = ()

    @staticmethod
    def around(
        problem: Problem,
        model: CostModel,
        fixed: Mapping[str, int],
        first: Schedule,
        listed: Sequence[Schedule] = (),
    ) -> SearchSpace | None:
        """Return the space around a schedule, or None if no decisions lead to it.

        Raises: Infeasible if nothing agrees with `fixed`.
        """
        decisions = resolve(problem, fixed)
        options: dict[int, tuple[OpenOption, ...]] = {}

        def solve(nest: NestProblem, own: tuple[OpenOption, ...], _: int) -> Solved:
            options[nest.statement] = own
            found = first_candidate(nest, own, decisions)
            return Solved(found, 0.0, "HEURISTIC", reproducible=True, found_by="search")

        groups = solve_groups(problem, model, decisions, solve)
        groups = tuple(replace(group, alone=_as_in(first, problem, group, options)) for group in groups)
        ways = tuple(_ways(group, options[group.statement], decisions) for group in groups)
        empty = SearchSpace(problem, model, decisions, groups, ways, Point((), ""))
        start = empty.point_of(first)
        if start is None:
            return None
        points = (empty.point_of(schedule) for schedule in listed)
        others = dict.fromkeys(point for point in points if point is not None and point != start)
        return replace(empty, first=start, listed=tuple(others))

    def point_of(self, schedule: Schedule) -> Point | None:
        """Return the point of a schedule, or None if no decisions lead to its loops."""
        nests = {nest.statement: nest for nest in schedule.nests}
        found: list[Candidate] = []
        for group, ways in zip(self.groups, self.ways, strict=True):
            nest = next(n for n in self.problem.nests if n.statement == group.statement)
            own = nests[group.statement]
            read = read_nest(self.problem, nest, own)
            way = read and next(
                (w for w in ways if w.option.space.option == read[0] and w.choice.fused == own.fused), None
            )
            if not read or not way:
                return None
            found.append(_candidate(way, read[1]))
        return self._point(found)

    def schedule(self, point: Point) -> Schedule:
        """Return the schedule of a point in the form that heuristics return."""
        parts = [
            part
            for group, ways, candidate in zip(self.groups, self.ways, point.candidates, strict=True)
            for part in group.parts(_as_solved(candidate), _way_of(ways, candidate).choice)
        ]
        parts.sort(key=lambda part: part.candidate.option.space.statement)
        made = assemble(self.problem, self.model.name, parts)
        return replace(made, fixed=tuple(self.fixed.items()))

    def changed(self, point: Point, rng: random.Random) -> Point | None:
        """Return a point with one change of a decision, a register block or a mapping, or None if there is none.

        Statements are changed as often as they cost.
        """
        costs = [candidate.cost_ns for candidate in point.candidates]
        for _ in range(DRAWS):
            place = rng.choices(range(len(costs)), costs)[0] if any(costs) else rng.randrange(len(costs))
            found = self._move_candidate(place, point.candidates[place], rng)
            if found is not None:
                made = self._point([*point.candidates[:place], found, *point.candidates[place + 1 :]])
                if made != point:
                    return made
        return None

    def crossed(self, one: Point, other: Point, rng: random.Random) -> Point | None:
        """Return a point with each decision from one of two points, or None if that is not a schedule.

        A whole loop order comes from one point, and so does a whole register block: a mixture may be
        impossible. If the mappings differ, all decisions of a statement come from one point.
        """
        found: list[Candidate] = []
        for ways, a, b in zip(self.ways, one.candidates, other.candidates, strict=True):
            way = _way_of(ways, a)
            if way is not _way_of(ways, b):
                found.append(rng.choice((a, b)))
                continue
            drawn = _draw_decisions(way.option.space, a.assignment, b.assignment, rng)
            if drawn is None:
                return None
            found.append(_candidate(way, drawn))
        return self._point(found)

    def drawn(self, rng: random.Random) -> Point | None:
        """Return a random point: a mapping, a register block, and then a few changes. None if it is no schedule."""
        starts: list[Candidate] = []
        for ways in self.ways:
            way = rng.choice(ways)
            start = first_assignment(way.option.space, rng.choice(way.option.register_blocks))
            if start is None:
                return None
            starts.append(_candidate(way, start))
        point = self._point(starts)
        for _ in range(4 * len(starts)):
            point = self.changed(point, rng) or point
        return point

    def _move_candidate(self, place: int, candidate: Candidate, rng: random.Random) -> Candidate | None:
        way, kind = _way_of(self.ways[place], candidate), rng.random()
        assignment: Assignment | None
        if kind < JUMPS and len(self.ways[place]) > 1:
            way = rng.choice(self.ways[place])
            assignment = first_assignment(way.option.space, rng.choice(way.option.register_blocks))
        elif kind < JUMPS + BLOCKS:
            block = rng.choice(way.option.register_blocks)
            assignment = with_block(way.option, candidate.assignment, block)
        else:
            moves = list(all_moves(way.option, candidate.assignment))
            assignment = {**candidate.assignment, **rng.choice(moves)} if moves else None
        if assignment is None or not way.option.space.is_feasible(assignment):
            return None
        return _candidate(way, assignment)

    def _point(self, candidates: Iterable[Candidate]) -> Point:
        found = tuple(candidates)
        return Point(found, "\n".join(print_nest(candidate.nest()) for candidate in found))


def changed_kinds(one: Point, other: Point) -> frozenset[str]:
    """Return the kinds of decisions in which two points differ: `block`, `stage`, `order`, `mapping`, ..."""
    found: set[str] = set()
    for a, b in zip(one.candidates, other.candidates, strict=True):
        if a.option.number != b.option.number:
            found.add("mapping")
        elif a.fused != b.fused:
            found.add("fuse")
        else:
            names = a.assignment.keys() | b.assignment.keys()
            found |= {n.split(".")[1] for n in names if a.assignment.get(n) != b.assignment.get(n)}
    return frozenset(found)


def _as_in(
    schedule: Schedule, problem: Problem, group: FusedGroup, options: Mapping[int, Sequence[OpenOption]]
) -> dict[int, Solved]:
    """Return the answers for the statements that a group may fuse. Nests of the schedule are used if they exist."""
    nests = {nest.statement: nest for nest in schedule.nests}
    found = dict(group.alone)
    for statement in found.keys() & nests.keys():
        nest = next(n for n in problem.nests if n.statement == statement)
        read = read_nest(problem, nest, nests[statement])
        option = read and next((o for o in options[statement] if o.space.option == read[0]), None)
        if read and option:
            found[statement] = _as_solved(candidate_of(option, read[1]))
    return found


def _ways(group: FusedGroup, options: Sequence[OpenOption], fixed: Assignment) -> tuple[OptionWithFused, ...]:
    if not group.choices:  # nothing to fuse
        return tuple(OptionWithFused(option, FusedOption(option, (), 0.0, 0.0)) for option in options)
    own = (choice.option for choice in group.choices)
    choices = (choice for option in own for choice in choices_of(option, group.alone, fixed))
    return tuple(OptionWithFused(choice.widened(), choice) for choice in choices)


def _way_of(ways: Sequence[OptionWithFused], candidate: Candidate) -> OptionWithFused:
    return next(way for way in ways if way.option is candidate.option and way.choice.fused == candidate.fused)


def _candidate(way: OptionWithFused, assignment: Assignment) -> Candidate:
    return replace(candidate_of(way.option, assignment), fused=way.choice.fused)


def _as_solved(candidate: Candidate) -> Solved:
    return Solved(candidate, 0.0, "HEURISTIC", reproducible=True, found_by="search")


def _draw_decisions(
    space: Space, one: Assignment, other: Assignment, rng: random.Random
) -> Assignment | None:
    """Return decisions from two assignments, with related decisions from the same one, or None if none fit."""
    genes = {name: name for name in one.keys() & other.keys()}
    genes |= {name: "order" for name, _, _ in space.order_pairs()}
    genes |= {name: "sweep" for name, _, _ in space.sweep_pairs()}
    genes |= {name: "unroll" for axis in space.option.axes if (name := space.unroll(axis)) in genes}
    for _ in range(DRAWS):
        coins = {gene: rng.random() < 0.5 for gene in sorted(set(genes.values()))}
        found = {name: (one if coins[gene] else other)[name] for name, gene in genes.items()}
        for axis in space.axes:
            sizes = space.blocks(axis, found.get(space.unroll(axis), 1))
            if not sizes:
                return None
            found[space.block(axis)] = nearest(sizes, found[space.block(axis)])
        if space.is_feasible(found):
            return found
    return None
