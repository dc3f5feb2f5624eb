"""Elements that wrap around: where lanes lie relative to each other depends on where the loops have come to.

    X[(@n.w + %0) / 28, (@n.w + %0) % 28]

is one run of elements where `@n.w` is a multiple of 28, and two runs elsewhere, unless the rows of X lie one
behind the other, so that the address is `@n.w + %0` again. No load has an address for
that: only lanes whose distance is a multiple of 28 keep their distance in memory, so that each other lane
takes a move of its own. Where that comes to too many moves the search for them is spared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

from isamap.ir import Expr, Index
from isamap.ir.index import ZERO, Atom, FloorDiv, MinMax, Mod
from isamap.match.address import Strides, address_of
from isamap.transform import reads

LEAST_RUN = 4  # elements in a row: interleaving shorter runs takes as many moves as single elements
MAX_LANES = 4096


def wraps(expr: Expr, shape: tuple[int, ...], strides: Strides) -> bool:
    """Whether more moves than are worth it would fill a register of this shape, wherever the loops are."""
    lanes = prod(shape)
    if not 1 < lanes <= MAX_LANES:
        return False
    return any(
        _residues(atom.value, atom.divisor.value, shape) > max(1, lanes // LEAST_RUN)
        for read in reads(expr)
        if any(isinstance(a, FloorDiv | Mod) for i in read.index for m, _ in i.terms for a in m)
        for atom in _divisions(address_of(read, strides) or ZERO)
    )


def _divisions(index: Index) -> Iterator[FloorDiv | Mod]:
    """All quotients and remainders in an index, those inside others too."""
    for monomial, _ in index.terms:
        for atom in monomial:
            yield from _inside(atom)


def _inside(atom: Atom) -> Iterator[FloorDiv | Mod]:
    match atom:
        case str():
            pass
        case FloorDiv(value, divisor) | Mod(value, divisor):
            yield atom
            yield from _divisions(value)
            yield from _divisions(divisor)
        case MinMax(_, left, right):
            yield from _divisions(left)
            yield from _divisions(right)


@lru_cache(maxsize=1 << 14)
def _residues(value: Index, divisor: int | None, shape: tuple[int, ...]) -> int:
    """How many different remainders lanes leave when what is divided starts anywhere; 1 if it stands."""
    if divisor is None or not any(_is_lane(s) for s in value.symbols) or all(map(_is_lane, value.symbols)):
        return 1
    moved = Index(tuple(t for t in value.terms if any(map(_is_lane, Index((t,)).symbols))))
    if not all(map(_is_lane, moved.symbols)):
        return 1  # how far a step goes is not known
    names = [f"%{i}" for i in range(len(shape))]
    if not moved.symbols <= set(names):
        return 1
    places = product(*(range(size) for size in shape))
    return len({moved.evaluate(dict(zip(names, place, strict=True))) % divisor for place in places})


def _is_lane(symbol: str) -> bool:
    return symbol.startswith("%")
