"""Operators that pad or resize images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.graph import Array
from isamap.graph.making import WORK_OF_PLACE, Value, axes_of
from isamap.graph.operators.elementwise import Lowered, cast_value
from isamap.graph.operators.indexing import gather_slices
from isamap.graph.operators.products import accumulator_type, round_sums
from isamap.graph.terms import NotTaken, cast, number, wide_type
from isamap.ir import DTYPES

# --- borders ----------------------------------------------------------------------------------------------


def _pad(o: Applied) -> Value:
    x, mode = o[0], o.word("mode", "constant")
    given = o.integers(1) if o.opset >= 11 else o.list("pads") or o.list("paddings")
    axes = o.integers(3) if o.opset >= 18 else None
    axes = tuple(range(x.rank)) if axes is None else tuple(o.axis(a, x.rank) for a in axes)
    if given is None or len(given) != 2 * len(axes):
        raise NotTaken(f"{len(given or ())} numbers for the borders of {len(axes)} axes")
    before = dict(zip(axes, given[: len(axes)], strict=True))
    behind = dict(zip(axes, given[len(axes) :], strict=True))
    shape = [size + before.get(n, 0) + behind.get(n, 0) for n, size in enumerate(x.shape)]
    if any(size < 0 for size in shape):
        raise NotTaken("borders that take away more than there is")
    if mode != "constant":
        return _pad_borders(o, x, before, behind, mode)
    text = o.text()
    y = text.write(x.dtype, shape)
    at, loops = axes_of(shape)
    value = o.optional(2) if o.opset >= 11 else known_value(np.asarray(o.real("value", 0.0)), x.dtype)
    fill = (
        cast(number(False if x.dtype == "bool" else 0), x.dtype)
        if value is None
        else element(text, value.shaped(()), ())
    )
    if not x.count:
        text.loop(loops, f"{y.at(at)} = {fill.text};")
        return text.done()
    image = text.read(x)
    index = [
        f"{name} - {before[n]}".replace("- -", "+ ") if n in before else (name if x.shape[n] != 1 else "0")
        for n, name in enumerate(at)
    ]
    text.loop(loops, f"{y.at(at)} = {image.filled(index, fill.text)};")
    return text.done()


def _pad_borders(
    o: Applied, x: Value, before: Mapping[int, int], behind: Mapping[int, int], mode: str
) -> Value:
    """Return a value padded by its own elements."""
    for axis in before:
        size = x.shape[axis]
        o.making.reserve(size + before[axis] + behind[axis])
        places = np.arange(-before[axis], size + behind[axis])
        if not size:
            raise NotTaken("a border of an axis without elements")
        match mode:
            case "edge":
                places = np.clip(places, 0, size - 1)
            case "wrap":
                places = places % size
            case "reflect" if size > 1:
                places = np.abs((places + (size - 1)) % (2 * (size - 1)) - (size - 1))
            case "reflect":
                places = np.zeros_like(places)
            case _:
                raise NotTaken(f"the mode `{mode}` has no kernel here")
        if len(places) != size or np.any(places != np.arange(size)):
            x = gather_slices(o, x, axis, known_value(places, "i64"))
    return x


# --- other sizes ------------------------------------------------------------------------------------------


MOST_PLACES = 1 << 18
"""Places in an image that one axis of a result is made of."""


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """The resizing of one axis: its sizes before and after, the factor, and the used part."""

    before: int
    behind: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The interpolation between elements."""

    mode: str
    places: str
    nearest: str
    cubic: float
    is_antialiased: bool
    leaves_out: bool


def _place(along: ResizedAxis, how: Interpolation, i: int) -> float:
    """Return the image position of a result element. Raises: NotTaken."""
    n, s = along.before, along.scale
    m = s * n  # not rounded, as ONNX has it
    match how.places:
        case "half_pixel":
            return (i + 0.5) / s - 0.5
        case "half_pixel_symmetric":
            adjusted = along.behind / m
            return n / 2 * (1 - adjusted) + (i + 0.5) / s - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / s - 0.5 if m > 1 else 0.0
        case "align_corners":
            return i * (n - 1) / (m - 1) if m > 1 else 0.0
        case "asymmetric":
            return i / s
        case "tf_crop_and_resize":
            if m == 1:
                return 0.5 * (along.start + along.end) * (n - 1)
            return along.start * (n - 1) + i * (along.end - along.start) * (n - 1) / (m - 1)
        case _:
            raise NotTaken(f"the coordinates `{how.places}` have no kernel here")


def _weights(how: Interpolation, ratio: float, scale: float) -> tuple[int, list[float]]:
    """Return the first tap, relative to the element on the left, and all weights. Raises: NotTaken."""
    s = min(scale, 1.0) if how.is_antialiased else 1.0
    match how.mode:
        case "nearest":
            rules: dict[str, bool] = {
                "round_prefer_floor": ratio > 0.5,
                "round_prefer_ceil": ratio >= 0.5,
                "floor": False,
                "ceil": True,
            }
            if how.nearest not in rules:
                raise NotTaken(f"the mode `{how.nearest}` has no kernel here")
            return int(rules[how.nearest] or ratio == 1), [1.0]
        case "linear":
            first = floor(-1 / s) + 1
            found = [max(0.0, 1 - abs((t - ratio) * s)) for t in range(first, 2 - first)]
        case "cubic":
            first = floor(-2 / s) + 1
            found = [_cubic(abs(s * (t - ratio)), how.cubic) for t in range(first, 2 - first)]
        case _:
            raise NotTaken(f"the mode `{how.mode}` has no kernel here")
    total = sum(found) if how.is_antialiased else 1.0
    return first, [weight / total for weight in found]


def _cubic(x: float, a: float) -> float:
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _taps(along: ResizedAxis, how: Interpolation) -> tuple[Any, Any]:
    """Return, for each element of the result, its source places in the image and their weights."""
    rows: list[tuple[list[int], list[float]]] = []
    for i in range(along.behind):
        x = _place(along, how, i)
        if how.places == "tf_crop_and_resize" and not 0 <= x <= along.before - 1:
            rows.append(([0], [0.0]))
            continue
        left = ceil(x) - 1
        first, weights = _weights(how, x - left, along.scale)
        places = [left + first + t for t in range(len(weights))]
        if how.leaves_out:
            weights = [w if 0 <= p < along.before else 0.0 for p, w in zip(places, weights, strict=True)]
            weights = [w / sum(weights) for w in weights]
        rows.append(([min(max(p, 0), along.before - 1) for p in places], weights))
    most = max(len(places) for places, _ in rows)
    padded = [(p + [0] * (most - len(p)), w + [0.0] * (most - len(w))) for p, w in rows]
    return np.asarray([p for p, _ in padded]), np.asarray([w for _, w in padded])


def resize_axes(o: Applied, x: Value, axes: Mapping[int, ResizedAxis], how: Interpolation) -> Value:
    """Return a value with some axes resized: repetitions together, others one by one.

    Integers are interpolated in f64 and then rounded half to even, as ONNX's evaluator does it. Raises:
    NotTaken for sizes beyond the limit of a result, before any place is computed.
    """
    for along in axes.values():
        reach = 1 + int(min(2 / along.scale, 1 << 30)) if 0 < along.scale < 1 and how.is_antialiased else 1
        if not 0 < along.scale < float("inf") or not 0 < along.behind * reach <= MOST_PLACES:
            raise NotTaken(f"an axis resized to {along.behind} elements, by {along.scale:g}")
        o.making.reserve(WORK_OF_PLACE, along.behind, reach)
    taps = {
        axis: _taps(along, how)
        for axis, along in axes.items()
        if along.before != along.behind or along.scale != 1 or how.places == "tf_crop_and_resize"
    }
    if DTYPES[x.dtype].is_integer and any(np.any(weights % 1) for _, weights in taps.values()):
        exact = resize_axes(o, cast_value(o, x, "f64"), axes, how)
        return o.map("round({0}, even)", exact, dtype=x.dtype, inside="f64")
    times = {
        axis: axes[axis].behind // axes[axis].before for axis in taps if _repeats(axes[axis], *taps[axis])
    }
    x = _repeat_elements(o, x, times) if times else x
    for axis, along in axes.items():
        if axis not in taps or axis in times:
            continue
        places, weights = taps[axis]
        count = places.shape[1]
        taken = gather_slices(o, x, axis, known_value(places.reshape(-1), "i64"))
        if count == 1 and np.all(weights == 1):
            x = taken
            continue
        inside = wide_type(x.dtype)
        outer, inner = x.shape[:axis], x.shape[axis + 1 :]
        text = o.text()
        image = text.read(taken.shaped((*outer, along.behind, count, *inner)))
        factors = text.read(known_value(weights, inside))
        y = text.write(x.dtype, (*outer, along.behind, *inner))
        total = accumulator_type(text, inside, y.shape, y)
        at, loops = axes_of(y.shape)
        (t,), over = axes_of((count,), "t")
        index = [*at[: axis + 1], t, *at[axis + 1 :]]
        text.loop(loops, f"{total.at(at)} = 0;")
        value = f"{cast(image.term(index), inside).text} * {factors.at([at[axis], t])}"
        text.loop({**loops, **over}, f"{total.at(at)} += {value};")
        x = round_sums(text, total, y)
    return x


def _repeats(along: ResizedAxis, places: Array, weights: Array) -> bool:
    """Return whether resizing only repeats each element equally often."""
    if places.shape[1] != 1 or np.any(weights != 1) or along.behind % along.before:
        return False
    times = along.behind // along.before
    return times > 0 and bool(np.all(places[:, 0] == np.arange(along.behind) // times))


def _repeat_elements(o: Applied, x: Value, times: Mapping[int, int]) -> Value:
    """Return a value with each element repeated along some axes, without moving it."""
    text = o.text()
    y = text.write(x.dtype, [size * times.get(n, 1) for n, size in enumerate(x.shape)], x.order)
    at, _ = axes_of(y.shape)
    index = [f"{name} / {times[n]}" if n in times else name for n, name in enumerate(at)]
    text.loop(y.loops(at), f"{y.at(at)} = {text.read(x).at(index)};")
    return text.done()


def _resize(o: Applied) -> Value:
    x = o[0]
    if o.opset < 11:
        return _upsample(o)
    roi, scales, sizes = o.known(1), o.known(2), o.integers(3)
    axes = o.list("axes") or tuple(range(x.rank))
    axes = tuple(o.axis(a, x.rank) for a in axes)
    how = Interpolation(
        o.word("mode", "nearest"),
        o.word("coordinate_transformation_mode", "half_pixel"),
        o.word("nearest_mode", "round_prefer_floor"),
        o.real("cubic_coeff_a", -0.75),
        bool(o.integer("antialias", 0)),
        bool(o.integer("exclude_outside", 0)),
    )
    if how.places == "tf_crop_and_resize" and o.real("extrapolation_value", 0.0) != 0:
        raise NotTaken("a value other than 0 outside of the image has no kernel here")
    if sizes:
        factors = [size / x.shape[a] for size, a in zip(sizes, axes, strict=True)]
        policy = o.word("keep_aspect_ratio_policy", "stretch")
        results = list(sizes)
        if policy != "stretch":
            one = min(factors) if policy == "not_larger" else max(factors)
            factors = [one] * len(axes)
            results = [floor(one * x.shape[a] + 0.5) for a in axes]
    elif scales is not None and scales.size:
        factors = [float(s) for s in scales]
        results = [floor(s * x.shape[a]) for s, a in zip(factors, axes, strict=True)]
    else:
        raise NotTaken("neither scales nor sizes are given")
    parts = [float(r) for r in roi] if roi is not None and roi.size else [0.0] * len(axes) + [1.0] * len(axes)
    along = {
        a: ResizedAxis(x.shape[a], r, s, parts[n], parts[len(axes) + n])
        for n, (a, r, s) in enumerate(zip(axes, results, factors, strict=True))
    }
    return resize_axes(o, x, along, how)


def _upsample(o: Applied) -> Value:
    x = o[0]
    given = o.attribute("scales") if o.opset < 9 else o.known(1)
    if given is None:
        raise NotTaken("no scales are given")
    scales = [float(s) for s in given]
    how = Interpolation(o.word("mode", "nearest"), "asymmetric", "floor", -0.75, False, False)
    along = {n: ResizedAxis(x.shape[n], floor(s * x.shape[n]), s) for n, s in enumerate(scales)}
    return resize_axes(o, x, along, how)


RESIZING: Mapping[str, Lowered] = {"Pad": _pad, "Resize": _resize, "Upsample": _upsample}
