"""Answer questions about lanes and iterations with integer sets.

    a[2*k + p] with p in 2     { (k, p, k', p') : 2k + p = 2k' + p' and 0 <= p, p' < 2 and k != k' } is empty

Pairs of lanes of one issue: whether equal subscripts on one side mean equal subscripts on the other.

    a[p + r] for X[p + r]       no (p, r, p', r') with p + r = p' + r' for lanes, and not for iterations

An iteration is the start of its issue plus its lane, so the start drops out of the difference of two
iterations. For fused kernel axes this gives less: lanes are equal if and only if the axes are. If the extents
are numbers, every order of fusion is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, permutations, product
from typing import TYPE_CHECKING

from isamap.ir import Constraint, Index
from isamap.ir.prove import IslNames, is_empty, isl_context
from isamap.match.mappings.mapping import AxisGroup
from isamap.source.records import dataclass

if TYPE_CHECKING:
    pass


@lru_cache(maxsize=4096)
def covers_once(lengths: tuple[int, ...]) -> bool | None:
    """Return whether blocks of lanes of these lengths cover every point of any extent exactly once.

    The extent E is a parameter: { [block, lanes] -> [point] : 0 <= point < E } is one to one and onto.
    """
    import islpy

    context = isl_context()
    context.reset_operations()
    lanes = [f"a{n}" for n in range(len(lengths))]
    point = f"b*{_product(lengths)}"
    for n, lane in enumerate(lanes):
        point += f" + {_product(lengths[n + 1 :])}*{lane}"
    within = " and ".join(f"0 <= {a} < {n}" for a, n in zip(lanes, lengths, strict=True))
    relation = f"[E] -> {{ [{', '.join(('b', *lanes))}] -> [{point}] : b >= 0 and {within} and {point} < E }}"
    try:
        found = islpy.Map.read_from_str(context, relation)
        everything = islpy.Set.read_from_str(context, "[E] -> { [f] : 0 <= f < E }")
        return found.is_injective() and found.range().is_equal(everything)
    except islpy.Error:
        return None


@lru_cache(maxsize=4096)
def counts_once(extents: tuple[int, ...]) -> bool | None:
    """Return whether numbering the points of a box in the order of its axes is one to one, or None if unknown."""
    import islpy

    context = isl_context()
    context.reset_operations()
    axes = [f"x{n}" for n in range(len(extents))]
    number = " + ".join(f"{_product(extents[n + 1 :])}*{x}" for n, x in enumerate(axes))
    within = " and ".join(f"0 <= {x} < {n}" for x, n in zip(axes, extents, strict=True))
    try:
        found = islpy.Map.read_from_str(context, f"{{ [{', '.join(axes)}] -> [{number}] : {within} }}")
        everything = islpy.Set.read_from_str(context, f"{{ [f] : 0 <= f < {_product(extents)} }}")
        return found.is_injective() and found.range().is_equal(everything)
    except islpy.Error:
        return None


def divides(length: int, extent: Index, facts: Sequence[Constraint]) -> bool:
    """Return whether a length divides an extent, for all sizes that satisfy the facts."""
    if length == 1 or (extent.value is not None and extent.value % length == 0):
        return True
    names = IslNames()
    text = names.text(extent)
    if text is None or extent.value is not None:
        return False
    # The affine facts. Omitting the others only weakens the assumptions.
    found: list[str] = []
    for fact in facts:
        left, right = names.text(fact.left), names.text(fact.right)
        if left is not None and right is not None:
            comparison = "=" if fact.comparison == "==" else fact.comparison
            found.append(f"{left} {comparison} {right}")
    return is_empty(names, (f"({text}) mod {length} != 0", *found)) is True


def determines_axes(
    subscripts: Sequence[Index], extents: Mapping[str, Index], required: Iterable[str]
) -> bool | None:
    """Return whether equal subscripts imply equal `required` axes if all other symbols are equal.

    `extents` says how far axes run. A symbol in it is some size of at least 1. Terms without such axes are
    equal on both sides and drop out. A subscript that is not affine says nothing.
    """
    names, asked = IslNames(), list(required)
    used = [a for a in extents if any(a in i.symbols for i in subscripts)]
    if not set(asked) <= set(used):
        return False
    conditions = [f"{names.of(a)} != {names.of(prime_axis(a))}" for a in asked]
    pairs: dict[str, Index | int] = {a: Index.of(prime_axis(a)) for a in extents}
    for subscript in subscripts:
        text = names.text(terms_along(subscript, extents) - terms_along(subscript, extents).substitute(pairs))
        conditions += [f"{text} = 0"] if text is not None else []
    # The conditions that axes and their primed copies are in range.
    common: list[str | None] = []
    for axis in used:
        extent = names.text(extents[axis])
        if extent is None:
            extent = names.of(f"extent of {axis}")
        common += [f"0 <= {names.of(axis)} < {extent}", f"0 <= {names.of(prime_axis(axis))} < {extent}"]
    if any(c is None for c in common):
        return None
    verdicts = [
        is_empty(names, (question, *conditions[len(asked) :], *map(str, common)))
        for question in conditions[: len(asked)]
    ]
    return None if None in verdicts else all(verdicts)


def prime_axis(axis: str) -> str:
    """Return the name of the axis at the second of two points."""
    return f"{axis}'"


def terms_along(index: Index, axes: Iterable[str]) -> Index:
    """Return the terms that depend on some of the axes."""
    chosen = set(axes)
    return Index(tuple((m, c) for m, c in index.terms if any(Index.of(a).symbols & chosen for a in m)))


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total


MOST_ORDERS = 36


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two lanes of one issue: lengths of the instruction's axes, extents of the kernel's, groups of both."""

    groups: tuple[AxisGroup, ...]
    lengths: Mapping[str, int]
    extents: Mapping[str, Index]


def implies_equality(
    lanes: Sequence[Index], iterations: Sequence[Index], pairs: Pairs, *, from_lanes: bool
) -> bool | None:
    """Return whether equal `lanes` imply equal `iterations` (or the reverse), or None if it is unknown.

    `lanes` are subscripts over the instruction's axes, `iterations` over the kernel's.
    """
    prefixed = {i: Index.of(_lane(i)) for i in pairs.lengths}
    own = tuple(s.substitute(prefixed) for s in lanes)
    seen = {s for i in (*own, *iterations) for s in i.symbols}
    used = tuple(g for g in pairs.groups if seen & {*map(_lane, g.instruction_axes), *g.kernel_axes})
    if not any(len(g.kernel_axes) > 1 or len(g.instruction_axes) > 1 for g in used):
        return _holds(own, tuple(iterations), pairs, used, from_lanes, exact=True)
    if _holds(own, tuple(iterations), pairs, used, from_lanes, exact=False):
        return True
    if any(pairs.extents[k].value is None for g in used for k in g.kernel_axes):
        return None
    orders = list(islice(_orders(used), MOST_ORDERS + 1))
    if len(orders) > MOST_ORDERS:
        return None
    found = [_holds(own, tuple(iterations), pairs, order, from_lanes, exact=True) for order in orders]
    return None if None in found else all(found)


def _lane(axis: str) -> str:
    return f"%{axis}"


def _orders(groups: Sequence[AxisGroup]) -> Iterator[tuple[AxisGroup, ...]]:
    """Yield all orders in which axes of the groups may be fused and cut."""
    choices = [
        [
            AxisGroup(lanes, kernel)
            for lanes in permutations(g.instruction_axes)
            for kernel in permutations(g.kernel_axes)
        ]
        for g in groups
    ]
    yield from product(*choices)


def _holds(
    own: tuple[Index, ...],
    theirs: tuple[Index, ...],
    pairs: Pairs,
    groups: Sequence[AxisGroup],
    from_lanes: bool,
    *,
    exact: bool,
) -> bool | None:
    """Return whether the set of lane pairs that violate the condition, or a larger set, is empty."""
    names = IslNames()
    lanes = {_lane(i): Index.of(pairs.lengths[i]) for g in groups for i in g.instruction_axes}
    axes = {k: pairs.extents[k] for g in groups for k in g.kernel_axes}
    conditions = [c for a, e in (*lanes.items(), *axes.items()) for c in _range(names, a, e)]
    for group in groups:
        conditions += _link(names, group, pairs, exact=exact)
    given, required = (own, theirs) if from_lanes else (theirs, own)
    moved = {**lanes, **axes}
    for subscript in given:
        difference = names.text(_difference(subscript, moved))
        conditions += [f"{difference} = 0"] if difference is not None else []
    broken = [b for subscript in required for b in _differs(names, subscript, moved)]
    if not broken:
        return True
    return is_empty(names, (*conditions, " or ".join(broken)))


def _range(names: IslNames, axis: str, extent: Index) -> list[str]:
    """Return the conditions that an axis and its copy are in range. A non-affine extent is unbounded."""
    end = names.text(extent) or names.of(f"extent of {axis}")
    return [f"0 <= {names.of(a)} < {end}" for a in (axis, prime_axis(axis))]


def _link(names: IslNames, group: AxisGroup, pairs: Pairs, *, exact: bool) -> list[str]:
    """Return the relation between the lanes of a group and the iterations that they stand for."""
    lanes, axes = [_lane(i) for i in group.instruction_axes], group.kernel_axes
    if exact:
        number, lane = Index(), Index()
        for k in axes:
            number = number * pairs.extents[k] + Index.of(k) if number.terms else Index.of(k)
        for i in group.instruction_axes:
            lane = lane * pairs.lengths[i] + Index.of(_lane(i))
        start = number - lane
        text, other = names.text(start), names.text(start.substitute(_double_axes((*lanes, *axes))))
        assert text is not None, "a single axis, or extents that are numbers"
        assert other is not None, "as it is with the other names"
        return [f"{text} = {other}", f"{text} >= 0"]
    same = " and ".join(f"{names.of(a)} = {names.of(prime_axis(a))}" for a in (*lanes, *axes))
    apart = " or ".join(f"{names.of(a)} != {names.of(prime_axis(a))}" for a in lanes)
    elsewhere = " or ".join(f"{names.of(a)} != {names.of(prime_axis(a))}" for a in axes)
    return [f"({same}) or (({apart}) and ({elsewhere}))"]


def _double_axes(axes: Sequence[str]) -> dict[str, Index | int]:
    return {a: Index.of(prime_axis(a)) for a in axes}


def _difference(subscript: Index, axes: Mapping[str, Index]) -> Index:
    """Return the difference of a subscript between two iterations. Common terms cancel."""
    part = terms_along(subscript, axes)
    return part - part.substitute(_double_axes(tuple(axes)))


def _differs(names: IslNames, subscript: Index, axes: Mapping[str, Index]) -> list[str]:
    """Return conditions of which at least one holds wherever the subscript differs.

    Terms that are not affine, as `p*stride`, can only change where one of their axes does.
    """
    affine = Index(tuple(t for t in subscript.terms if IslNames().text(Index((t,))) is not None))
    loose = Index(tuple(t for t in subscript.terms if IslNames().text(Index((t,))) is None))
    found: list[str] = []
    difference = _difference(affine, axes)
    if difference.terms:
        found.append(f"{names.text(difference)} != 0")
    return found + [f"{names.of(a)} != {names.of(prime_axis(a))}" for a in axes if a in loose.symbols]
