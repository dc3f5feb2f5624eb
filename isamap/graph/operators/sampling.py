"""Sample images at data-determined positions: indices and weights by kernels, rows by a move, sums by a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of
from isamap.graph.operators.data_movement import transpose_axes
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.indexing import gather_slices
from isamap.graph.operators.products import accumulator_type, round_sums
from isamap.graph.terms import NotTaken, TextTerm, cast, wide_type
from isamap.graph.types import size_bytes

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
