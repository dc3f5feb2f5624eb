"""Decide whether a mapping is valid: elements of an issue correspond to the kernel's elements one to one.

A mapping is valid under three conditions. Iterations of the instruction that access one element of an
operand stand for kernel iterations that access one element of the tensor: an instruction that reads `a[p +
r]` performs `X[p + r]`, but not `X[2*p + r]`. Two reads of one operand agree: `a[i] + a[i + 1]` performs
`X[n] + X[n + 1]`, but not `X[n] + Z[n]`. No two elements of an output stand for the same element of the
tensor: `c[i, j]` does not perform `Y[i + j]`.

Most conditions are decided by reading subscripts like digits, for all sizes at once; the others exactly, by
`exact`. If a part of a mapping breaks a condition, every larger mapping breaks it, since added axes may
stay at 0. The search therefore tests conditions on few axes first, and caches the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingType
from functools import lru_cache
from itertools import combinations
from typing import Literal

from isamap.ir import ZERO, Index, Kernel
from isamap.ir.facts import FreeSizes, known_facts
from isamap.ir.walk import indices
from isamap.match.mappings import exact
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.unify import Bindings, subscripts_to_agree
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, tells_apart

Row = tuple[Index, ...]
Clause = Literal["operand-elements", "operand-twice", "output-elements", "parameters"]


@dataclass(frozen=True, slots=True)
class Violation:
    """The condition that a mapping breaks first.

    `operand` is the instruction's operand whose elements do not correspond, "" for parameters. `is_certain`
    says that there is a counterexample, and not only no proof. `reads` are the subscripts of the one read of an
    input, or of the two, that it is about.
    """

    clause: Clause
    operand: str
    is_certain: bool
    reads: tuple[tuple[Index, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one operand, or on two reads of it.

    It requires that equal subscripts on the given side imply equal subscripts on the required side. `given` and
    `required` name the instruction's axes as `%i`, the kernel's as `m`.
    """

    clause: Clause
    operand: str
    sides: exact.Sides
    symbols: frozenset[str]
    reads: tuple[tuple[Index, ...], ...] = ()


def first_violation(
    pattern: Pattern, statement: Statement, mapping: Mapping, kernel: Kernel | None = None
) -> Violation | None:
    """Return the first condition that a mapping breaks, or None if it is valid.

    `kernel` has the facts about its sizes. Without it, every size is assumed to be at least 1.
    """
    space = space_of(pattern, statement, kernel)
    for condition in conditions(pattern, statement, mapping.bindings):
        verdict = judge(condition, mapping.groups, space)
        if verdict != "holds":
            return Violation(condition.clause, condition.operand, verdict == "fails", condition.reads)
    if not exact.can_be_met(pattern.instruction):
        return Violation("parameters", "", is_certain=True)
    return None


def conditions(pattern: Pattern, statement: Statement, bindings: Bindings) -> tuple[Condition, ...]:
    """Return the conditions of a pairing: on each input, on inputs that are read twice, and on the output."""
    highs = dict.fromkeys(exact.unit_axes(pattern), 0) | exact.largest_parameters(pattern.instruction)
    subscripts = [*pattern.target.index, *(i for b in bindings for i in b.pattern)]
    lanes = _own_names(pattern, frozenset(s for i in subscripts for s in i.symbols)) | highs

    def condition(clause: Clause, name: str, given: Sequence[Index], required: Sequence[Index]) -> Condition:
        used = frozenset(s for i in (*given, *required) for s in i.symbols)
        return Condition(clause, name, exact.Sides(tuple(given), tuple(dict.fromkeys(required))), used)

    found: list[Condition] = []
    for b in bindings:
        own = tuple(i.substitute(lanes) for i in b.pattern)
        own_reads = condition("operand-elements", b.name, own, tuple(indices(b.subject)))
        found.append(replace(own_reads, reads=(b.pattern,)))
    own = tuple(i.substitute(lanes) for i in pattern.target.index)
    theirs = statement.assign.target.index
    found.append(condition("operand-elements", pattern.target.buffer, own, theirs))
    found.append(condition("output-elements", pattern.target.buffer, theirs, own))
    return (*found, *_between_reads(bindings, lanes))


def _between_reads(bindings: Bindings, lanes: MappingType[str, Index | int]) -> Iterator[Condition]:
    """Yield the condition on every two reads of one operand: equal elements have equal values."""
    for one, other in combinations(bindings, 2):
        if one.name != other.name:
            continue
        pairs = subscripts_to_agree(one.subject, other.subject)
        if pairs is None:
            pairs = ((ZERO, Index.of(1)),)  # they may not meet
        mine, theirs = ([i.substitute(lanes) for i in b.pattern] for b in (one, other))
        required = tuple(dict.fromkeys(pairs))
        there = exact.Sides(tuple(theirs), tuple(w for _, w in required))
        used = frozenset(s for i in (*mine, *theirs, *(i for p in required for i in p)) for s in i.symbols)
        sides = exact.Sides(tuple(mine), tuple(w for w, _ in required), there)
        yield Condition("operand-twice", one.name, sides, used, (one.pattern, other.pattern))


def _own_names(pattern: Pattern, names: frozenset[str]) -> dict[str, Index | int]:
    """Return the instruction's names as `%i`, because the kernel may use equal names."""
    axes = frozenset(a.name for a in pattern.axes)
    return {s: Index.of(f"%{s}") for s in names | axes}


def space_of(pattern: Pattern, statement: Statement, kernel: Kernel | None = None) -> exact.IterationSpace:
    """Return the extents of all axes, and the kernel's facts about sizes."""
    highs = exact.largest_parameters(pattern.instruction)
    most = {a.name: a.extent.substitute(highs) for a in pattern.axes}
    lengths = tuple((f"%{a}", e.value) for a, e in most.items())
    left = tuple(
        (f"%{a}", e.substitute(_own_names(pattern, e.symbols))) for a, e in most.items() if e.value is None
    )
    extents = tuple((a.name, a.extent) for a in (*statement.axes, *statement.sequence))
    if kernel is None:
        return exact.IterationSpace(lengths, extents, open_lengths=left)
    known = _known_facts(kernel)
    bindings = tuple((s, Index.of(v)) for s, v in known.bindings.items())
    lows = tuple(sorted(known.facts.lows.items()))
    return exact.IterationSpace(lengths, extents, known.facts.nonnegative, lows, bindings, left)


@lru_cache(maxsize=64)
def _known_facts(kernel: Kernel) -> FreeSizes:
    return known_facts(kernel)


def judge(condition: Condition, groups: tuple[AxisGroup, ...], space: exact.IterationSpace) -> exact.Verdict:
    """Return the verdict on a condition for the groups of a mapping, or for some of them."""
    return verdict(condition.sides, _concerned_groups(condition, map(with_lanes, groups)), space)


def _concerned_groups(
    condition: Condition, apart: Iterable[tuple[AxisGroup, frozenset[str]]]
) -> tuple[AxisGroup, ...]:
    """Return the groups with an axis that occurs in the condition."""
    return tuple([group for group, names in apart if not condition.symbols.isdisjoint(names)])


@lru_cache(maxsize=4096)
def with_lanes(group: AxisGroup) -> tuple[AxisGroup, frozenset[str]]:
    """Return a group with lanes as `%i`, and all names in it."""
    lanes = tuple(f"%{a}" for a in group.instruction_axes)
    return AxisGroup(lanes, group.kernel_axes), frozenset((*lanes, *group.kernel_axes))


@lru_cache(maxsize=65536)
def verdict(sides: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace) -> exact.Verdict:
    """Return the verdict whether equal `given` subscripts imply equal `required` ones. Lanes are named `%i`."""
    if sides.other is not None:
        # Whether two reads of one operand agree wherever they access the same element.
        if _is_spanned_between(sides, sides.other, groups, space):
            return "holds"
        apart = exact.Sides(sides.given, (ZERO,), exact.Sides(sides.other.given, (Index.of(1),)))
        if sides != apart and exact.decide(apart, groups, space) == "holds":
            return "holds"
        return _judge_smaller(sides, groups, space) or exact.decide(sides, groups, space)
    moving = {a for g in groups for a in (*g.instruction_axes, *g.kernel_axes)}
    if not any(moving & i.symbols for i in sides.required) or _is_determined(sides, groups, space):
        return "holds"
    if _breaks_alone(sides, groups, space):
        return "fails"
    if _is_spanned(sides, groups, space):
        return "holds"
    return _judge_smaller(sides, groups, space) or exact.decide(sides, groups, space)


def _judge_smaller(
    sides: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace
) -> exact.Verdict | None:
    """Return the first verdict other than "holds" after one axis is removed, or None."""
    for smaller in _one_less(groups):
        found = verdict(sides, smaller, space)
        if found != "holds":
            return found
    return None


def _one_less(groups: tuple[AxisGroup, ...]) -> Iterator[tuple[AxisGroup, ...]]:
    """Yield the groups with one kernel axis removed."""
    for n, group in enumerate(groups):
        for x in group.kernel_axes:
            rest = tuple(k for k in group.kernel_axes if k != x)
            own = (AxisGroup(group.instruction_axes, rest),) if rest else ()
            yield (*groups[:n], *own, *groups[n + 1 :])


# --- what is seen at once ---------------------------------------------------------------------------------


def _is_determined(sides: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace) -> bool:
    """Return whether no two lanes, or no two iterations, have equal `given` subscripts."""
    used = frozenset(s for i in sides.given for s in i.symbols)
    by_lanes = any(a in used for g in groups for a in g.instruction_axes)
    axes = [a for g in groups for a in (g.instruction_axes if by_lanes else g.kernel_axes)]
    if not used.issuperset(axes):
        return False
    if by_lanes:
        lengths, open_lengths = dict(space.lengths), dict(space.open_lengths)
        extents = {a: open_lengths[a] if (n := lengths[a]) is None else Index.of(n) for a in axes}
        return tells_apart(sides.given, extents)
    return _tells_iterations_apart(sides.given, groups, space)


def _tells_iterations_apart(
    given: tuple[Index, ...], groups: tuple[AxisGroup, ...], space: exact.IterationSpace
) -> bool:
    """Return whether no two iterations of one issue have equal `given` subscripts."""
    full = dict(space.extents)
    lengths = dict(space.lengths)
    whole = {x: full[x] for g in groups for x in g.kernel_axes}
    inside = dict(whole)
    for group in groups:
        reach = _product(lengths[a] for a in group.instruction_axes)
        if len(group.kernel_axes) == 1 and reach is not None:
            (x,) = group.kernel_axes
            known = full[x].value
            inside[x] = Index.of(reach if known is None else min(known, reach))
    reaches = [whole] if inside == whole else [whole, inside]
    if any(tells_apart(given, extents, (), space.lows) for extents in reaches):
        return True
    if not space.facts and not space.bindings:
        return False
    bindings = dict(space.bindings)
    known = tuple(i.substitute(bindings) for i in given)
    bound = [{x: e.substitute(bindings) for x, e in extents.items()} for extents in reaches]
    return any(tells_apart(known, extents, space.facts, space.lows) for extents in bound)


def _product(lengths: Iterator[int | None]) -> int | None:
    total = 1
    for n in lengths:
        if n is None:
            return None
        total *= n
    return total


def _breaks_alone(sides: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace) -> bool:
    """Return whether a step of one group changes a `required` subscript and no `given` one."""
    lengths, extents = dict(space.lengths), dict(space.extents)
    used = frozenset(s for i in sides.given for s in i.symbols)
    for group in groups:
        if not used.isdisjoint(group.instruction_axes + group.kernel_axes):
            continue
        if all(lengths[a] == 1 for a in group.instruction_axes):
            continue
        for axis in (*group.instruction_axes, *group.kernel_axes):
            steps = [i.coefficient(axis) for i in sides.required if axis in i.symbols]
            moves = any(s is not None and s.value for s in steps)
            is_long = lengths[axis] != 1 if axis in lengths else extents[axis].value != 1
            if moves and is_long:
                return True
    return False


def _is_spanned(sides: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace) -> bool:
    """Return whether each step that keeps the `given` subscripts keeps the `required` ones.

    It holds only if each lane axis runs over one kernel axis, so that both take the same steps. The steps of
    the given side are numbers; those of the required side may be sizes.
    """
    if not all(len(g.instruction_axes) == len(g.kernel_axes) == 1 for g in groups):
        return False
    runs = dict(space.bindings) | {g.kernel_axes[0]: Index.of(g.instruction_axes[0]) for g in groups}
    axes = tuple(g.instruction_axes[0] for g in groups)
    given = _rows([i.substitute(runs) for i in sides.given], axes)
    required = _rows([i.substitute(runs) for i in sides.required], axes)
    if given is None or required is None or any(step.value is None for row in given for step in row):
        return False
    return _are_combinations(required, given, len(axes))


def _is_spanned_between(
    sides: exact.Sides, other: exact.Sides, groups: tuple[AxisGroup, ...], space: exact.IterationSpace
) -> bool:
    """Return whether `_is_spanned` holds for the differences between the subscripts of two reads.

    The second read has its own lanes, counted from the same iteration.
    """
    if not all(len(g.instruction_axes) == len(g.kernel_axes) == 1 for g in groups):
        return False
    axes = [(g.instruction_axes[0], g.kernel_axes[0]) for g in groups]
    still = dict(space.bindings) | dict.fromkeys((a for a, _ in space.lengths), ZERO)
    first = still | {j: Index.of(j) for j, _ in axes} | {x: Index.of(j) + Index.of(f"@{x}") for j, x in axes}
    there = {j: Index.of(f"{j}'") for j, _ in axes}
    second = still | there | {x: there[j] + Index.of(f"@{x}") for j, x in axes}
    names = tuple(n for j, x in axes for n in (j, f"{j}'", f"@{x}"))

    def rows(mine: tuple[Index, ...], theirs: tuple[Index, ...]) -> list[Row] | None:
        both = zip(mine, theirs, strict=True)
        differences = [a.substitute(first) - b.substitute(second) for a, b in both]
        steps = _rows(differences, names)
        return (
            None
            if steps is None
            else [
                (*row, difference.substitute(dict.fromkeys(names, 0)))
                for row, difference in zip(steps, differences, strict=True)
            ]
        )

    given, required = rows(sides.given, other.given), rows(sides.required, other.required)
    if given is None or required is None or any(s.value is None for row in given for s in row[:-1]):
        return False
    return _are_combinations(required, given, len(names))


def _are_combinations(required: list[Row], given: list[Row], columns: int) -> bool:
    """Return whether rows are linear combinations of the given rows. Given steps are numbers."""
    left, pivots = given, list[tuple[int, Row]]()
    for column in range(columns):
        pivot = next((r for r in left if r[column].terms), None)
        if pivot is not None:
            left = [_eliminate(r, column, pivot) for r in left if r is not pivot]
            pivots.append((column, pivot))
    for column, pivot in pivots:
        required = [_eliminate(r, column, pivot) for r in required]
    return not any(step.terms for row in required for step in row)


def _rows(subscripts: Sequence[Index], axes: tuple[str, ...]) -> list[Row] | None:
    """Return the steps of each subscript along the axes, or None if a subscript is not linear."""
    found: list[Row] = []
    for subscript in subscripts:
        steps = tuple(subscript.coefficient(a) for a in axes)
        if any(s is None or not s.symbols.isdisjoint(axes) for s in steps):
            return None
        found.append(tuple(s for s in steps if s is not None))
    return found


def _eliminate(row: Row, column: int, pivot: Row) -> Row:
    """Return a linear combination of two rows in which `column` is 0."""
    return tuple(a * pivot[column] - row[column] * b for a, b in zip(row, pivot, strict=True))
