"""Decide whether two accesses of one buffer can access the same element in different iterations.

Equal elements may imply equal values of every axis of the `for` loops around both accesses. The proof reads
subscripts like digits: in `32*i + j` with j < 32, equal values imply equal i, and then equal j. If that
does not settle the question, guards may. Small fixed extents are enumerated.

Guards separate iterations if no pair of iterations passes both guards and accesses one element. `for i in N,
j in N { A[i, j] = A[j, i] if i < j; }` writes A[i, j] where i < j, and reads it at i' = j, j' = i where i'
< j', that is j < i. The proof assumes that two iterations access one element, and derives a contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isamap.ir.facts import AxisAt, FreeSizes, Site
from isamap.ir.index import Atom, FloorDiv, Index, Mod
from isamap.ir.nodes import Read
from isamap.ir.prove import Facts, is_impossible, is_nonnegative, smallest_value
from isamap.ir.small_sizes import GuardedAccess, listed_apart
from isamap.source.records import dataclass, field, replace

_OTHER = "'"
# Of each assumption: contradictions that there are take few, and a refusal should not be long in coming.
_STEPS = 200


@dataclass
class _Assumed:
    """The equations and inequalities assumed of two iterations that access one element.

    `zero` and `nonnegative` are terms over sizes and `unknowns`.
    """

    unknowns: set[str]
    zero: list[Index] = field(default_factory=list[Index])
    nonnegative: list[Index] = field(default_factory=list[Index])


def never_meet(f: Read, g: Read, a: Site, b: Site, axis: str, equal: Iterable[str], known: FreeSizes) -> bool:
    """Return whether iterations that differ in `axis` access no common element by f in a and by g in b.

    Both iterations pass their guards. `equal` are axes with equal values in both. Sound, not complete: False
    means "not proved".
    """
    terms = (*f.index, *g.index, *a.guards, *b.guards)
    # Remainders tell iterations apart that no inequality does: i and i + 1 by 2.
    by_sets = any(not isinstance(atom, str) for e in terms for m, _ in e.terms for atom in m)
    if not (by_sets or a.guards or b.guards):
        return False
    same = set(equal)
    renamed = {x.name: Index.of(x.name + _OTHER) for x in b.axes if x.name not in same}
    mine = _own(a.axes, a.guards, {}, known)
    its = _own(b.axes, b.guards, renamed, known)
    zero = [
        i.substitute(known.bindings) - j.substitute(known.bindings).substitute(renamed)
        for i, j in zip(f.index, g.index, strict=True)
    ]
    apart = Index.of(axis) - renamed[axis]
    unknowns = {x.name for x in a.axes} | {x.name + _OTHER for x in b.axes if x.name not in same}
    for step in (apart - 1, -apart - 1):
        meeting = (*mine, *its, step)
        equal_elements = [term for e in zero for term in (e, -e)]
        within = replace(known.facts, lows={**known.facts.lows, **dict.fromkeys(unknowns, 0)})
        if by_sets and is_impossible((*meeting, *equal_elements), within):
            continue  # at once, where the search for a contradiction takes long
        assumed = _Assumed(set(unknowns), list(zero), list(meeting))
        if (a.guards or b.guards) and _is_contradictory(assumed, known.facts):
            continue
        if by_sets or not is_impossible((*meeting, *equal_elements), within):
            return False
    return True


def _own(
    axes: Sequence[AxisAt], guards: Sequence[Index], renamed: Mapping[str, Index], known: FreeSizes
) -> list[Index]:
    """Return terms that are >= 0 in every iteration that satisfies the guards."""
    extents = [(x.name, x.extent.substitute(known.bindings)) for x in axes]
    at = [(Index.of(name).substitute(renamed), extent) for name, extent in extents]
    inside = [term for value, extent in at for term in (value, extent - 1 - value)]
    return [*inside, *(g.substitute(known.bindings).substitute(renamed) for g in guards)]


def _is_contradictory(assumed: _Assumed, facts: Facts) -> bool:
    if _solve(assumed):
        return True
    both = [term for e in assumed.zero for term in (e, -e)]
    terms = tuple(dict.fromkeys([*assumed.nonnegative, *both]))
    held = Facts(
        lows={**facts.lows, **dict.fromkeys(assumed.unknowns, 0)},
        nonnegative=(*facts.nonnegative, *(t for t in terms if t.value is None)),
    )
    return any(is_nonnegative(-term - 1, held, _STEPS) for term in terms)


def _solve(assumed: _Assumed) -> bool:
    """Substitute the unknowns that equations determine. Return whether an equation has no solution."""
    while True:
        found = next(
            (
                (e, name)
                for e in assumed.zero
                for name in sorted(e.symbols & assumed.unknowns)
                if _determines(e, name)
            ),
            None,
        )
        if found is None:
            return any(e.value not in (None, 0) for e in assumed.zero)
        equation, name = found
        slope = equation.coefficient(name)
        assert slope is not None
        value = Index.of(name) - equation * (slope.value or 0)
        assumed.unknowns.discard(name)
        assumed.zero = [e.substitute({name: value}) for e in assumed.zero if e is not equation]
        assumed.nonnegative = [e.substitute({name: value}) for e in assumed.nonnegative]


def _determines(equation: Index, name: str) -> bool:
    """Return whether the equation determines a name as an expression of other names."""
    slope = equation.coefficient(name)
    if slope is None or slope.value not in (1, -1):
        return False
    return name not in (equation - Index.of(name) * slope).symbols


@dataclass
class _Digits:
    """The difference of two subscripts as a sum of unknowns. Used while one pair is examined.

    `shared` maps an unknown that must be 0 (or may remain) to its coefficient and largest magnitude.
    """

    shared: dict[Atom, tuple[Index, Index | None]] = field(
        default_factory=dict[Atom, tuple[Index, Index | None]]
    )
    loose: list[Index] = field(default_factory=list[Index])
    constant: Index = field(default_factory=Index)


def shared_axes(
    f: Read,
    g: Read,
    a: Site,
    b: Site,
    common: tuple[AxisAt, ...],
    known: FreeSizes,
    *,
    by_guards: bool = False,
) -> tuple[str, ...]:
    """Return the unordered axes of which two different iterations may access one element.

    With `by_guards`, guards count: an iteration that a guard excludes reads nothing. It may write the old
    value back, so two writes have to be separate without guards.
    """
    unordered = [x.name for x in common if not x.ordered]
    if not by_guards:
        a, b = replace(a, guards=(), conditions=()), replace(b, guards=(), conditions=())
    found: list[str] = []
    for axis in common:
        if axis.ordered:
            continue
        outer = {x.name for x in common if x.ordered and x.loop < axis.loop}
        solved = equal_axes(f, g, a, b, common, outer, known, until=axis.name)
        if solved is None or axis.name in solved:
            continue
        if never_meet(f, g, a, b, axis.name, outer, known):
            continue
        if not found and listed_apart(GuardedAccess(f, a), GuardedAccess(g, b), unordered):
            return ()
        found.append(axis.name)
    return tuple(found)


def equal_axes(
    f: Read,
    g: Read,
    a: Site,
    b: Site,
    common: tuple[AxisAt, ...],
    equal: set[str],
    known: FreeSizes,
    *,
    until: str | None = None,
) -> frozenset[str] | None:
    """Return the axes of which f in a and g in b have equal values whenever they access one element.

    Return None if they never do. `equal` are axes that are assumed to be equal. Axes that are not `common`
    belong to one access each, even if their names are equal. The search ends when `until` is found.
    """
    facts = known.facts
    extents_a = {x.name: x.extent.substitute(known.bindings) for x in a.axes}
    extents_b = {x.name: x.extent.substitute(known.bindings) for x in b.axes}
    names = {x.name for x in common}
    pairs = [
        (i.substitute(known.bindings), j.substitute(known.bindings))
        for i, j in zip(f.index, g.index, strict=True)
    ]
    solved: set[Atom] = set(equal)
    changed = True
    while changed and (until is None or until not in solved):
        changed = False
        for left, right in list(pairs):
            digits = _digits(left, right, names, extents_a, extents_b, solved, facts)
            if digits is None:
                continue
            if _never_zero(digits, facts):
                return None
            for unknown in [u for u in digits.shared if u not in solved]:
                if _is_leading(unknown, digits, facts):
                    solved.add(unknown)
                    changed = True
                    digits.shared.pop(unknown)
        changed = _join_divisions(solved, pairs) or changed
        changed = _without_remainders(solved, pairs, names, extents_a, extents_b, facts) or changed
    return frozenset(s for s in solved if isinstance(s, str))


def _digits(
    left: Index,
    right: Index,
    common: set[str],
    extents_a: dict[str, Index],
    extents_b: dict[str, Index],
    solved: set[Atom],
    facts: Facts,
) -> _Digits | None:
    """Return left - right over differences of common unknowns, or None if it is not linear in the axes."""
    digits = _Digits()
    mine, mine_rest = _linear(left, extents_a)
    its, its_rest = _linear(right, extents_b)
    if mine is None or its is None:
        return None
    digits.constant = mine_rest - its_rest
    for atom in {**mine, **its}:
        c, d = mine.get(atom, Index()), its.get(atom, Index())
        span = _span(atom, extents_a if atom in mine else extents_b, facts)
        names = Index.of(atom).symbols & (extents_a.keys() | extents_b.keys())
        if c == d and (names <= common or _same_private(names, extents_a, extents_b)):
            if atom not in solved:
                digits.shared[atom] = (c, span)
            continue
        for slope, extents in ((c, extents_a), (d, extents_b)):
            if slope.terms:
                reach = _span(atom, extents, facts)
                if reach is None:
                    return None
                magnitude = _magnitude(slope, facts)
                if magnitude is None:
                    return None
                digits.loose.append(magnitude * reach)
    return digits


def _same_private(names: frozenset[str] | set[str], a: dict[str, Index], b: dict[str, Index]) -> bool:
    return all(n in a and n in b and a[n] == b[n] for n in names)


def _linear(index: Index, extents: dict[str, Index]) -> tuple[dict[Atom, Index] | None, Index]:
    """Return the coefficients of axes and of divisions of axes, and the remaining terms."""
    slopes: dict[Atom, Index] = {}
    rest = Index()
    for m, c in index.terms:
        moving = [x for x in m if (x in extents if isinstance(x, str) else _moves(x, extents))]
        if len(moving) > 1 or any(not isinstance(x, (str, FloorDiv, Mod)) for x in moving):
            return None, rest
        fixed = list(m)
        for x in moving:
            fixed.remove(x)
        term = Index(((tuple(fixed), c),))
        if moving:
            slopes[moving[0]] = slopes.get(moving[0], Index()) + term
        else:
            rest = rest + term
    return slopes, rest


def _moves(atom: Atom, extents: dict[str, Index]) -> bool:
    return bool(Index.of(atom).symbols & extents.keys())


def _span(atom: Atom, extents: dict[str, Index], facts: Facts) -> Index | None:
    """Return the largest difference of two values of an unknown, or None if it is unbounded."""
    match atom:
        case str():
            return extents[atom] - 1 if atom in extents else None
        case Mod(_, divisor):
            return divisor - 1
        case FloorDiv(value, divisor):
            within = replace(facts, extents=extents)
            least, most = smallest_value(value, within), smallest_value(-value, within)
            if least is None or most is None:
                return None
            return (-most).floordiv(divisor) - least.floordiv(divisor)
        case _:
            return None


def _magnitude(c: Index, facts: Facts) -> Index | None:
    if is_nonnegative(c, facts):
        return c
    return -c if is_nonnegative(-c, facts) else None


def _is_leading(unknown: Atom, digits: _Digits, facts: Facts) -> bool:
    """Return whether an unknown outweighs all others, so that it must be 0 if the sum is 0."""
    slope = _magnitude(digits.shared[unknown][0], facts)
    others = _reach({u: v for u, v in digits.shared.items() if u != unknown}, digits, facts)
    constant = _magnitude(digits.constant, facts)
    if slope is None or others is None or constant is None:
        return False
    return is_nonnegative(slope - 1 - others - constant, facts)


def _never_zero(digits: _Digits, facts: Facts) -> bool:
    reach = _reach(digits.shared, digits, facts)
    constant = _magnitude(digits.constant, facts)
    if reach is None or constant is None:
        return False
    return is_nonnegative(constant - 1 - reach, facts)


def _reach(shared: dict[Atom, tuple[Index, Index | None]], digits: _Digits, facts: Facts) -> Index | None:
    total = Index()
    for slope, span in shared.values():
        magnitude = _magnitude(slope, facts)
        if span is None or magnitude is None:
            return None
        total = total + magnitude * span
    for loose in digits.loose:
        total = total + loose
    return total


def _join_divisions(solved: set[Atom], pairs: list[tuple[Index, Index]]) -> bool:
    """Add the pair x = x if x / d and x % d are equal in both accesses. Return whether one was added."""
    for atom in list(solved):
        if not isinstance(atom, FloorDiv) or Mod(atom.value, atom.divisor) not in solved:
            continue
        if (atom.value, atom.value) not in pairs:
            pairs.append((atom.value, atom.value))
            return True
    return False


def _without_remainders(
    solved: set[Atom],
    pairs: list[tuple[Index, Index]],
    common: set[str],
    extents_a: dict[str, Index],
    extents_b: dict[str, Index],
    facts: Facts,
) -> bool:
    """Add the pair x = x if x % d is equal and x differs by less than d. Return whether one was added."""
    for atom in list(solved):
        if not isinstance(atom, Mod) or (atom.value, atom.value) in pairs:
            continue
        digits = _digits(atom.value, atom.value, common, extents_a, extents_b, solved, facts)
        reach = _reach(digits.shared, digits, facts) if digits is not None else None
        if reach is not None and is_nonnegative(atom.divisor - 1 - reach, facts):
            pairs.append((atom.value, atom.value))
            return True
    return False
