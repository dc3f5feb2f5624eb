"""Iterations of a `for` are independent: no two of them touch one element, a declared reduction apart.

For two accesses of one buffer the question is whether equal elements imply equal values of every axis of
the `for` loops around both. It is answered like reading digits: in `32*i + j` with j < 32, equal values mean
equal i, and then equal j. Where that does not settle it guards may, and small fixed extents are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from isamap.ir.facts import Known
from isamap.ir.guarded import never_meet
from isamap.ir.index import Atom, FloorDiv, Index, Mod
from isamap.ir.nodes import Read, Routine
from isamap.ir.prove import Facts, is_nonnegative
from isamap.ir.samples import evaluate_on, grid
from isamap.ir.sites import AxisAt, Site, find_sites
from isamap.source import Diagnostic

_POINTS = 200_000


def check_dependences(routine: Routine, known: Known) -> Iterator[Diagnostic]:
    """A finding for every pair of accesses that iterations of a `for` may have in common."""
    sites = find_sites(routine)
    for later in sites:
        for earlier in sites[: later.position + 1]:
            finding = _check_pair(earlier, later, known)
            if finding is not None:
                yield finding


def _check_pair(earlier: Site, later: Site, known: Known) -> Diagnostic | None:
    common = _common_axes(earlier, later)
    if not any(not a.ordered for a in common):
        return None
    mine, its = earlier.assign, later.assign
    same_target = mine.target.buffer == its.target.buffer
    if same_target and (mine.op is None or mine.op != its.op):
        axis = _shared_by(mine.target, its.target, earlier, later, common, known)
        if axis is not None:
            return _written_twice(earlier, later, axis)
    for read in later.reads:
        if read.buffer == mine.target.buffer:
            axis = _shared_by(mine.target, read, earlier, later, common, known, by_guards=True)
            if axis is not None:
                return _carried(mine.target, read, later, axis)
    if earlier is later:
        return None
    for read in earlier.reads:
        if read.buffer == its.target.buffer:
            axis = _shared_by(read, its.target, earlier, later, common, known, by_guards=True)
            if axis is not None:
                return _carried(its.target, read, earlier, axis)
    return None


def _common_axes(a: Site, b: Site) -> tuple[AxisAt, ...]:
    common: list[AxisAt] = []
    for x, y in zip(a.axes, b.axes, strict=False):
        if x != y:
            break
        common.append(x)
    return tuple(common)


def _written_twice(earlier: Site, later: Site, axis: str) -> Diagnostic:
    target = later.assign.target
    if earlier is later:
        return Diagnostic(
            "duplicate-write",
            f"iterations that differ in `{axis}` assign the same element of `{target.buffer}`",
            target.span,
            notes=("`for` is unordered: which value stays is not defined",),
            help=f"subscript `{target.buffer}` by `{axis}`, reduce with `+=`, or order the loop with `seq`",
        )
    return Diagnostic(
        "duplicate-write",
        f"another statement assigns elements of `{target.buffer}` in other iterations of `{axis}`",
        target.span,
        notes=(f"the other statement is on line {earlier.assign.span.line}",) if earlier.assign.span else (),
        help="put the two statements into loops of their own, or order the loop with `seq`",
    )


def _carried(target: Read, read: Read, site: Site, axis: str) -> Diagnostic:
    return Diagnostic(
        "loop-carried",
        f"`{target.buffer}` is written in one iteration of `{axis}` and read in another",
        read.span or site.assign.span,
        notes=("`for` is unordered: an iteration cannot use what another one computed",),
        help=f"split the loop, order it with `seq {axis} in …`, or write a reduction such as `+=`",
    )


# --- equal elements, equal iterations ---------------------------------------------------------------------


@dataclass
class _Digits:
    """The difference of two subscripts as a sum of unknowns; used while one pair is examined.

    `shared` maps an unknown that must turn out 0 (or may stay) to its coefficient and largest magnitude.
    """

    shared: dict[Atom, tuple[Index, Index | None]] = field(
        default_factory=dict[Atom, tuple[Index, Index | None]]
    )
    loose: list[Index] = field(default_factory=list[Index])
    constant: Index = field(default_factory=Index)


def _shared_by(
    f: Read, g: Read, a: Site, b: Site, common: tuple[AxisAt, ...], known: Known, *, by_guards: bool = False
) -> str | None:
    """An unordered axis of which two different iterations may touch one element, or None.

    Guards count where asked: an iteration that a guard keeps out reads nothing, but may write back what is
    there, so that two writes have to be apart without guards.
    """
    unordered = [x.name for x in common if not x.ordered]
    if not by_guards:
        a, b = replace(a, guards=()), replace(b, guards=())
    for axis in common:
        if axis.ordered:
            continue
        outer = {x.name for x in common if x.ordered and x.loop < axis.loop}
        if _determines(axis.name, f, g, a, b, common, outer, known):
            continue
        if never_meet(f, g, a, b, axis.name, outer, known):
            continue
        return None if _enumerated_apart(f, g, a, b, unordered) else axis.name
    return None


def _determines(
    axis: str,
    f: Read,
    g: Read,
    a: Site,
    b: Site,
    common: tuple[AxisAt, ...],
    equal: set[str],
    known: Known,
) -> bool:
    """Whether equal elements of f and g imply equal `axis` (or cannot be equal at all)."""
    solved = equal_axes(f, g, a, b, common, equal, known, until=axis)
    return solved is None or axis in solved


def equal_axes(
    f: Read,
    g: Read,
    a: Site,
    b: Site,
    common: tuple[AxisAt, ...],
    equal: set[str],
    known: Known,
    *,
    until: str | None = None,
) -> frozenset[str] | None:
    """The axes of which f in a and g in b have equal values wherever they touch one element.

    None when they never touch one. `equal` are axes that are taken to be equal; axes that are not `common`
    are of one site each, whatever they are called. The search ends when `until` is found.
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
    """left - right with common unknowns as differences; None when it is not linear in the axes."""
    digits = _Digits()
    mine, mine_rest = _linear(left, extents_a)
    its, its_rest = _linear(right, extents_b)
    if mine is None or its is None:
        return None
    digits.constant = mine_rest - its_rest
    for atom in {**mine, **its}:
        c, d = mine.get(atom, Index()), its.get(atom, Index())
        span = _span(atom, extents_a if atom in mine else extents_b)
        names = Index.of(atom).symbols & (extents_a.keys() | extents_b.keys())
        if c == d and (names <= common or _same_private(names, extents_a, extents_b)):
            if atom not in solved:
                digits.shared[atom] = (c, span)
            continue
        for slope, extents in ((c, extents_a), (d, extents_b)):
            if slope.terms:
                reach = _span(atom, extents)
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
    """Coefficients of axes and of divisions of axes, and what is left."""
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


def _span(atom: Atom, extents: dict[str, Index]) -> Index | None:
    """The largest difference of two values of an unknown, None where it is not known."""
    match atom:
        case str():
            return extents[atom] - 1 if atom in extents else None
        case Mod(_, divisor):
            return divisor - 1
        case _:
            return None


def _magnitude(c: Index, facts: Facts) -> Index | None:
    if is_nonnegative(c, facts):
        return c
    return -c if is_nonnegative(-c, facts) else None


def _is_leading(unknown: Atom, digits: _Digits, facts: Facts) -> bool:
    """Whether one step of this unknown outweighs everything else, so that the sum is 0 only if it is."""
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
    """When x / d and x % d are both equal, so is x: one more equation."""
    for atom in list(solved):
        if not isinstance(atom, FloorDiv) or Mod(atom.value, atom.divisor) not in solved:
            continue
        if (atom.value, atom.value) not in pairs:
            pairs.append((atom.value, atom.value))
            return True
    return False


def _enumerated_apart(f: Read, g: Read, a: Site, b: Site, unordered: list[str]) -> bool:
    """Whether, all extents being small numbers, listing all elements shows that no two iterations meet."""
    if any(x.ordered for x in (*a.axes, *b.axes)):
        return False
    if any(x.extent.value is None for x in (*a.axes, *b.axes)):
        return False
    indices = (*f.index, *g.index, *a.guards, *b.guards)
    if any(s not in a.extents and s not in b.extents for i in indices for s in i.symbols):
        return False
    mine, its = _touched(a, f, unordered), _touched(b, g, unordered)
    if mine is None or its is None:
        return False
    return all(len(mine[e] | its[e]) == 1 for e in mine.keys() & its.keys())


def _touched(
    site: Site, access: Read, unordered: list[str]
) -> dict[tuple[int, ...], set[tuple[int, ...]]] | None:
    """The iterations that touch each element where guards let them; None when there are too many."""
    points = grid(site.extents, {}, _POINTS)
    if points is None:
        return None
    count = len(next(iter(points.values())))
    runs = [
        all(at) for at in zip(*(evaluate_on(g, {}, points, count) >= 0 for g in site.guards), strict=True)
    ]
    elements = [evaluate_on(i, {}, points, count).tolist() for i in access.index]
    iterations = [points[name].tolist() for name in unordered]
    found: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for n, iteration in enumerate(zip(*iterations, strict=True)):
        if not runs or runs[n]:
            found.setdefault(tuple(values[n] for values in elements), set()).add(iteration)
    return found
