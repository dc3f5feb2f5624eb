"""Operators that gather, scatter or sample by data: moves of the library, and kernels that compare indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of
from isamap.graph.operators.data_movement import concatenate_values, transpose_axes
from isamap.graph.operators.elementwise import Lowered, cast_value
from isamap.graph.operators.products import accumulator_type, round_sums
from isamap.graph.terms import NotTaken, TextTerm, cast, wide_type
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
    text.loop(loops, f"{y.at(at)} = select({chosen}, {pair.at(['1'])}, {pair.at(['0'])});")
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


# --- sampling -------------------------------------------------------------------------------------------

# Sample images at data-determined positions: indices and weights by kernels, rows by a move, sums by a kernel.


_REFLECTED = """function reflected(v: f32, low: f32, high: f32) {
  let d = max(max(low - v, v - high), 0);
  let n = round(d / (high - low), zero);
  let r = d - n * (high - low);
  let even = round(n / 2, down) * 2 == n;
  let below = select(even, low + r, high - r);
  let above = select(even, high - r, low + r);
  return select(v < low, below, select(v > high, above, v));
}
"""
_TAPS: Mapping[str, tuple[int, ...]] = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_WORDS = {"bilinear": "linear", "bicubic": "cubic"}


@dataclass(frozen=True, slots=True)
class Sampled:
    """The sampling of one image axis: its size, and the treatment of positions at and beyond its borders."""

    size: int
    mode: str
    padding: str
    is_aligned: bool

    @property
    def low(self) -> float:
        """The lower border."""
        return 0.0 if self.is_aligned else -0.5

    @property
    def high(self) -> float:
        """The upper border."""
        return self.size - 1.0 if self.is_aligned else self.size - 0.5

    def inside(self, place: str) -> str:
        """Return a position clamped to the image, if required."""
        if self.padding == "border":
            is_outside = f"{place} < {self.low!r} | {place} > {self.high!r}"
            return f"select({is_outside}, min(max({place}, 0), {self.size - 1}), {place})"
        if self.padding == "reflection":
            return self.reflected(place)
        return place

    def reflected(self, place: str) -> str:
        """Return a position reflected at the borders until it is between them."""
        return f"reflected({place}, f32({self.low!r}), f32({self.high!r}))"

    def weight(self, tap: int, part: str) -> str:
        """Return the weight of a tap from the fractional part of a position."""
        if self.mode == "nearest":
            return "f32(1)"
        if self.mode == "linear":
            return f"(1 - {part})" if tap == 0 else part
        distance = {-1: f"({part} + 1)", 0: part, 1: f"(1 - {part})", 2: f"(2 - {part})"}[tap]
        if tap in (0, 1):
            return f"((1.25 * {distance} - 2.25) * {distance} * {distance} + 1)"
        return f"(((-0.75 * {distance} + 3.75) * {distance} - 6) * {distance} + 3)"


def _axis(o: Applied, grid: Value, component: int, how: Sampled) -> tuple[Value, Value]:
    """Return the index along an axis, and the weight, for each position and tap."""
    if how.padding == "reflection" and how.high == how.low:
        raise NotTaken("mirrored at the borders of one element")
    text = o.text()
    if how.padding == "reflection":
        text.define(_REFLECTED)
    places = text.read(grid)
    taps = _TAPS[how.mode]
    index = text.write("i64", (*grid.shape[:-1], len(taps)))
    weights = text.write("f32", index.shape)
    place, base = text.temp("f32", grid.shape[:-1]), text.temp("f32", grid.shape[:-1])
    at, loops = axes_of(grid.shape[:-1])
    given = cast(places.term([*at, str(component)]), "f32").text
    x = (
        f"(({given} + 1) / 2 * {how.size - 1})"
        if how.is_aligned
        else f"((({given} + 1) * {how.size} - 1) / 2)"
    )
    text.loop(loops, f"{place.at(at)} = {x if how.mode != 'nearest' else f'round({x}, even)'};")
    text.loop(loops, f"{place.at(at)} = {how.inside(place.at(at))};")
    text.loop(loops, f"{base.at(at)} = round({place.at(at)}, {'zero' if how.mode == 'nearest' else 'down'});")
    part = f"({place.at(at)} - {base.at(at)})"
    for number, tap in enumerate(taps):
        there = f"({base.at(at)} + {tap})"
        weight = how.weight(tap, part)
        if how.padding == "zeros":
            weight = f"select({there} >= 0 & {there} <= {how.size - 1}, {weight}, 0)"
        elif how.padding == "reflection":
            there = how.reflected(there)
        inside = f"min(max({there}, 0), {how.size - 1})"
        where = [*at, str(number)]
        text.loop(loops, f"{index.at(where)} = sat_i64({inside});", f"{weights.at(where)} = {weight};")
    found = text.all_done()
    return found[0], found[1]


def _grid_sample(o: Applied) -> Value:
    x, grid = o[0], o[1]
    count = x.rank - 2
    if count < 1 or grid.rank != x.rank or grid.shape[-1] != count or grid.shape[0] != x.shape[0]:
        raise NotTaken(f"a grid {list(grid.shape)} for an image {list(x.shape)}")
    word = o.word("mode", "linear")
    mode, padding = _WORDS.get(word, word), o.word("padding_mode", "zeros")
    if mode not in _TAPS or padding not in ("zeros", "border", "reflection"):
        raise NotTaken(f"the mode `{word}`, or `{padding}`, has no kernel here")
    is_aligned = bool(o.integer("align_corners", 0))
    n, channels, sizes, results = x.shape[0], x.shape[1], x.shape[2:], grid.shape[1:-1]
    flat = grid.shaped((n, prod(results), count))
    axes = [
        _axis(o, flat, count - 1 - axis, Sampled(size, mode, padding, is_aligned))
        for axis, size in enumerate(sizes)
    ]
    taps = len(_TAPS[mode])
    o.making.reserve(n)
    rows = known_value((np.arange(n) * prod(sizes)).reshape(-1, *(1 for _ in range(count + 1))), "i64")
    spread: list[tuple[Value, Value]] = []
    for axis, pair in enumerate(axes):
        shape = (n, prod(results), *(taps if a == axis else 1 for a in range(count)))
        spread.append((pair[0].shaped(shape), pair[1].shaped(shape)))
        step = known_value(np.asarray(prod(sizes[axis + 1 :])), "i64")
        rows = o.map("{0} + {1} * {2}", rows, spread[-1][0], step)
    weights = spread[0][1]
    for _, more in spread[1:]:
        weights = o.map("{0} * {1}", weights, more)
    order = (0, *range(2, x.rank), 1)
    pixels = transpose_axes(o, x, order).shaped((n * prod(sizes), channels))
    taken = gather_slices(o, pixels, 0, rows).shaped((n, prod(results), taps**count, channels))
    return _sum_taps(o, taken, weights.shaped((n, prod(results), taps**count))).shaped(
        (n, channels, *results)
    )


def _sum_taps(o: Applied, taken: Value, weights: Value) -> Value:
    """Return the weighted sum of taps for each position and channel, channels first."""
    n, places, taps, channels = taken.shape
    text, inside = o.text(), wide_type(taken.dtype)
    pixels, factors = text.read(taken), text.read(weights)
    y = text.write(taken.dtype, (n, channels, places))
    total = accumulator_type(text, inside, y.shape, y)
    at, loops = axes_of(y.shape)
    (t,), inner = axes_of((taps,), "t")
    value = cast(pixels.term([at[0], at[2], t, at[1]]), inside).text
    factor = cast(TextTerm(factors.at([at[0], at[2], t]), "f32"), inside).text
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {value} * {factor};")
    return round_sums(text, total, y)


def _lower_unpooling(o: Applied) -> Value:
    x, places = o[0], o[1]
    if o.optional(2) is not None:
        raise NotTaken("with sizes of its own it has no kernel here")
    window, count = o.list("kernel_shape") or (), x.rank - 2
    strides, pads = o.list("strides") or (1,) * count, o.list("pads") or (0,) * (2 * count)
    sizes = [
        (size - 1) * s + k - pads[n] - pads[count + n]
        for n, (size, s, k) in enumerate(zip(x.shape[2:], strides, window, strict=True))
    ]
    total = prod((*x.shape[:2], *sizes))
    o.making.reserve(total)
    zeros = known_value(np.zeros(total), x.dtype)
    y = o.making.fresh(x.dtype, (*x.shape[:2], *sizes))
    size = 8 if places.dtype == "i64" else 4
    numbers = (0, 0, 1, 0, size_bytes(x.dtype, ()), size, total, x.count)
    o.making.move("scatter_elements", (zeros, places, x), (y,), *numbers)
    return y


SAMPLING: Mapping[str, Lowered] = {"GridSample": _grid_sample, "MaxUnpool": _lower_unpooling}
