"""Operators that compute nothing: reshapes, and queries of sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from isamap.graph.applied import Applied
from isamap.graph.making import Value
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.sizes import as_known, is_zero
from isamap.graph.terms import NotTaken
from isamap.graph.types import TYPES
from isamap.ir import DTYPES


def _reshape(o: Applied) -> Value:
    target = o.integers(1) if o.opset >= 5 else o.list("shape")
    x, keeps = o[0], not o.integer("allowzero", 0)
    if target is None:
        raise NotTaken("no sizes are given")
    if keeps and any(size == 0 and n >= x.rank for n, size in enumerate(target)):
        raise NotTaken(f"the sizes {list(target)} keep one that is not there")
    sizes = [x.shape[n] if size == 0 and keeps else size for n, size in enumerate(target)]
    return x.shaped(complete_sizes(sizes, x.count))


def complete_sizes(sizes: list[int], count: int) -> list[int]:
    """Return the sizes with -1 replaced so that there are `count` elements. Raises: NotTaken."""
    if sizes.count(-1) == 1:
        others = prod(size for size in sizes if size != -1)
        if others and count % others == 0:
            return [count // others if size == -1 else size for size in sizes]
    if any(size < 0 for size in sizes) or prod(sizes) != count:
        raise NotTaken(f"{count} elements have no sizes {sizes}")
    return sizes


def _flatten(o: Applied) -> Value:
    x, axis = o[0], o.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise NotTaken(f"the axis {axis} of a tensor of {x.rank} dimensions")
    at = axis if axis >= 0 else axis + x.rank
    return x.shaped((prod(x.shape[:at]), prod(x.shape[at:])))


def _axes(o: Applied) -> tuple[int, ...] | None:
    return o.integers(1) if o.opset >= 13 else o.list("axes")


def _squeeze(o: Applied) -> Value:
    x, axes = o[0], _axes(o)
    gone = (
        {o.axis(a, x.rank) for a in axes}
        if axes is not None
        else {n for n, s in enumerate(x.shape) if is_zero(s - 1)}
    )
    if any(x.shape[n] != 1 for n in gone):
        raise NotTaken(f"{list(x.shape)} has more than one element along an axis that is to go")
    return x.shaped([size for n, size in enumerate(x.shape) if n not in gone])


def _unsqueeze(o: Applied) -> Value:
    x, axes = o[0], _axes(o)
    if axes is None:
        raise NotTaken("no axes are given")
    rank = x.rank + len(axes)
    there = {o.axis(a, rank) for a in axes}
    if len(there) < len(axes):
        raise NotTaken("an axis is given twice")
    left = iter(x.shape)
    return x.shaped([1 if n in there else next(left) for n in range(rank)])


def _shape(o: Applied) -> Value:
    sizes = o[0].shape
    start, end = o.integer("start", 0), o.integer("end", len(sizes))
    chosen = sizes[slice(start, end)]
    return replace(Value.of(as_known(chosen, (len(chosen),))), dtype="i64")


def _size(o: Applied) -> Value:
    return replace(Value.of(as_known((o[0].count,), ())), dtype="i64")


def _dropout(o: Applied) -> Value | tuple[Value, ...]:
    x, training = o[0], o.known(2) if o.opset >= 12 else None
    ratio = o.known(1) if training is not None and bool(training) else None
    if training is not None and bool(training) and (ratio is None or float(ratio) != 0):
        raise NotTaken("in training it draws random numbers")
    if o.results == 1:
        return x
    o.making.reserve(x.count)
    return x, Value.of(np.ones(x.shape, np.bool_ if o.opset >= 10 else DTYPES[x.dtype].numpy()))


def _bit_cast(o: Applied) -> Value:
    x, dtype = o[0], TYPES.get(o.integer("to", 0), "")
    if not dtype or dtype == "bool" or DTYPES[dtype].bits != DTYPES[x.dtype].bits or DTYPES[dtype].bits < 8:
        raise NotTaken(f"the bits of {x.dtype} taken for another type")
    x = o.making.plain(x) if x.is_part else x
    return Value(dtype, x.shape, o.making.passed(x).tensor, order=x.order)


VIEWS: Mapping[str, Lowered] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Shape": _shape,
    "Size": _size,
    "Identity": lambda o: o[0],
    "Dropout": _dropout,
    "BitCast": _bit_cast,
}
