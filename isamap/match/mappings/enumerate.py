"""Enumerate the mappings of a statement onto an instruction, as docs/matching.md defines them.

Kernel axes get places one after the other: a loop around the instruction, one of its axes, or a class of axes
that index the same operands, over which the kernel axis is cut. The search abandons a partial mapping that
already breaks a condition, and one that would leave an axis of the instruction empty. So it builds few
mappings that it must reject.

Conditions are cached by group of axes, because mappings share few groups: the 900 mappings of `tdpbf16ps` onto
a convolution are made of about 200.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import islice, permutations, product

from isamap.ir import Assign, Cast, DType, Expr, Facts, Index, Instruction, Kernel, Read, is_nonnegative
from isamap.machine import Machine
from isamap.match.mappings.exact import IterationSpace, can_be_met, largest_parameters, unit_axes
from isamap.match.mappings.mapping import AxisGroup, CountMode, Kind, KnownMappings, Mapping
from isamap.match.mappings.validity import Condition, conditions, space_of, verdict, with_lanes
from isamap.match.patterns.pattern import Pattern, encoded_values, only_assignment, pattern_of
from isamap.match.patterns.unify import Binding, Bindings, places, unify, unify_once
from isamap.source.records import dataclass, field
from isamap.transform import Statement, statements, symbols


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group that was found before: its number, its axes with lanes as `%i`, and the conditions on it."""

    number: int
    group: AxisGroup
    concerns: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ConditionResults:
    """Cached results of the conditions of a pairing, by condition and by the groups that it concerns.

    The numbers are compared first, since that is faster.
    """

    conditions: tuple[Condition, ...]
    space: IterationSpace
    met: dict[AxisGroup, KnownGroup] = field(default_factory=dict[AxisGroup, KnownGroup])
    known: dict[tuple[int, ...], bool] = field(default_factory=dict[tuple[int, ...], bool])

    def hold(self, groups: tuple[AxisGroup, ...]) -> bool:
        """Return whether all conditions hold for the groups of a mapping. `groups` may be some of its groups."""
        met = [self.met.get(group) or self._meet(group) for group in groups]
        for number, condition in enumerate(self.conditions):
            question = (number, *[own.number for own in met if own.concerns[number]])
            holds = self.known.get(question)
            if holds is None:
                concerned = tuple([own.group for own in met if own.concerns[number]])
                holds = verdict(condition.sides, concerned, self.space) == "holds"
                self.known[question] = holds
            if not holds:
                return False
        return True

    def _meet(self, group: AxisGroup) -> KnownGroup:
        apart, names = with_lanes(group)
        concerns = tuple([not condition.symbols.isdisjoint(names) for condition in self.conditions])
        met = self.met[group] = KnownGroup(len(self.met), apart, concerns)
        return met


Signature = tuple[frozenset[str], bool]
Groups = tuple[AxisGroup, ...]
Test = Callable[[Groups], bool]
Place = tuple[int, str | None] | None
"""A class by number and an axis of it, or None for all of its axes; None altogether for a loop around."""


def find_in_statement(
    pattern: Pattern,
    statement: Statement,
    number: int,
    mode: CountMode = "complete",
    kernel: Kernel | None = None,
) -> Iterator[Mapping]:
    """Yield all whole, split and degenerate mappings of an instruction onto a statement, in a fixed order.

    A caller that needs only some may stop early. `kernel` has the facts about sizes. Without it, every size is
    assumed to be at least 1.
    """
    if not heads_agree(pattern, statement) or not can_be_met(pattern.instruction):
        return
    if mode == "amos":
        yield from find_unions(pattern, statement, number, pairings(pattern, statement, mode))
        return

    def test(bindings: Bindings) -> Test:
        stated = conditions(pattern, statement, bindings)
        return cache(ConditionResults(stated, space_of(pattern, statement, kernel)).hold)

    yield from _find(pattern, statement, number, mode, test)


def find_candidates(
    pattern: Pattern, statement: Statement, number: int, mode: CountMode = "complete"
) -> Iterator[Mapping]:
    """Yield all mappings whose signatures agree. Elements and parameters are not checked."""

    def test(bindings: Bindings) -> Test:
        own = {a.name: instruction_signature(a.name, pattern, bindings) for a in pattern.axes}
        theirs = {a.name: kernel_signature(a.name, statement.assign, bindings) for a in statement.axes}
        return lambda groups: all(
            may_run_on(theirs[x], own[j]) for g in groups for j in g.instruction_axes for x in g.kernel_axes
        )

    yield from _find(pattern, statement, number, mode, test)


def _find(
    pattern: Pattern, statement: Statement, number: int, mode: CountMode, test: Callable[[Bindings], Test]
) -> Iterator[Mapping]:
    """Yield the mappings of all pairings whose axis groups pass the test of the pairing."""
    seen: KnownMappings | None = None
    for bindings in pairings(pattern, statement, mode):
        seen = seen or KnownMappings(pattern)  # symmetries are looked for where there is something to compare
        holds = test(bindings)
        if not holds(()):  # two reads of one operand meet though nothing runs over it
            continue
        search = _search(pattern, statement, bindings, holds)
        for chosen in _places(search, ()):
            mapping = _build_mapping(pattern, number, bindings, search, chosen)
            if seen.is_new(mapping):
                yield mapping


def pairings(pattern: Pattern, statement: Statement, mode: CountMode) -> Iterator[Bindings]:
    """Yield the possible bindings of the operands: all of them in complete mode, else the first one."""
    if not heads_agree(pattern, statement) or statement.assign.guard is not None:
        return iter(())
    lay = unify_once if mode == "amos" else unify
    laid = lay(pattern.value, statement.assign.value)
    found = (b for b in laid if encoded_values(pattern.instruction, b) is not None)
    return found if mode == "complete" else islice(found, 1)


def heads_agree(pattern: Pattern, statement: Statement) -> bool:
    """Return whether operation and result type of the two statements are equal."""
    mine, theirs = pattern.statement.assign, statement.assign
    required = theirs.target.dtype if theirs.op is None else statement.accumulator
    return mine.op == theirs.op and mine.target.dtype == required and mine.value.dtype == theirs.value.dtype


def kernel_signature(axis: str, target: Assign, bindings: Bindings) -> Signature:
    """Return the operands and subscripts that a kernel axis indexes, and whether it indexes the output."""
    inputs = frozenset(name for name, b in places(bindings) if axis in symbols(b.subject))
    return inputs, any(axis in i.symbols for i in target.target.index)


def instruction_signature(axis: str, pattern: Pattern, bindings: Bindings) -> Signature:
    """Return the operands and subscripts that an instruction axis indexes, and whether it indexes the output."""
    inputs = frozenset(name for name, b in places(bindings) if any(axis in i.symbols for i in b.pattern))
    return inputs, any(axis in i.symbols for i in pattern.target.index)


def may_run_on(kernel_axis: Signature, instruction_axis: Signature) -> bool:
    """Return whether an instruction axis indexes all inputs of a kernel axis, and the output exactly if that does."""
    return kernel_axis[0] <= instruction_axis[0] and kernel_axis[1] == instruction_axis[1]


# --- the search -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Search:
    """The search space of one pairing: the possible places of each kernel axis alone.

    `reachable` are the instruction axes of each class on which some kernel axis may run alone. All of them
    must be filled. `left[n]` is, for each class, how many of the kernel axes from the n-th on may run
    there.
    """

    classes: tuple[tuple[str, ...], ...]
    units: tuple[str, ...]
    axes: tuple[str, ...]
    options: tuple[tuple[Place, ...], ...]
    reachable: tuple[frozenset[str], ...]
    left: tuple[tuple[int, ...], ...]
    test: Test


def _search(pattern: Pattern, statement: Statement, bindings: Bindings, test: Test) -> _Search:
    classes = _classes(pattern, bindings)
    axes = tuple(a.name for a in statement.axes if a.extent.value != 1)
    options: list[tuple[Place, ...]] = []
    for axis in axes:
        places: list[Place] = [None]
        for position, members in enumerate(classes):
            places += [(position, m) for m in members if test((AxisGroup((m,), (axis,)),))]
            if len(members) > 1 and test((AxisGroup(members, (axis,)),)):
                places.append((position, None))
        options.append(tuple(places))
    alone = [frozenset(p[0] for p in places if p is not None) for places in options]
    left = tuple(
        tuple(sum(c in a for a in alone[n:]) for c in range(len(classes))) for n in range(len(axes) + 1)
    )
    alone_on = frozenset(p[1] for places in options for p in places if p is not None and p[1] is not None)
    reachable = tuple(alone_on.intersection(members) for members in classes)
    return _Search(classes, unit_axes(pattern), axes, tuple(options), reachable, left, test)


def _classes(pattern: Pattern, bindings: Bindings) -> tuple[tuple[str, ...], ...]:
    """Return the classes of instruction axes with equal signatures, each ordered by the axes' steps in operands."""
    found: dict[Signature, list[str]] = {}
    units = unit_axes(pattern)
    for axis in pattern.axes:
        if axis.name not in units:
            found.setdefault(instruction_signature(axis.name, pattern, bindings), []).append(axis.name)
    return tuple(tuple(sorted(members, key=lambda a: -_step(a, bindings))) for members in found.values())


def _step(axis: str, bindings: tuple[Binding, ...]) -> int:
    """Return the largest step of an axis in a subscript with other axes: 2 for k in `2*k + p`."""

    def step(index: Index) -> int:
        c = index.coefficient(axis) if axis in index.symbols and len(index.symbols) > 1 else None
        return c.value or 0 if c is not None else 0

    return max((step(i) for b in bindings for i in b.pattern), default=0)


def _places(search: _Search, chosen: tuple[Place, ...]) -> Iterator[tuple[Place, ...]]:
    """Yield all ways to place the remaining kernel axes, in the order of options."""
    if len(chosen) == len(search.axes):
        yield chosen
        return
    for place in search.options[len(chosen)]:
        more = (*chosen, place)
        if _can_be_filled(search, more) and (place is None or search.test(_groups(search, more))):
            yield from _places(search, more)


def _can_be_filled(search: _Search, chosen: tuple[Place, ...]) -> bool:
    """Return whether the remaining axes can fill every instruction axis that must be filled."""
    left = search.left[len(chosen)]
    for position, reachable in enumerate(search.reachable):
        taken = {p[1] for p in chosen if p is not None and p[0] == position}
        if None in taken:
            if len(taken) > 1:
                return False
            continue
        lacking = len(reachable - taken)
        needed = lacking if taken else min(lacking, 1)
        if left[position] < needed:
            return False
    return True


def _groups(search: _Search, chosen: tuple[Place, ...]) -> Groups:
    inside: dict[tuple[int, str | None], list[str]] = {}
    for axis, place in zip(search.axes, chosen, strict=False):
        if place is not None:
            inside.setdefault(place, []).append(axis)
    return tuple(
        [
            AxisGroup(lanes, tuple(inside[position, home]))
            for position, members in enumerate(search.classes)
            for home, lanes in ((None, members), *((m, (m,)) for m in members))
            if (position, home) in inside
        ]
    )


def _build_mapping(
    pattern: Pattern, number: int, bindings: Bindings, search: _Search, chosen: tuple[Place, ...]
) -> Mapping:
    groups = _groups(search, chosen)
    used = {a for g in groups for a in g.instruction_axes}
    empty = tuple(a for members in search.classes for a in members if a not in used)
    is_split = any(len(g.instruction_axes) > 1 for g in groups)
    kind: Kind = "degenerate" if empty else "split" if is_split else "whole"
    return Mapping(pattern.name, number, bindings, groups, (*empty, *search.units), kind)


def find_mappings(kernel: Kernel, machine: Machine, mode: CountMode = "complete") -> tuple[Mapping, ...]:
    """Return all mappings, by statement, then in the machine's order of instructions."""
    return tuple(
        m
        for number, statement in enumerate(statements(kernel))
        for m in statement_mappings(statement, number, machine, mode, kernel)
    )


def statement_mappings(
    statement: Statement,
    number: int,
    machine: Machine,
    mode: CountMode = "complete",
    kernel: Kernel | None = None,
    instruction: str | None = None,
    *,
    writes: bool = False,
) -> Iterator[Mapping]:
    """Yield all mappings of a statement, or those of one instruction. `kernel` has the facts about its sizes.

    With `writes`, those of a statement that only assigns write to memory: no others perform it.
    """
    assign = statement.assign
    required = assign.target.dtype if assign.op is None else statement.accumulator
    for pattern in _patterns_of_head(machine, assign.op, required, assign.value.dtype):
        if writes and assign.op is None and not _writes_memory(pattern, machine):
            continue
        if instruction in (None, pattern.name):
            yield from find_in_statement(pattern, statement, number, mode, kernel)


def _writes_memory(pattern: Pattern, machine: Machine) -> bool:
    memory = machine.memories.get(pattern.output.memory or "")
    return memory is not None and memory.kind in ("addressable", "scratchpad")


@lru_cache(maxsize=1024)
def _patterns_of_head(machine: Machine, op: str | None, target: DType, value: DType) -> tuple[Pattern, ...]:
    """Return a machine's patterns with this operation and these types of target and value, in order."""
    own = _index_assignments(machine).get((op, target), ())
    return tuple(p for i in own if (p := pattern_of(i)) is not None and p.value.dtype == value)


@lru_cache(maxsize=64)
def _index_assignments(machine: Machine) -> dict[tuple[str | None, DType], list[Instruction]]:
    """Return a machine's instructions with one assignment, by its operation and the type of its target."""
    found: dict[tuple[str | None, DType], list[Instruction]] = {}
    for item in machine.instructions.values():
        if (own := only_assignment(item.instruction)) is not None:
            found.setdefault((own.op, own.target.dtype), []).append(item.instruction)
    return found


# The mappings that AMOS's released code finds, so that published counts can be reproduced.
#
# A point puts one kernel axis on each instruction axis; a mapping is a set of points, told apart by the union
# of their kernel axes on each instruction axis. Conv1d on a matrix product has the points (n, c), (n, r) and
# (p, c) for i and k, but not (p, r), for `X[n, c, p + r]` is not a matrix of p and r; these three make six
# mappings. Axes of one element count here.


Point = tuple[str, ...]
"""A kernel axis for each instruction axis, in their order."""


def find_unions(
    pattern: Pattern, statement: Statement, number: int, pairings: Iterator[Bindings]
) -> Iterator[Mapping]:
    """Yield all mappings of the pairings by AMOS's rule. Mappings must fill their axes if sizes are known."""
    axes = tuple(a.name for a in pattern.axes)
    for bindings in pairings:
        points = set(find_points(pattern, statement, bindings))
        for union in _unions(points, len(axes)):
            if all(_is_filled(pattern, statement, a, on) for a, on in zip(axes, union, strict=True)):
                groups = tuple(AxisGroup((a,), on) for a, on in zip(axes, union, strict=True))
                yield Mapping(pattern.name, number, bindings, groups, (), "whole")


def find_points(pattern: Pattern, statement: Statement, bindings: Bindings) -> Iterator[Point]:
    """Yield tuples of distinct kernel axes for the instruction's axes, of equal kinds, in which operands agree."""
    sums = {a.name for a in statement.reduction_axes}
    own_sums = {a.name for a in pattern.statement.reduction_axes}
    options = [
        [k.name for k in statement.axes if (k.name in sums) == (j.name in own_sums)] for j in pattern.axes
    ]
    pairs = [(b.pattern, _subscripts(b.subject)) for b in bindings]
    pairs.append((pattern.target.index, statement.assign.target.index))
    for point in product(*options):
        if len(set(point)) == len(point) and all(
            theirs is not None and _agree(own, theirs, pattern, statement, point) for own, theirs in pairs
        ):
            yield point


def _subscripts(subject: Expr) -> tuple[Index, ...] | None:
    """Return the subscripts of an element or of its cast, () for an expression without axes, or None."""
    while isinstance(subject, Cast):
        subject = subject.value
    if isinstance(subject, Read):
        return subject.index
    return None if symbols(subject) else ()


def _agree(
    own: tuple[Index, ...], theirs: tuple[Index, ...], pattern: Pattern, statement: Statement, point: Point
) -> bool:
    """Return whether each subscript is a scaled and shifted dimension, and all other dimensions are constant."""
    runs = dict(zip((a.name for a in pattern.axes), point, strict=True))
    still: dict[str, Index | int] = {a.name: 0 for a in statement.axes if a.name not in point}
    moving = [i.substitute({j: Index.of(x) for j, x in runs.items()}) for i in own]
    moving = [i for i in moving if not i.symbols.isdisjoint(point)]
    left = [i.substitute(still) for i in theirs]
    left = [i for i in left if not i.symbols.isdisjoint(point)]
    return len(moving) == len(left) and any(
        all(_is_scaled(d, i, point) for d, i in zip(order, moving, strict=True))
        for order in permutations(left)
    )


def _is_scaled(dimension: Index, subscript: Index, point: Point) -> bool:
    """Return whether `dimension` is `c * subscript + b` with c > 0."""
    axis = next(x for x in point if x in subscript.symbols)
    step, own = dimension.coefficient(axis), subscript.coefficient(axis)
    if step is None or own is None:
        return False
    scale = step.divide_exactly(own)
    if scale is None or not is_nonnegative(scale - 1, Facts()):
        return False
    return (dimension - scale * subscript).symbols.isdisjoint(point)


def _unions(points: set[Point], count: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield each distinct assignment of kernel axes to instruction axes that is a union of points.

    Axes are such a union when the points inside them reach all of them.
    """
    reached = [sorted({p[n] for p in points}) for n in range(count)]
    for union in product(*(_subsets(axes) for axes in reached)):
        inside = [p for p in points if all(x in on for x, on in zip(p, union, strict=True))]
        if inside and all({p[n] for p in inside} == set(on) for n, on in enumerate(union)):
            yield union


def _subsets(axes: list[str]) -> list[tuple[str, ...]]:
    return [tuple(a for n, a in enumerate(axes) if bits >> n & 1) for bits in range(1, 1 << len(axes))]


def _is_filled(pattern: Pattern, statement: Statement, axis: str, on: tuple[str, ...]) -> bool:
    """Return whether the fused extents multiply to at least the instruction's length. Unknown counts as yes."""
    length = pattern.statement.axis(axis).extent.substitute(largest_parameters(pattern.instruction)).value
    extent = Index.of(1)
    for x in on:
        extent = extent * statement.axis(x).extent
    return length is None or extent.value is None or extent.value >= length
