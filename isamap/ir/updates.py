"""Apply a statement to the array of its target: writes, reductions and scattered reductions over a box.

`update(C, target, "add", …)` with values of shape (M, N, K) sums them over K and adds the sums to C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from isamap.ir.buffers import Box, locate, slices
from isamap.ir.dtypes import DType
from isamap.ir.evaluate import evaluate_index
from isamap.ir.index import Index
from isamap.ir.ops import OPS
from isamap.ir.rounding import Array
from isamap.source.records import dataclass, replace

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class Cells:
    """The elements that a statement writes: subscripts over a box, with the values of all symbols."""

    index: tuple[Index, ...]
    box: Box
    symbols: Mapping[str, int | Array]

    @property
    def kept(self) -> frozenset[int]:
        """The dimensions of the box that the subscripts mention. Reductions sum over the others."""
        names = {s for i in self.index for s in i.symbols}
        return frozenset(i for i, name in enumerate(self.box.names) if name in names)

    def reduced(self) -> Cells:
        """Return the same elements in a box in which each summed axis has length 1."""
        counts = tuple(n if i in self.kept else 1 for i, n in enumerate(self.box.counts))
        return replace(self, box=replace(self.box, counts=counts))


def update(
    home: Array,
    cells: Cells,
    op: str | None,
    values: Array,
    mask: Array | None,
    dtype: DType,
    settle: Callable[[Array], Array],
) -> None:
    """Write `values` (op None) or reduce them into `home` under `mask`.

    Reductions run in float64 or 64-bit integers; `settle` converts their results to the stored type, once.
    """
    view = slices(home, cells.index, cells.box, cells.symbols)
    if view is not None:
        if op is None:
            view[...] = values if mask is None else np.where(mask, values, view)
        else:
            view[...] = settle(UFUNCS[op](widen(view), reduce_values(op, values, mask, dtype, cells)))
        return
    positions, inside = locate(home.shape, cells.index, cells.symbols)
    if inside is not None:
        mask = inside if mask is None else mask & inside
    if op is None:
        at, chosen = _active(positions, values, mask, cells.box)
        home[at] = chosen
        return
    if inside is None:
        values, mask, cells = reduce_values(op, values, mask, dtype, cells), None, cells.reduced()
        if are_distinct(positions, home.shape):
            at = tuple(positions)
            home[at] = settle(UFUNCS[op](widen(home[at]), values))
            return
    at, chosen = _active(positions, widen(values), mask, cells.box)
    work = widen(home).copy()
    UFUNCS[op].at(work, at, chosen)
    home[at] = settle(work[at])


def reduce_values(op: str, values: Array, mask: Array | None, dtype: DType, cells: Cells) -> Array:
    """Return `values` reduced over all dimensions that are not kept. The reduced ones keep length 1."""
    wide = widen(values)
    if mask is not None:
        wide = np.where(mask, wide, identity(op, dtype))
    box, kept = cells.box, cells.kept
    wide = wide.reshape((1,) * (len(box.names) - wide.ndim) + wide.shape)
    summed = tuple(i for i in range(len(box.names)) if i not in kept and box.counts[i] > 1)
    if not summed:
        return wide
    shape = tuple(box.counts[i] if i in summed else wide.shape[i] for i in range(len(box.names)))
    return UFUNCS[op].reduce(np.broadcast_to(wide, shape), axis=summed, keepdims=True)


def widen(values: Array) -> Array:
    """Return the values in the type of reductions: float64, int64 or uint64. bool is unchanged."""
    match values.dtype.kind:
        case "b":
            return values
        case "i":
            return values.astype(np.int64, copy=False)
        case "u":
            return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64, copy=False)
        case _:
            return values.astype(np.float64, copy=False)


def full_rank(values: Array, rank: int) -> Array:
    """Return the values with leading dimensions of length 1, so that they have the given rank."""
    return values.reshape((1,) * (rank - values.ndim) + values.shape)


def identity(op: str, dtype: DType) -> Any:
    """Return the neutral element of a reduction, in the type in which reductions of `dtype` run."""
    match OPS[op].identity:
        case "lowest":
            return -np.inf if dtype.is_float else _wide(dtype.low, dtype)
        case "highest":
            return np.inf if dtype.is_float else _wide(dtype.high, dtype)
        case "all_ones":
            return (
                np.True_ if dtype.kind == "bool" else _wide(dtype.high if dtype.kind == "uint" else -1, dtype)
            )
        case float() | int() as number:
            if dtype.is_float:
                return np.float64(-0.0 if op == "add" else number)  # x + 0.0 would lose the sign of -0.0
            return np.False_ if dtype.kind == "bool" else _wide(int(number), dtype)
        case None:
            raise AssertionError(op)


def _wide(value: int, dtype: DType) -> np.generic:
    return np.uint64(value) if dtype.name == "u64" else np.int64(value)


def are_distinct(positions: list[Array], shape: tuple[int, ...]) -> bool:
    """Return whether no two points have the same position."""
    flat = np.asarray(0, np.int64)
    for at, extent in zip(positions, shape, strict=True):
        flat = flat * extent + at
    return np.unique(flat).size == flat.size


def are_cells_distinct(cells: Cells, shape: tuple[int, ...]) -> bool:
    """Return whether points that differ in a kept dimension have different elements."""
    names = [s for i in cells.index for s in i.symbols if s in cells.box.names]
    if len(set(names)) == len(names) and all(len(i.terms) <= 2 for i in cells.index):
        plain = all(
            len(m) <= 1 and all(isinstance(a, str) for a in m) for i in cells.index for m, _ in i.terms
        )
        if plain and all(sum(s in cells.box.names for s in i.symbols) <= 1 for i in cells.index):
            return True
    return are_distinct([evaluate_index(i, cells.symbols) for i in cells.index], shape)


def _active(
    positions: list[Array], values: Array, mask: Array | None, box: Box
) -> tuple[tuple[Array, ...], Array]:
    """Return the positions and values of the points where the mask holds, flat."""
    shape = np.broadcast_shapes(box.counts, values.shape, *(p.shape for p in positions))
    if mask is None:
        at = tuple(np.broadcast_to(p, shape).ravel() for p in positions)
        return at, np.broadcast_to(values, shape).ravel()
    chosen = np.broadcast_to(mask, shape)
    return tuple(np.broadcast_to(p, shape)[chosen] for p in positions), np.broadcast_to(values, shape)[chosen]
