"""Guards that keep iterations apart: two of them touch one element only where no guard lets both through.

`for i in N, j in N { A[i, j] = A[j, i] if i < j; }` writes A[i, j] where i < j, and reads it at i' = j,
j' = i where i' < j', that is j < i: never both. The proof assumes that two iterations meet, and finds what
they assume contradictory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isamap.ir.facts import Known
from isamap.ir.index import Index
from isamap.ir.nodes import Read
from isamap.ir.prove import Facts, is_nonnegative
from isamap.ir.sites import AxisAt, Site

_OTHER = "'"
# Of each assumption: contradictions that there are take few, and a refusal should not be long in coming.
_STEPS = 200


@dataclass
class _Assumed:
    """What holds where two iterations meet: `zero` and `nonnegative` terms, over sizes and `unknowns`."""

    unknowns: set[str]
    zero: list[Index] = field(default_factory=list[Index])
    nonnegative: list[Index] = field(default_factory=list[Index])


def never_meet(f: Read, g: Read, a: Site, b: Site, axis: str, equal: Iterable[str], known: Known) -> bool:
    """Whether iterations that differ in `axis` touch no element by f in a and by g in b, both let through.

    `equal` are axes of which both have the same value. Sound, not complete: False means "not proved".
    """
    if not a.guards and not b.guards:
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
        assumed = _Assumed(set(unknowns), list(zero), [*mine, *its, step])
        if not _is_contradictory(assumed, known.facts):
            return False
    return True


def _own(
    axes: Sequence[AxisAt], guards: Sequence[Index], renamed: Mapping[str, Index], known: Known
) -> list[Index]:
    """Terms that are >= 0 in an iteration that guards let through."""
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
    """Replaces unknowns that an equation gives; whether an equation cannot hold."""
    while True:
        found = next(
            (
                (e, name)
                for e in assumed.zero
                for name in sorted(e.symbols & assumed.unknowns)
                if _gives(e, name)
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


def _gives(equation: Index, name: str) -> bool:
    """Whether the equation is `name = …` without it on the right."""
    slope = equation.coefficient(name)
    if slope is None or slope.value not in (1, -1):
        return False
    return name not in (equation - Index.of(name) * slope).symbols
