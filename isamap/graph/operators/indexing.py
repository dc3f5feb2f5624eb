"""Operators that gather or scatter by data: moves of the library, and kernels that compare indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of
from isamap.graph.operators.data_movement import concatenate_values, transpose_axes
from isamap.graph.operators.elementwise import Lowered, cast_value
from isamap.graph.terms import NotTaken, cast
from isamap.graph.types import size_bytes
from isamap.ir import DTYPES

_COMBINED = {"none": 0, "add": 1, "mul": 2, "max": 3, "min": 4}
_NUMBERS = {
    name: n + 1 for n, name in enumerate(("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"))
}
"""As `isamap_moves.c` numbers types."""


def gather_slices(o: Applied, x: Value, axis: int, indices: Value) -> Value:
    """Return slices of a value along an axis by indices, which may be negative."""
    if indices.dtype not in ("i32", "i64"):
        raise NotTaken(f"indices of the type {indices.dtype}")
    y = o.making.fresh(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    inner = size_bytes(x.dtype, x.shape[axis + 1 :])
    numbers = prod(x.shape[:axis]), x.shape[axis], inner, indices.count, size_bytes(indices.dtype, ())
    o.making.move("gather", (x, indices), (y,), *numbers)
    return y


def _gather(o: Applied) -> Value:
    x = o[0]
    return gather_slices(o, x, o.axis(o.integer("axis", 0), x.rank), o[1])


def _non_zero(o: Applied) -> Value:
    """Lower NonZero: the positions of nonzero elements, a row for each axis, with a data-determined count."""
    x = o[0]
    if not x.rank:
        raise NotTaken("of a single number it has no kernel here")
    mask = x if x.dtype == "bool" else o.map("({0} != 0)", x, dtype="bool", result="bool")
    size, count = o.making.counted(mask.count)
    y = o.making.fresh("i64", (mask.rank, size))
    o.making.move("non_zero", (mask,), (y, count), mask.rank, *mask.shape)
    return y


def _compress(o: Applied) -> Value:
    """Lower Compress: select slices along an axis, or elements, by a condition."""
    x, axis = o[0], o.attribute("axis")
    x, at = (x.shaped((x.count,)), 0) if axis is None else (x, o.axis(o.integer("axis", 0), x.rank))
    if (known := o[1].known) is not None:
        return gather_slices(o, x, at, known_value(np.flatnonzero(known[: x.shape[at]]), "i64"))
    if o[1].rank != 1 or not o[1].count <= x.shape[at]:
        raise NotTaken(f"{o[1].count} truths for {x.shape[at]} rows")
    return gather_slices(o, x, at, _places(o, o[1]))


def _places(o: Applied, mask: Value) -> Value:
    """Return the positions of the true values of a mask."""
    size, count = o.making.counted(mask.count)
    places = o.making.fresh("i64", (size,))
    o.making.move("non_zero", (mask.shaped((mask.count,)),), (places, count), 1, mask.count)
    return places


def _suppress(o: Applied) -> Value:
    """Lower NonMaxSuppression: boxes by score, without those that overlap with a better one."""
    boxes, scores, most, *limits = o[0], o[1], o.optional(2), o.optional(3), o.optional(4)
    batches, classes, count = scores.shape
    if boxes.shape != (batches, count, 4) or boxes.dtype != "f32" or scores.dtype != "f32":
        raise NotTaken(
            f"boxes {boxes.dtype}{list(boxes.shape)} and scores {scores.dtype}{list(scores.shape)}"
        )
    known = o.known(2) if most is None or most.known is not None else None
    each = (
        count
        if most is not None and known is None
        else min(count, max(0, int(known.reshape(-1)[0])))
        if known is not None
        else 0
    )
    size, number = o.making.counted(batches * classes * each)
    y, order = o.making.fresh("i64", (size, 3)), o.making.fresh("i64", (count,))
    limit = known_value([each], "i64") if known is not None or most is None else most
    overlap, least = (
        v if v is not None else known_value([n], "f32") for v, n in zip(limits, (0.0, -np.inf), strict=True)
    )
    numbers = batches, classes, count, o.integer("center_point_box", 0)
    o.making.move("suppress", (boxes, scores, limit, overlap, least), (y, number, order), *numbers)
    return y


def _unique(o: Applied) -> tuple[Value, ...]:
    """Lower Unique: distinct elements or slices, their first positions, inverse indices, and counts."""
    x, axis = o[0], o.attribute("axis")
    at = 0 if axis is None else o.axis(o.integer("axis", 0), x.rank)
    order = (at, *(n for n in range(x.rank) if n != at))
    rows = x.shaped((x.count,)) if axis is None else o.making.plain(transpose_axes(o, x, order))
    compared = (
        rows if rows.dtype in _NUMBERS else o.map("{0}", rows, dtype="u8" if rows.dtype == "bool" else "f32")
    )
    total = rows.shape[0]
    size, count = o.making.counted(total)
    places, often = (o.making.fresh("i64", (size,)) for _ in range(2))
    inverse, scratch = (o.making.fresh("i64", (total,)) for _ in range(2))
    numbers = total, prod(rows.shape[1:]), _NUMBERS[compared.dtype], o.integer("sorted", 1)
    o.making.move("unique", (compared,), (places, inverse, often, count, scratch), *numbers)
    found = gather_slices(o, rows, 0, places)
    back = tuple(order.index(n) for n in range(x.rank))
    y = found if axis is None else transpose_axes(o, found, back)
    return y, places, inverse, often


def _lead(o: Applied, x: Value, indices: Value) -> tuple[int, ...]:
    """Return the sizes that a move needs if indices apply to one axis."""
    if indices.rank != x.rank or indices.dtype not in ("i32", "i64"):
        raise NotTaken(f"indices {indices.dtype}{list(indices.shape)} for {list(x.shape)}")
    axis = o.axis(o.integer("axis", 0), x.rank)
    return x.rank, axis, size_bytes(x.dtype, ()), size_bytes(indices.dtype, ()), *x.shape, *indices.shape


def _gather_elements(o: Applied) -> Value:
    x, indices = o[0], o[1]
    y = o.making.fresh(x.dtype, indices.shape)
    o.making.move("gather_elements", (x, indices), (y,), *_lead(o, x, indices))
    return y


def _gather_nd(o: Applied) -> Value:
    x, indices, batch = o[0], o[1], o.integer("batch_dims", 0)
    depth = indices.shape[-1]
    if indices.dtype != "i64" or batch + depth > x.rank or x.shape[:batch] != indices.shape[:batch]:
        raise NotTaken(f"indices {indices.dtype}{list(indices.shape)} for {list(x.shape)}")
    y = o.making.fresh(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth :]))
    count = prod(indices.shape[batch:-1])
    numbers = prod(x.shape[:batch]), count, depth, size_bytes(x.dtype, x.shape[batch + depth :])
    o.making.move("gather_nd", (x, indices), (y,), *numbers, *x.shape[batch : batch + depth])
    return y


def _how(o: Applied, x: Value) -> tuple[int, int]:
    """Return the codes of the operation that combines an update with the old value, and of the type."""
    word = o.word("reduction", "none")
    if word not in _COMBINED or (word != "none" and x.dtype not in _NUMBERS):
        raise NotTaken(f"the reduction `{word}` on {x.dtype}")
    return _COMBINED[word], _NUMBERS.get(x.dtype, 0)


def _scatter_elements(o: Applied) -> Value:
    x, indices, updates = o[0], o[1], o[2]
    if updates.shape != indices.shape or updates.dtype != x.dtype:
        raise NotTaken(f"updates {list(updates.shape)} for indices {list(indices.shape)}")
    y = o.making.fresh(x.dtype, x.shape)
    o.making.move("scatter_elements", (x, indices, updates), (y,), *_how(o, x), *_lead(o, x, indices))
    return y


def _scatter_nd(o: Applied) -> Value:
    x, indices, updates = o[0], o[1], o[2]
    depth = indices.shape[-1]
    target = (*indices.shape[:-1], *x.shape[depth:])
    if indices.dtype != "i64" or updates.shape != target or updates.dtype != x.dtype:
        raise NotTaken(f"updates {list(updates.shape)}, not {list(target)}")
    y = o.making.fresh(x.dtype, x.shape)
    numbers = prod(indices.shape[:-1]), depth, prod(x.shape[depth:]), size_bytes(x.dtype, ())
    o.making.move("scatter_nd", (x, indices, updates), (y,), *_how(o, x), *numbers, *x.shape[:depth])
    return y


def _tensor_scatter(o: Applied) -> Value:
    x, update, first = o[0], o[1], o.optional(2)
    axis, circular = o.axis(o.integer("axis", -2), x.rank), o.word("mode", "linear") == "circular"
    batch, total, length = x.shape[0], x.shape[axis], update.shape[axis]
    if not axis or (*update.shape[:axis], total, *update.shape[axis + 1 :]) != x.shape or length > total:
        raise NotTaken(f"an update {list(update.shape)} of {list(x.shape)}")
    lead, each = prod(x.shape[:axis]), total + length
    o.making.reserve(lead + total)
    first = known_value(np.zeros((batch, 1)), "i64") if first is None else first.shaped((batch, 1))
    step = "(({0} - {1}) % {3} + {3}) % {3}" if circular else "({0} - {1})"
    places, count = known_value(np.arange(total), "i64"), known_value(np.asarray(total), "i64")
    since = o.map(step, places, first, count, count).shaped((batch, 1, total))
    starts = known_value(np.arange(lead).reshape(batch, -1, 1) * each, "i64")
    inside = f"({{0}} >= 0) & ({{0}} < {length})"
    rows = o.map(f"(select({inside}, {{0}} + {total}, {{1}}) + {{2}})", since, places, starts)
    both = concatenate_values(o, (x, update), axis)
    return gather_slices(o, both.shaped((lead * each, prod(x.shape[axis + 1 :]))), 0, rows).shaped(x.shape)


def _top(o: Applied) -> tuple[Value, ...]:
    x = o[0]
    given = o.integers(1) if o.opset >= 10 else (o.integer("k", 0),)
    axis = o.axis(o.integer("axis", -1), x.rank)
    if not given or not 0 <= given[0] <= x.shape[axis]:
        raise NotTaken(f"{given[0] if given else 'no'} of {x.shape[axis]} elements")
    if x.dtype not in _NUMBERS:
        raise NotTaken(f"on {x.dtype} it has no kernel here")
    shape = (*x.shape[:axis], given[0], *x.shape[axis + 1 :])
    values, places = o.making.fresh(x.dtype, shape), o.making.fresh("i64", shape)
    numbers = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]), given[0]
    o.making.move(
        "top",
        (x,),
        (values, places),
        *numbers,
        o.integer("largest", 1),
        _NUMBERS[x.dtype],
        size_bytes(x.dtype, ()),
    )
    return values, places


def _one_hot(o: Applied) -> Value:
    indices, given, values = o[0], o.known(1), o[2]
    assert given is not None
    depth = int(given.reshape(-1)[0])
    axis = o.axis(o.integer("axis", -1), indices.rank + 1)
    text = o.text()
    y = text.write(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))
    at, loops = axes_of(y.shape)
    index = [name for n, name in enumerate(at) if n != axis]
    place = text.read(indices).term(index)
    whole = cast(place, "i64").text if not DTYPES[indices.dtype].is_float else f"sat_i64({place.text})"
    pair = text.read(values)
    chosen = f"select({whole} < 0, {whole} + {depth}, {whole}) == i64({at[axis]})"
    text.loop(loops, f"{y.at(at)} = select({chosen}, {pair.name}[1], {pair.name}[0]);")
    return text.done()


def _reverse_sequence(o: Applied) -> Value:
    x, lengths = o[0], o[1]
    time, batch = o.integer("time_axis", 0), o.integer("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise NotTaken("axes other than the first two")
    shape = x.shape[:2]
    o.making.reserve(2, sum(shape))
    place = known_value(np.arange(shape[time]).reshape((-1, 1) if time == 0 else (1, -1)), "i64")
    own = cast_value(o, lengths, "i64")
    own = own.shaped((1, own.count) if time == 0 else (own.count, 1))
    transposed = o.map("select({0} < {1}, {1} - 1 - {0}, {0})", place, own)
    if transposed.shape != shape:
        raise NotTaken(f"{lengths.count} lengths for {list(x.shape)}")
    inner = prod(x.shape[2:])
    rows = o.map("{0} * {1} + {2}", transposed, *_rows(shape, time))
    return gather_slices(o, x.shaped((prod(shape), inner)), 0, rows).shaped(x.shape)


def _rows(shape: Sequence[int], time: int) -> tuple[Value, Value]:
    """Return the step of row numbers from one time to the next, and their offset for each sequence."""
    if time == 0:
        return known_value(np.asarray(shape[1]), "i64"), known_value(
            np.arange(shape[1]).reshape(1, -1), "i64"
        )
    return known_value(np.asarray(1), "i64"), known_value(
        (np.arange(shape[0]) * shape[1]).reshape(-1, 1), "i64"
    )


INDEXING: Mapping[str, Lowered] = {
    "Compress": _compress,
    "NonMaxSuppression": _suppress,
    "NonZero": _non_zero,
    "Unique": _unique,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
}
