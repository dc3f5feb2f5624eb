"""Remove mappings that cannot win from a problem, so that a first schedule takes less than a second.

A convolution has hundreds of mappings. The first lower bound of most of them exceeds the cost of the best
schedule. So outlines are sorted by their lower bounds, and refined in that order until the remaining ones
cost more than a known schedule. A few simple mappings give such a schedule at once. No optimum is lost:
excluded mappings have bounds, which stay with the problem (docs/decisions/0014-floors.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from isamap.formulate.binding import bound_options
from isamap.formulate.build import Outline, build_problem, outlines
from isamap.formulate.frame import Frame
from isamap.formulate.fusable import offer_once
from isamap.formulate.matches import Matches
from isamap.formulate.packable import packed_in
from isamap.formulate.unmatched import no_mapping, require_performed
from isamap.ir import Kernel, Range
from isamap.machine import Machine
from isamap.plan.problem import Fusion, NestOption, NestProblem, Problem, Start
from isamap.plan.protocols import CostModel, FlooredModel
from isamap.plan.schedule import cost_unit
from isamap.scheduler.nests.pricing import fusions_in_unit
from isamap.scheduler.search.candidates import Candidate, OpenOption, open_options
from isamap.scheduler.search.fusing import least_added_ns
from isamap.scheduler.search.greedy import greedy_candidate
from isamap.scheduler.search.splitting import raised_floors
from isamap.source.records import dataclass, replace
from isamap.transform import statements
from isamap.transform.companions import companions

# Of so many mappings that join few axes it is looked up first how operands come to registers, and so many of
# those that bring most of them without a copy are priced: one of them is often the best. The first one of each
# other instruction is looked up and priced as well: what operands cost is known of none before.
GLANCED = 24
PLAIN = 4
# How often a statement's mappings are looked at beyond that before a first schedule is made of what is there.
FIRST_LOOKS = 4
# Into how many boxes a mapping is cut that may win: most that cannot are out before there are so many.
MOST_BOXES = 1 << 12
# How much a mapping is put back for each axis that it joins to another: it mostly has to be copied.
PER_JOINED = 1.5


def narrow_problem(
    kernel: Kernel,
    machine: Machine,
    sizes: Mapping[str, int | Range],
    threads: int,
    model: CostModel,
    looks: int | None = None,
    matches: Sequence[Matches] | None = None,
    packed: Sequence[str] = (),
) -> Problem:
    """Return the problem with the mappings that may win under a model, and a lower bound on the removed ones.

    After `looks` mappings of a statement, if given, the remaining ones are excluded as well, even if they may
    win. `matches` are the mappings of the statements, if known. `packed` are inputs that the caller passes
    packed. Raises: NoMapping if a statement cannot be performed; UsageProblem for an input that cannot be
    packed.
    """
    assert isinstance(model, FlooredModel), "only floors say what may be left out"
    frame = Frame.of(kernel, machine, sizes, threads, matches, packed)
    given, bare = statements(kernel), frame.problem(())
    # A sum may save the cost of the statements that are fused with it: they are priced before.
    along = [[c.number for c in companions(kernel, n)] for n in range(len(given))]
    priced: dict[int, _Priced] = {}
    for number in sorted(range(len(given)), key=lambda n: len(along[n]) > 0):
        saved = {n: priced[n].price_ns if n in priced else inf for n in along[number]}
        judge = _Judge(frame, bare, number, model, model.least_ns, saved)
        found = _narrow_mappings(outlines(given[number], number, frame), judge, looks)
        if not found.nest.options and packed_in(given[number], packed):
            return build_problem(kernel, machine, sizes, threads, packed, None, matches)  # which says why
        if not found.nest.options and all(number not in others for others in along):
            raise no_mapping(kernel, number, machine)
        priced[number] = found
    nests = [priced[number].nest for number in range(len(given))]
    require_performed(nests, kernel, machine)
    return frame.problem(nests)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A statement with the mappings that may win, and the cost of a schedule. Units: nanoseconds."""

    nest: NestProblem
    price_ns: float


@dataclass(frozen=True, slots=True)
class _Settled:
    """A completely priced mapping: its lower bound, and its best known schedule (None without one)."""

    number: int
    option: NestOption
    floor_ns: float
    best: Candidate | None


_Waiting = tuple[float, int, Outline]
"""A mapping to refine: its lower bound (nanoseconds), its number, and its known costs."""


def _joint_bound(waiting: _Waiting) -> float:
    """Return the lower bound of a mapping, increased for each axis that it joins to another one."""
    least, _, outline = waiting
    return least * PER_JOINED**outline.joined


@dataclass(frozen=True, slots=True)
class _Judge:
    """The prices of a statement's mappings. `saved` are the costs of statements that may be fused with it.

    `bare` is the problem without statements. `floor` is the model's lower bound on one iteration.
    """

    frame: Frame
    bare: Problem
    number: int
    model: CostModel
    floor: Callable[[Problem, NestOption], float]
    saved: Mapping[int, float]

    def whole_ns(self, option: NestOption, best: Candidate | None) -> float:
        """Return the cost of a mapping's schedule, plus the least cost of the statements that it may fuse."""
        return inf if best is None else best.cost_ns + least_added_ns(self._fusions(option), self.saved)

    def least_whole_ns(self, option: NestOption, floor_ns: float) -> float:
        """Return a lower bound of a mapping's cost with the statements that it may fuse."""
        return floor_ns + min(0.0, least_added_ns(self._fusions(option), dict.fromkeys(self.saved, 0.0)))

    def _fusions(self, option: NestOption) -> tuple[Fusion, ...]:
        offered = fusions_in_unit(option, self.bare, self.model)
        return tuple(f for f in offered if f.statement in self.saved)

    def least_ns(self, option: NestOption) -> float:
        """Return a lower bound of a mapping's cost, divided among threads or not, with any fused statements."""
        if self.saved and cost_unit(self.model.name) != "ns":  # these may save accesses of the result
            inputs = tuple(o for o in option.operands if not o.is_accumulator)
            option = replace(option, operands=inputs)
        once = self.floor(self.bare, option) / self.bare.teams(option)
        return self.frame.iterations[self.number] * once

    def floor_and_best(
        self, option: NestOption, limit_ns: float, *, splits: bool
    ) -> tuple[float, Candidate | None]:
        """Return the lower bound of a complete option, and its greedy schedule.

        There is no schedule if the bound is not below the limit. With `splits`, the bound is raised towards
        the limit.
        """
        nest = NestProblem(self.number, (option,), iterations=self.frame.iterations[self.number])
        opened = open_options(replace(self.bare, nests=offer_once((nest,))), nest, self.model, {})
        floor = min((o.floor_ns for o in opened), default=inf)
        if splits and floor < limit_ns < inf:
            floor = min(self._raised_ns(own, limit_ns) for own in opened)
            if floor >= limit_ns:
                return floor, None
        # Partitions differ in the time of fused statements, which the limit does not count.
        own_limit = inf if option.fusions else limit_ns
        return floor, greedy_candidate(opened, limit_ns=own_limit) if floor <= limit_ns else None

    def _raised_ns(self, option: OpenOption, limit_ns: float) -> float:
        """Return a lower bound of an option's schedules. It is raised up to the limit if possible."""
        return min(raised_floors(option, option.floors_ns, limit_ns, most=MOST_BOXES).floors_ns)


def _narrow_mappings(given: Sequence[Outline], judge: _Judge, looks: int | None) -> _Priced:
    """Return the mappings that may cost at most as much as the best known schedule."""
    wholes: list[_Settled] = []
    price = limit = others = ruled_out = inf

    def settle(whole: Outline, *, splits: bool = False) -> None:
        nonlocal price, limit, ruled_out
        for option in bound_options(whole.option, judge.frame.search.machine):
            if (least := judge.least_ns(option)) > limit:
                ruled_out = min(ruled_out, least)
                continue
            floor, best = judge.floor_and_best(option, price, splits=splits)
            floor = judge.least_whole_ns(option, floor)
            if splits and floor >= price:
                ruled_out = min(ruled_out, floor)
                continue
            price = min(price, inf if best is None else best.cost_ns)
            limit = min(limit, judge.whole_ns(option, best))
            wholes.append(_Settled(whole.number, option, floor, best))

    def entry_of(waiting: _Waiting) -> tuple[float, int, _Waiting]:
        # A few looks go to mappings that promise most: of those that join axes, many have the least bound.
        return waiting[0] if looks is None else _joint_bound(waiting), waiting[1], waiting

    plain, further = _split_by_cost(given, judge)
    for waiting in sorted(plain):  # a cheap schedule first: its cost rules others out
        if waiting[0] > limit:
            further.append(waiting)
        elif (whole := _complete_outline(waiting[2])) is not None:
            settle(whole)
    queue = list(map(entry_of, further))
    heapify(queue)
    looked = 0
    while queue:
        *_, (least, _, outline) = heappop(queue)
        is_tired = looks is not None and looked >= looks and price < inf
        if least > limit or is_tired:
            others = min(others, least)
            continue
        looked += 1
        if outline.further is None:
            # To split takes as long as greedy does, and proves of most mappings that they cannot win.
            settle(outline, splits=looks is None and not judge.saved)
        elif (more := refine_outline(outline, at_once=looks is not None)) is not None:
            heappush(queue, entry_of((max(least, judge.least_ns(more.option)), more.number, more)))
    kept = sorted((own for own in wholes if own.floor_ns <= limit), key=lambda own: own.number)
    others = min([others, ruled_out, *(own.floor_ns for own in wholes if own.floor_ns > limit)])
    nest = NestProblem(
        judge.number,
        tuple(own.option for own in kept),
        others,
        judge.frame.iterations[judge.number],
        tuple(_start(place, own.best) for place, own in enumerate(kept) if own.best is not None),
    )
    return _Priced(nest, price)


def _start(place: int, best: Candidate) -> Start:
    """Return the greedy schedule of an option."""
    option = best.option.space.option
    return Start(place, option.parts, tuple(best.assignment.items()), option.alone)


def refine_outline(outline: Outline, *, at_once: bool) -> Outline | None:
    """Return a more precise outline, or None if nothing performs the mapping."""
    more = outline.further() if outline.further is not None else outline
    while at_once and more is not None and more.is_priced_in_part and more.further is not None:
        more = more.further()
    return more


def _split_by_cost(given: Sequence[Outline], judge: _Judge) -> tuple[list[_Waiting], list[_Waiting]]:
    """Return some mappings that may be cheap, and all others, each with its lower bound."""

    def waiting(outline: Outline) -> _Waiting:
        return judge.least_ns(outline.option), outline.number, outline

    def promise(candidate: _Waiting) -> tuple[int, float, int]:
        _, number, outline = candidate
        absent = sum(operand.costs.direct_ns is None for operand in outline.option.operands)
        return absent, _joint_bound(candidate), number

    ordered = sorted(map(waiting, given), key=promise)
    glanced = [o for _, _, outline in ordered[:GLANCED] if (o := _refine_once(outline)) is not None]
    known = sorted(map(waiting, glanced), key=promise)
    plain, others = known[:PLAIN], list[_Waiting]()
    seen = {_instruction(outline) for _, _, outline in plain}
    for one in (*known[PLAIN:], *ordered[GLANCED:]):
        instruction = _instruction(one[2])
        if instruction in seen:
            others.append(one)
        elif (outline := _refine_once(one[2])) is not None:
            plain.append(waiting(outline))
        seen.add(instruction)
    return plain, others


def _refine_once(outline: Outline) -> Outline | None:
    """Return the outline refined by one step, or None if no instructions perform the mapping."""
    return outline.further() if outline.further is not None else outline


def _instruction(outline: Outline) -> str:
    return outline.option.mapping.split(" ", 1)[0]


def _complete_outline(outline: Outline) -> Outline | None:
    """Return the complete outline of a mapping, or None if no instructions perform it."""
    found: Outline | None = outline
    while found is not None and found.further is not None:
        found = found.further()
    return found
