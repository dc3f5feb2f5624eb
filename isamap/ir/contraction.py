"""Sums of products over some axes, by matrix multiplication.

`sum_of_products((A, B), (M, N, K), kept={0, 1})` with A of shape (M, 1, K) and B of shape (1, N, K) is the
matrix product, of shape (M, N, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from isamap.ir.rounding import Array

_EXACT = 2.0**53
"""Integers of at most this magnitude are float64 numbers, and so are the partial sums below it."""


def sum_of_products(factors: Sequence[Array], extents: tuple[int, ...], kept: frozenset[int]) -> Array:
    """The product of all factors summed over the axes that are not kept; those keep length 1.

    Floats are summed in float64; integers exactly modulo 2**64, as int64 or uint64. Shapes: each factor has
    one axis per extent, of that length or of length 1.
    """
    if all(f.dtype.kind in "iu" for f in factors):
        return _integers(factors, extents, kept)
    return _contract([f.astype(np.float64, copy=False) for f in factors], extents, kept)


def _integers(factors: Sequence[Array], extents: tuple[int, ...], kept: frozenset[int]) -> Array:
    wide = np.uint64 if any(f.dtype == np.uint64 for f in factors) else np.int64
    bound = float(prod(n for axis, n in enumerate(extents) if axis not in kept))
    for factor in factors:
        bound *= max(abs(int(factor.max())), abs(int(factor.min())), 1) if factor.size else 1
    if bound < _EXACT:
        return _contract([f.astype(np.float64) for f in factors], extents, kept).astype(wide)
    return _contract([f.astype(wide) for f in factors], extents, kept)


def _contract(factors: list[Array], extents: tuple[int, ...], kept: frozenset[int]) -> Array:
    result, rest = factors[0], factors[1:]
    for position, factor in enumerate(rest):
        later = rest[position + 1 :]
        needed = kept | {axis for axis in range(len(extents)) if any(f.shape[axis] > 1 for f in later)}
        result = _pair(result, factor, needed)
    summed = tuple(axis for axis in range(len(extents)) if axis not in kept)
    result = _sum(result, tuple(axis for axis in summed if result.shape[axis] > 1))
    missing = prod(extents[axis] for axis in summed if all(f.shape[axis] == 1 for f in factors))
    return result * result.dtype.type(missing)


class _Roles(NamedTuple):
    """What the axes of a product of two arrays do: as in a batch of matrix products."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    inner: list[int]


def _pair(a: Array, b: Array, kept: frozenset[int] | set[int]) -> Array:
    """The product of two, summed over what is not kept and occurs in both or in either."""
    rank = a.ndim
    a, b = _sum(a, _only_in(a, b, kept)), _sum(b, _only_in(b, a, kept))
    both = [axis for axis in range(rank) if a.shape[axis] > 1 and b.shape[axis] > 1]
    roles = _Roles(
        batch=[axis for axis in both if axis in kept],
        rows=[axis for axis in range(rank) if a.shape[axis] > 1 and axis not in both],
        columns=[axis for axis in range(rank) if b.shape[axis] > 1 and axis not in both],
        inner=[axis for axis in both if axis not in kept],
    )
    if not roles.inner:
        return a * b
    left = _as_matrices(a, roles.batch, roles.rows, roles.inner)
    right = _as_matrices(b, roles.batch, roles.inner, roles.columns)
    order = [*roles.batch, *roles.rows, *roles.columns]
    lengths = [max(a.shape[axis], b.shape[axis]) for axis in order]
    found = np.matmul(left, right).reshape(lengths).transpose(np.argsort(order).astype(int).tolist())
    return found.reshape([max(a.shape[x], b.shape[x]) if x in order else 1 for x in range(rank)])


def _sum(a: Array, axes: tuple[int, ...]) -> Array:
    return a.sum(axis=axes, keepdims=True, dtype=a.dtype) if axes else a


def _only_in(a: Array, b: Array, kept: frozenset[int] | set[int]) -> tuple[int, ...]:
    return tuple(
        axis for axis in range(a.ndim) if axis not in kept and a.shape[axis] > 1 and b.shape[axis] == 1
    )


def _as_matrices(a: Array, batch: list[int], rows: list[int], columns: list[int]) -> Array:
    order = [*batch, *rows, *columns]
    unit = [axis for axis in range(a.ndim) if axis not in order]
    shape = [prod(a.shape[axis] for axis in group) for group in (batch, rows, columns)]
    return a.transpose([*order, *unit]).reshape(shape)
