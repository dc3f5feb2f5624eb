"""A value made of one element, cut into parts, each made of the one before, as no instruction makes it all.

sat_i8(round(f32(max(x, 0)) * s, even))    cut four below the top:
max(x, 0), then sat_i8(round(f32(that) * s, even))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from isamap.ir import Expr, Read
from isamap.ir.walk import parts_of, with_parts
from isamap.transform import reads

# Chains of so many instructions behind each other are looked for, one more than there are cuts.
MOST_CUTS = 2

Cut = tuple[int, ...]
"""How far below the top each part of a value begins, the innermost part first."""


def cuts(value: Expr, buffer: str) -> Iterator[Cut]:
    """The ways to cut a value made of an element of `buffer`: none first, then those with fewest parts."""
    below = [depth for depth, node in enumerate(_way_down(value, buffer)) if not isinstance(node, Read)]
    for size in range(MOST_CUTS + 1):
        for chosen in combinations(below[1:], size):
            yield tuple(reversed(chosen))


def parts_of_value(value: Expr, buffer: str, cut: Cut, between: Sequence[Read]) -> tuple[Expr, ...]:
    """The parts of a value in the order in which they are computed, each over what is `between`, where the
    part before has been put.
    """
    way, found = _way_down(value, buffer), list[Expr]()
    inner = None
    for depth, read in zip((*cut, 0), (*between, None), strict=True):
        part = way[depth]
        found.append(part if inner is None else _with(part, buffer, inner[0] - depth, inner[1]))
        inner = (depth, read) if read is not None else None
    return tuple(found)


def made_at(value: Expr, buffer: str, depth: int) -> Expr:
    """The part of a value that begins so far below the top."""
    return _way_down(value, buffer)[depth]


def _way_down(value: Expr, buffer: str) -> list[Expr]:
    """From the top to the element of a buffer, or to where it is read more than once."""
    within = [child for child in parts_of(value) if _is_made_of(child, buffer)]
    return [value, *(_way_down(within[0], buffer) if len(within) == 1 else ())]


def _with(value: Expr, buffer: str, depth: int, new: Read) -> Expr:
    """The value with what stands so far below the top, towards the buffer's element, as `new`."""
    if not depth:
        return new

    def put(child: Expr) -> Expr:
        return _with(child, buffer, depth - 1, new) if _is_made_of(child, buffer) else child

    assert parts_of(value), "nothing is below what has no parts"
    return with_parts(value, put)


def _is_made_of(value: Expr, buffer: str) -> bool:
    return any(read.buffer == buffer for read in reads(value))
