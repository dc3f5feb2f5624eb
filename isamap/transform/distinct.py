"""Whether different iterations touch different elements, told by reading subscripts like digits.

In `Y[8*i + j]` with j < 8 equal elements mean equal i, and then equal j. In `Y[i + j]` they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from isamap.ir import Index
from isamap.ir.prove import Facts, is_nonnegative

Extents = tuple[tuple[str, Index], ...]


def tells_apart(
    subscripts: tuple[Index, ...],
    extents: Mapping[str, Index],
    facts: tuple[Index, ...] = (),
    lows: tuple[tuple[str, int], ...] = (),
) -> bool:
    """Whether elements determine all axes in `extents`, whatever else the subscripts depend on stays fixed.

    Sizes are taken to be at least 1, or what `lows` says; `facts` are terms that are never negative. Sound,
    not complete: False means that it is not known.
    """
    return _tells_apart(subscripts, tuple(sorted(extents.items())), facts, lows)


@lru_cache(maxsize=65536)
def _tells_apart(
    subscripts: tuple[Index, ...],
    extents: Extents,
    known: tuple[Index, ...],
    lows: tuple[tuple[str, int], ...],
) -> bool:
    unknown = {a: e for a, e in extents if e.value != 1}
    facts = Facts(lows={s: 1 for e in unknown.values() for s in e.symbols} | dict(lows))
    facts = facts.with_facts((*known, *(e - 1 for e in unknown.values() if e.value is None)))
    before = -1
    while unknown and before != len(unknown):
        before = len(unknown)
        for subscript in subscripts:
            for axis in _digits(subscript, unknown, facts):
                del unknown[axis]
    return not unknown


def _digits(subscript: Index, unknown: Mapping[str, Index], facts: Facts) -> list[str]:
    """Axes that the value of a subscript determines, from the largest step down."""
    steps: dict[str, Index] = {}
    for axis in unknown:
        if axis in subscript.symbols:
            step = subscript.coefficient(axis)
            if step is None or step.symbols & unknown.keys():
                return []
            steps[axis] = _magnitude(step, facts)
    found: list[str] = []
    while leading := next((a for a in steps if _outweighs(a, steps, unknown, facts)), None):
        del steps[leading]
        found.append(leading)
    return found


def _magnitude(step: Index, facts: Facts) -> Index:
    lows = Facts(lows=dict.fromkeys(step.symbols, 1) | facts.lows)
    return step if is_nonnegative(step, lows) else -step


def _outweighs(axis: str, steps: Mapping[str, Index], extents: Mapping[str, Index], facts: Facts) -> bool:
    """Whether one step of an axis is more than all other axes together can make up for."""
    gap = steps[axis] - 1
    for other, step in steps.items():
        if other != axis:
            gap = gap - step * (extents[other] - 1)
    lows = Facts(lows=dict.fromkeys(gap.symbols, 1) | facts.lows, nonnegative=facts.nonnegative)
    return is_nonnegative(gap, lows)
