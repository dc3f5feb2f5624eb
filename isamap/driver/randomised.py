"""A randomised check of a whole matrix product, too large for an oracle (Freivalds, 1977).

C = C0 + A·B is held against C·x = C0·x + A·(B·x) for random signs x: a wrong element goes unnoticed with
probability one half per vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Assign, Call, Cast, Expr, Kernel, Loop, Read
from isamap.source.records import dataclass

Array = NDArray[Any]

VECTORS = 16


@dataclass(frozen=True, slots=True)
class Contraction:
    """`target += left * right` with one axis per subscript; `axis` is one that only the right factor has."""

    target: Read
    left: Read
    right: Read
    axis: str


def contraction_of(kernel: Kernel) -> Contraction | None:
    """Return the kernel as one product of two arrays, None when it is anything else."""
    if len(kernel.body) != 1 or not isinstance(loop := kernel.body[0], Loop) or len(loop.body) != 1:
        return None
    match loop.body[0]:
        case Assign(target, "add", value, None):
            factors = _factors(value)
        case _:
            return None
    if factors is None or not all(_is_plain(r) for r in (target, *factors)):
        return None
    left, right = factors
    for first, second in ((left, right), (right, left)):
        own = [a for a in _axes(second) if a in _axes(target) and a not in _axes(first)]
        if own:
            return Contraction(target, first, second, own[-1])
    return None


def wrong_vectors(
    c: Contraction, arrays: Mapping[str, Array], result: Array, unit: float
) -> tuple[int, float, float]:
    """In how many of the vectors the result is off by more than allowed; the largest error, and its bound.

    Units: `unit` is the relative error of one element that is allowed, 0 for exact integers.
    """
    axes = sorted({*_axes(c.target), *_axes(c.left), *_axes(c.right)})
    letters = {axis: chr(ord("a") + i) for i, axis in enumerate(axes)}
    left, right = (arrays[r.buffer].astype(np.float64) for r in (c.left, c.right))
    old, found = arrays[c.target.buffer].astype(np.float64), result.astype(np.float64)
    extent = right.shape[_axes(c.right).index(c.axis)]
    signs = np.random.default_rng(7).choice([-1.0, 1.0], size=(VECTORS, extent))

    def spelled(axes: list[str], *, without: bool = False) -> str:
        return "".join(letters[a] for a in axes if not (without and a == c.axis))

    out, one, two = (_axes(r) for r in (c.target, c.left, c.right))
    x = f"z{letters[c.axis]}"
    summed = f"{spelled(out)},{x}->z{spelled(out, without=True)}"
    inner = f"{spelled(two)},{x}->z{spelled(two, without=True)}"
    outer = f"{spelled(one)},z{spelled(two, without=True)}->z{spelled(out, without=True)}"

    def both(a: Array, b: Array, start: Array, vectors: Array) -> Array:
        projected = np.einsum(inner, b, vectors, optimize=True)
        total = np.einsum(outer, a, projected, optimize=True)
        return total + np.einsum(summed, start, vectors, optimize=True)

    errors = np.abs(np.einsum(summed, found, signs, optimize=True) - both(left, right, old, signs))
    size = both(np.abs(left), np.abs(right), np.abs(old), np.abs(signs[:1]))
    bound = (unit + 2.0**-48) * size
    bad = np.any((errors > bound).reshape(VECTORS, -1), axis=1)
    return int(bad.sum()), float(errors.max()), float(bound.max())


def _factors(e: Expr) -> tuple[Read, Read] | None:
    def bare(e: Expr) -> Expr:
        return bare(e.value) if isinstance(e, Cast) else e

    match bare(e):
        case Call("mul", (a, b)):
            pair = bare(a), bare(b)
            if isinstance(pair[0], Read) and isinstance(pair[1], Read):
                return pair[0], pair[1]
        case _:
            pass
    return None


def _is_plain(read: Read) -> bool:
    names = [str(i) for i in read.index]
    return (
        read.fill is None
        and all(i.symbols == frozenset((n,)) for i, n in zip(read.index, names, strict=True))
        and len({*names}) == len(names)
    )


def _axes(read: Read) -> list[str]:
    return [str(i) for i in read.index]
