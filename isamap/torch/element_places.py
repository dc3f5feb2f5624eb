"""Rows for operations that move elements: reshapes, slices, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from isamap.graph.pending import dense
from isamap.graph.terms import NotTaken, wide_type
from isamap.graph.types import NUMBERS
from isamap.ir import DTYPES
from isamap.torch.calls import AtenCall, Row, in_wide, name_rows, type_of
from isamap.torch.fx_nodes import name_of

# --- elements in another order, and parts of tensors ---


def _tensors(c: AtenCall) -> list[str]:
    """Return the tensors of a list without empty one-dimensional ones, which torch skips as well."""
    skipped = (0,)
    return [
        c.term(part)
        for part in c["tensors"]
        if tuple(part.meta["val"].shape) != skipped or c.shape == skipped
    ]


def _concat(c: AtenCall) -> str:
    parts = _tensors(c)
    return c("Concat", *parts, axis=c.axis(rank=len(c.shape))) if len(parts) > 1 else parts[0]


def _stack(c: AtenCall) -> str:
    axis = c.axis(rank=len(c.shape))
    sizes = [1 if n == axis else size for n, size in enumerate(c.shape)]
    parts = [c.shaped(c.term(part), *sizes) for part in c["tensors"]]
    return c("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


def _slice(c: AtenCall) -> str:
    axis = c.axis()
    first, end, step = slice(c["start"], c["end"], c["step"]).indices(c.sizes[axis])
    return c.part(c.x, axis, first, max(first, end), step)


def _flip(c: AtenCall) -> str:
    found = c.x
    for axis in (axis % len(c.sizes) for axis in c["dims"]):
        found = c.part(found, axis, -1, -(1 << 62), -1)
    return found


def _repeat(c: AtenCall) -> str:
    sizes = (*(1 for _ in range(len(c["repeats"]) - len(c.sizes))), *c.sizes)
    return c("Tile", c.shaped(c.x, *sizes), c.to.integers(*c["repeats"])) if sizes else c.x


def _triangle(c: AtenCall) -> str:
    return c("Trilu", c.x, c.number(c["diagonal"], "i64"), upper=int(name_of(c.node).startswith("triu")))


def _pad_by(mode: str) -> Row:
    """Return a row for padding. torch names the last axis first."""

    def row(c: AtenCall) -> str:
        given, rank = c["pad" if "pad" in c.given else "padding"], len(c.shape)
        missing = [0] * (rank - len(given) // 2)
        pads = c.to.integers(*missing, *given[-2::-2], *missing, *given[::-2])
        return c("Pad", c.x, pads, *([c.term(c["value"])] if mode == "constant" else []), mode=mode)

    return row


def _diagonal(c: AtenCall) -> str:
    rank, (one, other) = len(c.sizes), (c.axis("dim1"), c.axis("dim2"))
    rest = [n for n in range(rank) if n not in (one, other)]
    columns, offset = c.sizes[other], c["offset"]
    first = offset if offset >= 0 else -offset * columns
    flat = c.shaped(c("Transpose", c.x, perm=(*rest, one, other)), *c.shape[:-1], c.sizes[one] * columns)
    places = first + np.arange(int(c.shape[-1])) * (columns + 1)
    return c("Gather", flat, c.numbers(places), axis=len(rest))


def _list_windows(c: AtenCall) -> str:
    """Return the windows along an axis, with the elements of each window as a new last axis."""
    if not c.sizes:
        return c.shaped(c.x, *c.shape)
    axis, rank = c.axis("dimension"), len(c.shape)
    step, size = int(c["step"]), int(c["size"])
    places = np.arange(int(c.shape[axis]))[:, None] * step + np.arange(size)
    found = c("Gather", c.x, c.numbers(places), axis=axis)
    return c("Transpose", found, perm=(*(n for n in range(rank) if n != axis + 1), axis + 1))


def _read_strided(c: AtenCall) -> str:
    """Return elements by their offsets in the memory of a tensor without gaps."""
    value = c.terms[0].meta["val"]
    order = sorted(range(value.dim()), key=lambda n: (-value.stride()[n], -value.shape[n]))
    lying, steps = [int(value.shape[n]) for n in order], [value.stride()[n] for n in order]
    if any(size != 1 and own != step for size, own, step in zip(lying, steps, dense(lying), strict=True)):
        raise NotTaken("a tensor whose elements lie apart")
    start = c["storage_offset"]
    places = np.asarray(0 if start is None else start - value.storage_offset())
    for size, step in zip(c["size"], c["stride"], strict=True):
        places = places[..., None] + np.arange(int(size)) * int(step)
    if places.min() < 0 or places.max() >= prod(lying):
        raise NotTaken("elements beyond the tensor")
    flat = c.shaped(_move_axes(c, c.x, order), -1)
    if np.array_equal(places.reshape(-1), np.arange(prod(lying))):
        return c.shaped(flat, *c.shape)
    return c("Gather", flat, c.numbers(places), axis=0)


# --- elements by their places ---


def _in_front(c: AtenCall) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return the axes with indexed ones first, the position of the indices' axes, and the sizes of these.

    Raises: NotTaken for boolean masks, whose places depend on data.
    """
    given = [(axis, value) for axis, value in enumerate(c["indices"]) if value is not None]
    if any(type_of(value) in ("bool", "u8") for _, value in given):
        raise NotTaken("elements that data chooses, whose number is not known")
    axes = tuple(axis for axis, _ in given)
    shapes = [tuple(value.meta["val"].shape) for _, value in given]
    shape = np.broadcast_shapes(*shapes) if len(shapes) > 1 else shapes[0]
    is_together = axes[-1] - axes[0] + 1 == len(axes)
    return (*axes, *(n for n in range(len(c.sizes)) if n not in axes)), axes[0] if is_together else 0, shape


def _move_axes(c: AtenCall, name: str, order: Sequence[int], *, is_back: bool = False) -> str:
    """Return a value with its axes permuted, or with `is_back`, permuted back."""
    found = tuple(np.argsort(order).tolist()) if is_back else tuple(order)
    return name if found == tuple(range(len(found))) else c("Transpose", name, perm=found)


def _tuples(c: AtenCall, shape: Sequence[int]) -> str:
    """Return the indices of each element along the last axis."""
    parts = [c.shaped(c.expanded(c.term(i, "i64"), *shape), *shape, 1) for i in c["indices"] if i is not None]
    return c("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]


def _independent_indices(c: AtenCall, shape: Sequence[int]) -> list[Any] | None:
    """Return the indices if they may be applied one after the other, because each has axes of its own, or None."""
    places = [i for i in c["indices"] if i is not None]
    runs = [
        [len(shape) - i.meta["val"].dim() + n for n, size in enumerate(i.meta["val"].shape) if size != 1]
        for i in places
    ]
    flat = [axis for run in runs for axis in run]
    return places if flat == sorted(set(flat)) else None


def _index(c: AtenCall) -> str:
    order, first, shape = _in_front(c)
    count, rank = len([i for i in c["indices"] if i is not None]), len(c.sizes)
    is_together = order[:count] == tuple(range(first, first + count))
    if is_together and (apart := _independent_indices(c, shape)) is not None:
        found = c.x
        for axis, index in enumerate(apart, first):
            found = c("Gather", found, c.shaped(c.term(index, "i64"), -1), axis=axis)
        return c.shaped(found, *c.shape)
    found = c("GatherND", _move_axes(c, c.x, order), _tuples(c, shape))
    behind = len(shape)
    back = (*range(behind, behind + first), *range(behind), *range(behind + first, rank - count + behind))
    return _move_axes(c, found, back)


def _index_put(c: AtenCall) -> str:
    truths = [i for i in c["indices"] if i is not None and type_of(i) == "bool"]
    if len(truths) == 1 == len(c["indices"]) and c["values"].meta["val"].numel() == 1 and not c["accumulate"]:
        chosen = truths[0].meta["val"].shape
        mask = c.shaped(c.term(truths[0]), *chosen, *(1 for _ in c.shape[len(chosen) :]))
        return c.where(mask, c.shaped(c.term(c["values"])), c.x)
    order, first, shape = _in_front(c)
    count = len([i for i in c["indices"] if i is not None])
    rest = [c.sizes[n] for n in order[count:]]
    values = c.expanded(c.term(c["values"]), *rest[:first], *shape, *rest[first:])
    behind = len(shape)
    values = _move_axes(
        c, values, (*range(first, first + behind), *range(first), *range(first + behind, len(rest) + behind))
    )
    how = "add" if c["accumulate"] else "none"
    found = c("ScatterND", _move_axes(c, c.x, order), _tuples(c, shape), values, reduction=how)
    return _move_axes(c, found, order, is_back=True)


def _gather(c: AtenCall) -> str:
    if not c.sizes:
        return c.shaped(c.expanded(c.shaped(c.x, 1), max(prod(c.shape), 1)), *c.shape)
    return c("GatherElements", c.x, c.term(c["index"], "i64"), axis=c.axis())


def _index_select(c: AtenCall) -> str:
    if not c.sizes:
        return c.x
    return c.shaped(c("Gather", c.x, c.shaped(c.term(c["index"], "i64"), -1), axis=c.axis()), *c.shape)


_COMBINED = {"": ("none", 0), "sum": ("add", 0), "add": ("add", 0), "mean": ("add", 0), "prod": ("mul", 1),
             "multiply": ("mul", 1), "amax": ("max", -math.inf), "amin": ("min", math.inf)}  # fmt: skip
"""By torch's word for a reduction ONNX's, and the number that changes nothing."""


def _scatter(c: AtenCall) -> str:
    """Return a tensor with values stored at indexed places, or combined with the elements there."""
    shape = tuple(c["index"].meta["val"].shape)
    word = c.given.get("reduce") or ("sum" if "add" in name_of(c.node) else "")
    axis, source = c.axis(), next(c[n] for n in ("src", "value") if n in c.given)
    if not c.sizes:
        raise NotTaken("places in a tensor of no axes")
    index = c.term(c["index"], "i64")
    values = c.term(source)
    if not hasattr(source, "meta") or source.meta["val"].dim() == 0:
        values = c.expanded(values, *shape)
    elif tuple(source.meta["val"].shape) != shape:
        values = reduce(lambda v, n: c.part(v, n, 0, shape[n]), range(len(shape)), values)
    found, (how, start) = c.x, _COMBINED[word]

    steps = c["index"].meta["val"].stride()
    is_of_rows = axis == 0 < len(shape) - 1 and shape[1:] == tuple(c.sizes[1:]) and not any(steps[1:])
    if is_of_rows:
        index = c.shaped(reduce(lambda v, n: c.part(v, n, 0, 1), range(1, len(shape)), index), shape[0], 1)

    def put(onto: str, given: str, how: str) -> str:
        if is_of_rows:
            return c("ScatterND", onto, index, given, reduction=how)
        return c("ScatterElements", onto, index, given, axis=axis, reduction=how)

    if word and not c.given.get("include_self", True):
        known = DTYPES[c.dtype]
        start = start if known.is_float or math.isfinite(start) else known.low if start < 0 else known.high
        found = put(found, c.expanded(c.number(start), *shape), "none")
    found = put(found, values, how)
    if word != "mean":
        return found
    ones, begun = c.expanded(c.number(1), *shape), c.expanded(c.number(int(c["include_self"])), *c.shape)
    return c("Div", found, c("Max", put(begun, ones, "add"), c.number(1)))


def _sort_elements(c: AtenCall) -> tuple[str, ...]:
    """Return the sorted elements, all or the first ones, and their positions."""
    if not c.sizes:
        return c.x, c.numbers(0)
    dtype = "u8" if c.dtype == "bool" else wide_type(c.dtype)
    largest = bool(c.given.get("largest", c.given.get("descending")))
    count, axis = c.to.integers(c.given.get("k", c.sizes[c.axis()])), c.axis()
    values, places = c("TopK", c.term(c["self"], dtype), count, results=2, axis=axis, largest=int(largest))
    return c.cast(values, dtype, c.dtype), places


def _rows_of_each(c: AtenCall, bags: int, count: int) -> int:
    """Return the number of rows in each bag if all bags have equally many, else 0."""
    made = c["offsets"]
    numbers = [n for n in made.args if isinstance(n, int)] if name_of(made).startswith("arange.") else []
    first, _, step = ([0, *numbers, 1] if len(numbers) == 1 else [*numbers, 1])[:3] if numbers else (0, 0, 0)
    return step if first == 0 and step * bags == count and len(numbers) == len(made.args) else 0


def _bag_of_each(c: AtenCall, bags: int, count: int) -> str:
    """Return the number of the bag that each row belongs to."""
    offsets = c.term(c["offsets"], "i64")
    if c["include_last_offset"]:
        offsets = c.part(offsets, 0, 0, bags)
    begun = c("LessOrEqual", c.shaped(offsets, 1, bags), c.numbers(np.arange(count)[:, None]))
    return c("Sub", c.reduced("ReduceSum", c.cast(begun, "bool", "i64"), [1], keeps=True), c.number(1, "i64"))


def _bags(c: AtenCall) -> tuple[str, ...]:
    """Return the sum, the mean or the maximum of the rows in each bag."""
    result, c.dtype = c.dtype, wide_type(c.dtype)
    (count, *_), (bags, width) = c["indices"].meta["val"].shape, c.shape
    indices, each = c.term(c["indices"], "i64"), _rows_of_each(c, int(bags), count)
    bag = "" if each else _bag_of_each(c, int(bags), count)
    rows = c("Gather", c.term(c["weight"]), indices, axis=0)
    if c["per_sample_weights"] is not None:
        rows = c("Mul", rows, c.shaped(c.term(c["per_sample_weights"]), count, 1))
    counted = c.number(1.0)
    start, how = c.number(-math.inf if c["mode"] == 2 else 0.0), "max" if c["mode"] == 2 else "add"
    if c["padding_idx"] >= 0:
        is_none = c.shaped(c("Equal", indices, c.number(c["padding_idx"], "i64")), count, 1)
        rows, counted = c.where(is_none, start, rows), c.where(is_none, c.number(0.0), counted)

    def put(values: str, columns: int, first: str, how: str) -> str:
        if each:
            reduction = "ReduceMax" if how == "max" else "ReduceSum"
            return c.reduced(reduction, c.shaped(values, bags, each, columns), [1])
        return c("ScatterND", c.expanded(first, bags, columns), bag, values, reduction=how)

    found = put(rows, width, start, how)
    if c["mode"]:
        counts = put(c.expanded(counted, count, 1), 1, c.number(0.0), "add")
        none, zero = c("Equal", counts, c.number(0.0)), c.number(0.0)
        found = c.where(none, zero, found if c["mode"] == 2 else c("Div", found, counts))
    return c.cast(found, c.dtype, result), "", "", ""


PLACES: Mapping[str, Row] = name_rows(
    (lambda c: c.shaped(c.x, *c.shape), "squeeze.dim squeeze.dims"),
    (_concat, "cat"),
    (_stack, "stack"),
    (_slice, "slice.Tensor"),
    (_flip, "flip"),
    (_repeat, "repeat"),
    (_triangle, "tril triu"),
    (_diagonal, "diagonal"),
    (_list_windows, "unfold"),
    (_read_strided, "as_strided"),
    (_pad_by("constant"), "constant_pad_nd"),
    (_pad_by("reflect"), "reflection_pad1d reflection_pad2d reflection_pad3d"),
    (_pad_by("edge"), "replication_pad1d replication_pad2d replication_pad3d"),
    (lambda c: c("BitCast", c.to.name(c["self"]), to=NUMBERS[c.dtype]), "view.dtype"),
    (_index, "index.Tensor _unsafe_index.Tensor"),
    (in_wide(_index_put), "index_put _unsafe_index_put"),
    (lambda c: c("Gather", c.x, c.term(c["indices"], "i64"), axis=0), "embedding"),
    (_gather, "gather"),
    (_index_select, "index_select"),
    (in_wide(_scatter), "scatter.src scatter.value scatter.reduce scatter.value_reduce scatter_add"),
    (in_wide(_scatter), "scatter_reduce.two"),
)

PLACES_OF_SEVERAL: Mapping[str, Row] = name_rows(
    (_sort_elements, "topk sort sort.stable"), (_bags, "_embedding_bag _embedding_bag_forward_only")
)
"""Those of several results."""
