"""Compute sums of products by matrix multiplication, box by box, for the interpreter.

A box is a part of the iteration space whose arrays together stay within some tens of megabytes. The matrix
product `C[m, n] += A[m, k] * B[k, n]` over 4096³ is cut into such boxes, and each box is one call of numpy.

`sum_of_products((A, B), (M, N, K), kept={0, 1})` with A of shape (M, 1, K) and B of shape (1, N, K) is the
matrix product, of shape (M, N, 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from isamap.ir.buffers import Box
from isamap.ir.nodes import Assign, Call, Expr, Stmt
from isamap.ir.rounding import Array

ELEMENTS = 4_000_000
"""Elements of all arrays of one box together; each takes about 30 bytes while it is computed."""


def factors_of(e: Expr) -> tuple[Expr, ...]:
    """Return the factors of a product, or the expression itself if it is none."""
    match e:
        case Call("mul", (left, right), _, _, _):
            return factors_of(left) + factors_of(right)
        case _:
            return (e,)


def written_by(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Return the names of the buffers that statements assign."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case Assign(target, _, _, _, _):
                found.add(target.buffer)
            case _:
                found |= written_by(statement.body)
    return frozenset(found)


def boxes(
    axes: tuple[tuple[str, int], ...],
    arrays: tuple[frozenset[str], ...],
    last: frozenset[str],
    limit: int | None = None,
) -> Iterator[Box]:
    """Yield the iteration space in boxes, in order, each with at most `limit` (`ELEMENTS`) elements in `arrays`.

    `arrays` are the axes that each array of a box has; those in `last` are cut only where nothing else helps.
    """
    names = tuple(name for name, _ in axes)
    yield from _cut_box(
        Box(names, (0,) * len(axes), tuple(n for _, n in axes)), arrays, last, limit or ELEMENTS
    )


def _cut_box(box: Box, arrays: tuple[frozenset[str], ...], last: frozenset[str], limit: int) -> Iterator[Box]:
    if _elements(box, arrays) <= limit or all(n == 1 for n in box.counts):
        yield box
        return
    halves = {i: _half(box, i) for i, n in enumerate(box.counts) if n > 1}
    axis = min(halves, key=lambda i: (_elements(halves[i][0], arrays), box.names[i] in last, i))
    for half in halves[axis]:
        yield from _cut_box(half, arrays, last, limit)


def _elements(box: Box, arrays: tuple[frozenset[str], ...]) -> int:
    counts = dict(zip(box.names, box.counts, strict=True))
    return sum(prod(counts[s] for s in array if s in counts) for array in arrays)


def _half(box: Box, axis: int) -> tuple[Box, Box]:
    left = -(-box.counts[axis] // 2)

    def part(start: int, count: int) -> Box:
        starts = (*box.starts[:axis], box.starts[axis] + start, *box.starts[axis + 1 :])
        return Box(box.names, starts, (*box.counts[:axis], count, *box.counts[axis + 1 :]))

    return part(0, left), part(left, box.counts[axis] - left)


_EXACT = 2.0**53
"""Integers of at most this magnitude are float64 numbers, and so are the partial sums below it."""


def sum_of_products(factors: Sequence[Array], extents: tuple[int, ...], kept: frozenset[int]) -> Array:
    """Return the product of all factors summed over the axes that are not kept. Summed axes keep length 1.

    Floats are summed in float64; integers exactly modulo 2**64, as int64 or uint64. Shapes: each factor has
    one axis per extent, of that length or of length 1.
    """
    if all(f.dtype.kind in "iu" for f in factors):
        wide = np.uint64 if any(f.dtype == np.uint64 for f in factors) else np.int64
        bound = float(prod(n for axis, n in enumerate(extents) if axis not in kept))
        for factor in factors:
            bound *= max(abs(int(factor.max())), abs(int(factor.min())), 1) if factor.size else 1
        if bound < _EXACT:
            return _contract([f.astype(np.float64) for f in factors], extents, kept).astype(wide)
        return _contract([f.astype(wide) for f in factors], extents, kept)
    floats = [f.astype(np.float64, copy=False) for f in factors]
    if _sums_early(floats, extents, kept) and not all(np.isfinite(f).all() for f in floats):
        return _with_infinities(floats, extents, kept)
    return _contract(floats, extents, kept)


def _sums_early(factors: Sequence[Array], extents: tuple[int, ...], kept: frozenset[int]) -> bool:
    """Return whether a factor lacks a summed axis, so that it would multiply a sum instead of each product."""
    summed = [axis for axis, n in enumerate(extents) if axis not in kept and n > 1]
    return any(f.shape[axis] == 1 for f in factors for axis in summed)


def _with_infinities(factors: Sequence[Array], extents: tuple[int, ...], kept: frozenset[int]) -> Array:
    """Return the sum of products that may be infinite or NaN, as if each term were computed.

    (x + y) * inf is infinite although x * inf + y * inf is NaN, so terms are counted instead: contractions of
    ones and of signs count the infinite terms of each sign, and the NaNs.
    """
    finite = [np.isfinite(f).astype(np.float64) for f in factors]
    signs = [np.nan_to_num(np.sign(f)) for f in factors]

    def count(parts: Sequence[Array]) -> Array:
        return _contract(list(parts), extents, kept)

    def both(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        return [a * b for a, b in zip(left, right, strict=True)]

    sizes = [np.abs(s) for s in signs]
    infinite = count(sizes) - count(both(sizes, finite))
    balance = count(signs) - count(both(signs, finite))
    none = count([np.ones_like(f) for f in factors]) - count(finite) - infinite
    found = count([np.where(np.isfinite(f), f, 0.0) for f in factors])
    found = np.where(infinite > 0, np.where(balance > 0, np.inf, -np.inf), found)
    return np.where((none > 0) | (np.abs(balance) < infinite), np.nan, found)


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
    """The axes of a product of two arrays by their role in a batch of matrix products."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    inner: list[int]


def _pair(a: Array, b: Array, kept: frozenset[int] | set[int]) -> Array:
    """Return the product of two arrays, summed over all axes that are not kept."""
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
