"""Sliding windows over an image: pooling and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.making import WORK_OF_PLACE, KernelText, Operand, Value, axes_of
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.products import accumulator_type, is_zero, round_into, round_sums
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type
from isamap.ir import DTYPES


@dataclass(frozen=True, slots=True)
class Windows:
    """The geometry of windows: for each axis the sizes of image, window and result."""

    image: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of a window along each axis, including dilation."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilations, strict=True))

    def places(self, at: Sequence[str], taps: Sequence[str]) -> list[str]:
        """Return the image position of a window's tap along each axis."""
        return [
            f"{p}*{s} + {t}*{d} - {b}"
            for p, s, t, d, b in zip(at, self.strides, taps, self.dilations, self.before, strict=True)
        ]

    @property
    def border(self) -> tuple[tuple[int, int], ...]:
        """The padding that windows need before and after the image, by axis."""
        sizes = zip(self.result, self.strides, self.reach, self.before, self.image, strict=True)
        return tuple((b, max(0, (r - 1) * s + k - b - size)) for r, s, k, b, size in sizes)

    @property
    def is_inside(self) -> bool:
        """Return whether all taps of all windows lie in the image."""
        return not any(self.before) and not any(behind for _, behind in self.border)


def windows(o: Applied, image: Sequence[int], window: Sequence[int], *, ceil: bool = False) -> Windows:
    """Return the windows of a node over an image. Raises: NotTaken."""
    count = len(image)
    strides, dilations = o.list("strides") or (1,) * count, o.list("dilations") or (1,) * count
    given = o.list("pads") or (0,) * (2 * count)
    if not len(window) == len(strides) == len(dilations) == count or len(given) != 2 * count:
        raise NotTaken(f"attributes for another number of dimensions than {count}")
    if min((*strides, *dilations, *window), default=1) < 1:
        raise NotTaken("a stride, a dilation or a window below 1")
    before, behind = list(given[:count]), list(given[count:])
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    kind = o.word("auto_pad", "NOTSET")
    result: list[int] = []
    for n, size in enumerate(image):
        if kind in ("SAME_UPPER", "SAME_LOWER"):
            target = -(-size // strides[n])
            missing = max(0, (target - 1) * strides[n] + reach[n] - size)
            before[n] = missing // 2 if kind == "SAME_UPPER" else -(-missing // 2)
            behind[n] = missing - before[n]
        elif kind == "VALID":
            before[n] = behind[n] = 0
        room = size + before[n] + behind[n] - reach[n]
        if room < 0:
            raise NotTaken(f"a window of {reach[n]} over {size + before[n] + behind[n]} elements")
        is_ceil = ceil and kind == "NOTSET"
        along = (-(-room // strides[n]) if is_ceil else room // strides[n]) + 1
        if is_ceil and (along - 1) * strides[n] >= size + before[n]:
            along -= 1  # it would begin behind the image
        result.append(along)
    made = (strides, dilations, before, behind, result)
    return Windows(tuple(image), tuple(window), *(tuple(one) for one in made))


def index_kept(index: Sequence[str], shape: Sequence[int], first: int) -> list[str]:
    """Return an index with the counter of axes of length 1, from the axis `first` on."""
    return [
        i if n >= first or size != 1 else "0" for n, (i, size) in enumerate(zip(index, shape, strict=True))
    ]


# --- pooling ----------------------------------------------------------------------------------------------


def find_windows(o: Applied) -> tuple[Value, Windows]:
    """Return the image, and the windows over it."""
    x = o[0]
    window = o.list("kernel_shape")
    if window is None or x.rank < 3:
        raise NotTaken("no window, or no image")
    return x, windows(o, x.shape[2:], window, ceil=bool(o.integer("ceil_mode", 0)))


def lowest(dtype: str) -> str:
    """Return the smallest value of a type as text."""
    return "-inf" if DTYPES[dtype].is_float else cast(number(DTYPES[dtype].low), dtype).text


def is_extreme(element: str, found: str, dtype: str) -> str:
    """Return the condition that an element is the extreme value. A NaN is the extreme of a window with NaN.

    If one of the elements is NaN, NaN was found, and each NaN is it.
    """
    return f"{element} == {found}" + (f" | {element} != {element}" if DTYPES[dtype].is_float else "")


def _max_pool(o: Applied) -> Value | tuple[Value, ...]:
    x, found = find_windows(o)
    text = o.text()
    y = text.write(x.dtype, (*x.shape[:2], *found.result), x.order)
    top = accumulator_type(text, wide_type(x.dtype), y.shape, y)
    at, loops, pixel, inner = tap(text, x, y, found, lowest(x.dtype))
    text.loop(loops, f"{top.at(at)} = {lowest(top.dtype)};")
    text.loop({**loops, **inner}, f"{top.at(at)} max= {cast(TextTerm(pixel, x.dtype), top.dtype).text};")
    round_into(text, top, y)
    if o.results < 2:
        return text.done()
    places = found.places(at[2:], list(axes_of(found.window, "r")[0]))
    columns = bool(o.integer("storage_order", 0))
    weights = [
        prod(found.image[:n]) if columns else prod(found.image[n + 1 :]) for n in range(len(found.image))
    ]
    flat = " + ".join(f"i64({p}) * {w}" for p, w in zip(places, weights, strict=True))
    flat = f"{flat} + (i64({at[0]}) * {x.shape[1]} + i64({at[1]})) * {prod(found.image)}"
    inside = " & ".join(
        f"(i64({p}) >= 0) & (i64({p}) < {s})" for p, s in zip(places, found.image, strict=True)
    )
    where = text.write("i64", y.shape, y.order)
    most = "0x7fffffffffffffff"
    text.loop(loops, f"{where.at(at)} = {most};")
    text.loop(
        {**loops, **inner},
        f"{where.at(at)} min= select({inside} & ({is_extreme(pixel, y.at(at), x.dtype)}), {flat}, {most});",
    )
    return text.all_done()


def _average_pool(o: Applied) -> Value:
    x, found = find_windows(o)
    counts = counts_of(o, found, counts_padding=bool(o.integer("count_include_pad", 0)))
    text, inside = o.text(), wide_type(x.dtype)
    y = text.write(x.dtype, (*x.shape[:2], *found.result), x.order)
    total = accumulator_type(text, inside, y.shape, y)
    at, loops, pixel, inner = tap(text, x, y, found, "0")
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {cast(TextTerm(pixel, x.dtype), inside).text};")
    factors: list[str] = []
    for axis, count in zip(at[2:], counts, strict=True):
        value = known_value(count if len(set(count)) > 1 else count[:1], inside)
        factors.append(element(text, value, [axis]).text)
    text.loop(loops, f"{total.at(at)} = {total.at(at)} / ({' * '.join(factors)});")
    return round_sums(text, total, y)


def tap(
    text: KernelText, x: Value, y: Operand, found: Windows, fill: str
) -> tuple[list[str], dict[str, int], str, dict[str, int]]:
    """Return a result element with its loops, and the pixel under each tap with the tap loops."""
    image = text.read(x)
    at, _ = axes_of(y.shape)
    loops = y.loops(at)
    taps, inner = axes_of(found.window, "r")
    index = index_kept([*at[:2], *found.places(at[2:], taps)], image.shape, 2)
    return at, loops, image.at(index) if found.is_inside else image.filled(index, fill), inner


def counts_of(o: Applied, found: Windows, *, counts_padding: bool) -> list[list[float]]:
    """Return the divisor of each window's sum, by axis. Raises: NotTaken for a large table."""
    o.making.reserve(WORK_OF_PLACE * sum(r * w for r, w in zip(found.result, found.window, strict=True)))
    counts: list[list[float]] = []
    for n, size in enumerate(found.image):
        low, high = (-found.before[n], size + found.behind[n]) if counts_padding else (0, size)
        of_axis: list[float] = []
        for p in range(found.result[n]):
            start = p * found.strides[n] - found.before[n]
            places = [start + t * found.dilations[n] for t in range(found.window[n])]
            of_axis.append(float(sum(low <= place < high for place in places)))
        counts.append(of_axis)
    return counts


def _lp_pool(o: Applied) -> Value:
    return _lp_norms(o, *find_windows(o))


def _global_lp_pool(o: Applied) -> Value:
    x = o[0]
    if x.rank < 3:
        raise NotTaken("no image")
    return _lp_norms(o, x, windows(o, x.shape[2:], x.shape[2:]))


def _lp_norms(o: Applied, x: Value, found: Windows) -> Value:
    """Return the p-norm of each window, summed in f64."""
    p = o.real("p", 2)
    text = o.text()
    y = text.write(x.dtype, (*x.shape[:2], *found.result), x.order)
    total = text.temp("f64", y.shape, y.order)
    at, loops, pixel, inner = tap(text, x, y, found, "0")
    text.loop(loops, f"{total.at(at)} = 0;")
    base = cast(TextTerm(pixel, x.dtype), "f64").text
    text.loop({**loops, **inner}, f"{total.at(at)} += {raise_to_power(base, p)};")
    root = {1.0: "{0}", 2.0: "sqrt({0})"}.get(p, f"select({{0}} == 0, 0, exp(log({{0}}) / {p!r}))")
    text.loop(loops, f"{y.at(at)} = {cast(TextTerm(root.format(total.at(at)), 'f64'), y.dtype).text};")
    return text.done()


def raise_to_power(base: str, p: float) -> str:
    """Return the absolute value of an f64 text raised to a power."""
    if p == 1:
        return f"abs({base})"
    if p == int(p) and 0 < p < 8:
        return " * ".join([f"abs({base})"] * int(p))
    return f"select({base} == 0, 0, exp(log(abs({base})) * {p!r}))"


def _global(name: str) -> Lowered:
    def lower(o: Applied) -> Value:
        x = o[0]
        if x.rank < 3:
            raise NotTaken("no image")
        text, inside = o.text(), wide_type(x.dtype)
        image = text.read(x)
        y = text.write(x.dtype, x.shape[:2])
        at, loops = axes_of(y.shape)
        places, inner = axes_of(x.shape[2:], "k")
        total = accumulator_type(text, inside, y.shape, y)
        pixel = cast(image.term([*at, *places]), total.dtype).text
        text.loop(loops, f"{total.at(at)} = {'0' if name == 'mean' else lowest(inside)};")
        text.loop({**loops, **inner}, f"{total.at(at)} {'+=' if name == 'mean' else 'max='} {pixel};")
        if name == "mean":
            text.loop(loops, f"{total.at(at)} = {total.at(at)} / {prod(x.shape[2:])};")
        return round_sums(text, total, y).shaped((*x.shape[:2], *(1 for _ in x.shape[2:])))

    return lower


def _col2im(o: Applied) -> Value:
    x, image, block = o[0], o.integers(1), o.integers(2)
    if image is None or block is None or x.rank != 3:
        raise NotTaken("no image, or no blocks")
    found = windows(o, image, block)
    channels = x.shape[1] // prod(block)
    text = o.text()
    columns = text.read(x.shaped((x.shape[0], channels, *block, *found.result)))
    full = [size + b + e for size, b, e in zip(image, found.before, found.behind, strict=True)]
    y = text.write(x.dtype, (x.shape[0], channels, *image))
    total = text.temp(wide_type(x.dtype), (x.shape[0], channels, *full))
    at, loops = axes_of(total.shape)
    text.loop(loops, f"{total.at(at)} = 0;")
    from_, over = axes_of(columns.shape, "c")
    taps, places = from_[2 : 2 + len(block)], from_[2 + len(block) :]
    index = [
        f"{p}*{s} + {t}*{d}" for p, s, t, d in zip(places, found.strides, taps, found.dilations, strict=True)
    ]
    text.loop(
        over,
        f"{total.at([*from_[:2], *index])} += {cast(columns.term(from_), total.dtype).text};",
    )
    at, loops = axes_of(y.shape)
    inner = [f"{p} + {b}" for p, b in zip(at[2:], found.before, strict=True)]
    value = total.term([*at[:2], *inner])
    text.loop(loops, f"{y.at(at)} = {cast(value, y.dtype).text};")
    return text.done()


WINDOWS: Mapping[str, Lowered] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"),
    "GlobalLpPool": _global_lp_pool,
    "Col2Im": _col2im,
}


# --- convolutions ---------------------------------------------------------------------------------------

# Convolutions: sums over a window that moves over an image. Multi-filter results have channels last.


def _conv(o: Applied) -> Value:
    return convolve(o, o[0], o[1], o.optional(2), o[0].dtype)


def convolve(
    o: Applied,
    x: Value,
    w: Value,
    bias: Value | None,
    dtype: str,
    points: tuple[Value | None, Value | None] = (None, None),
) -> Value:
    """Return a convolution of quantised data with zero points: one for the image, one per filter or for all."""
    groups = o.integer("group", 1)
    found = windows(o, x.shape[2:], o.list("kernel_shape") or w.shape[2:])
    if x.rank != w.rank or x.rank < 3 or w.shape[2:] != found.window:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)}")
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)} in {groups} groups")
    channels, filters = w.shape[1], w.shape[0] // groups
    text, inside = o.text(), wide_type(dtype)
    at, _ = axes_of((x.shape[0], groups, filters, *found.result))
    n, g, k, *p = at
    (c, *taps), inner = axes_of((channels, *found.window), "r")
    of_image, of_result = _several(groups, channels), _several(groups, filters)
    is_last = bool(x.order) if groups > 1 and not _several(channels, filters) else filters >= LEAST_LANES
    image = text.read(_split_channels(x, of_image))
    every = w.shaped((*_several(groups, filters, channels), *found.window))
    kernels = text.read(
        o.making.laid(every, _filters_order(every.rank, len(of_result), len(taps)) if is_last else ())
    )
    order = _last(len(of_result), len(p)) if is_last else ()
    result = text.write(dtype, (x.shape[0], *of_result, *found.result), order)
    total = accumulator_type(text, inside, result.shape, result)
    at = [n, *_name_axes(g, k), *p]
    loops = result.loops(at)
    point, other = (None if is_zero(p) else p for p in points)
    zero = "0" if point is None else element(text, point.shaped(()), ()).text
    if point is not None and other is None and (onto := _zero_point_term(point, w, bias)) is not None:
        bias, point = onto, None
    start = (
        "0" if bias is None else cast(text.read(bias.shaped(of_result)).term(_name_axes(g, k)), inside).text
    )
    text.loop(loops, f"{total.at(at)} = {start};")
    index = [n, *_name_axes(g, c), *found.places(p, taps)]
    first = len(index) - len(p)
    if point is None and not found.is_inside and min(found.before) >= 0:
        # As wide on both sides, so that what strides leave over makes no kernels of its own.
        text.border(image, (((0, 0),) * first) + tuple((max(b), max(b)) for b in found.border), zero)
    pixel = TextTerm(
        image.at(index) if found.is_inside else image.filled(index_kept(index, image.shape, first), zero),
        image.dtype,
    )
    left = cast(pixel, inside).text
    left = left if point is None else f"({left} - {cast(TextTerm(zero, image.dtype), inside).text})"
    right = cast(kernels.term([*_name_axes(g, k, c), *taps]), inside).text
    if other is not None:
        other = other.shaped(()) if other.count == 1 else other.shaped((groups, filters))
        right = f"({right} - {cast(element(text, other, [g, k] if other.rank else []), inside).text})"
    # The loop with most iterations is innermost: few loops begin and end, and filters are read in their order.
    sums = dict(sorted(inner.items(), key=lambda axis: axis[1])) if is_last else inner
    text.loop({**loops, **sums}, f"{total.at(at)} += {left} * {right};")
    return _merge_channels(round_sums(text, total, result), len(of_result), order)


def _zero_point_term(point: Value, w: Value, bias: Value | None) -> Value | None:
    """Return a bias minus the image's zero point times the sum of each filter, or None if one is unknown.

    The products then multiply the stored bytes, for which machines have instructions. Taps beyond the image read
    the zero point.
    Source: Jacob et al. 2018, equation 7.
    """
    if point.known is None or point.count != 1 or w.known is None or (bias and bias.known is None):
        return None
    sums = w.known.astype(np.int64).reshape(w.shape[0], -1).sum(axis=1)
    begun = 0 if bias is None or bias.known is None else bias.known.astype(np.int64).reshape(-1)
    onto = begun - int(point.known.reshape(-1)[0]) * sums
    fits = np.all((onto >= -(2**31)) & (onto < 2**31))
    return Value.of(onto.astype(np.int32)) if fits else None


# --- channels after the image ----------------------------------------------------------------------------

LEAST_LANES = 8
"""Filters from which on results lie channels last: registers hold neighbours, and these are of one pixel."""


def _several(*sizes: int) -> tuple[int, ...]:
    """Return the sizes without those that are 1."""
    return tuple(size for size in sizes if size != 1)


def _name_axes(*names: str) -> tuple[str, ...]:
    """Return the names of axes with several elements, as `axes_of` gives them."""
    return tuple(name for name in names if name != "0")


def _split_channels(x: Value, parts: tuple[int, ...]) -> Value:
    """Return an image whose channel axis is split into these parts, without moving elements."""
    more = len(parts) - 1
    places = [tuple(range(1, 1 + len(parts))) if n == 1 else (n + more if n else 0,) for n in x.order]
    order = tuple(axis for part in places for axis in part)
    return replace(x, order=()).shaped((x.shape[0], *parts, *x.shape[2:])).ordered(order)


def _merge_channels(y: Value, parts: int, order: tuple[int, ...]) -> Value:
    """Return a result with its channel axes merged as axis 1, given the order in which it was written."""
    shape = (y.shape[0], prod(y.shape[1 : 1 + parts]), *y.shape[1 + parts :])
    return replace(y, order=()).shaped(shape).ordered(_last(1, len(shape) - 2) if order else ())


def _last(parts: int, places: int) -> tuple[int, ...]:
    """Return the order of an image's axes with its channel axes last."""
    return (0, *range(1 + parts, 1 + parts + places), *range(1, 1 + parts))


def _filters_order(rank: int, parts: int, places: int) -> tuple[int, ...]:
    """Return the order of a filter's axes with the output channels, which fill registers, last."""
    window, channels = range(rank - places, rank), range(parts, rank - places)
    return (*range(parts - 1), *window, *channels, *range(max(0, parts - 1), parts))


def _conv_integer(o: Applied) -> Value:
    return convolve(o, o[0], o[1], None, "i32", (o.optional(2), o.optional(3)))


def _conv_transpose(o: Applied) -> Value:
    x, w, bias = o[0], o[1], o.optional(2)
    groups, count = o.integer("group", 1), x.rank - 2
    strides, dilations = o.list("strides") or (1,) * count, o.list("dilations") or (1,) * count
    more = o.list("output_padding") or (0,) * count
    window = o.list("kernel_shape") or w.shape[2:]
    if w.rank != x.rank or x.rank < 3 or window != w.shape[2:]:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)}")
    if groups < 1 or x.shape[1] != w.shape[0] or x.shape[1] % groups:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)} in {groups} groups")
    if min((*strides, *dilations, *window)) < 1 or min(more) < 0:
        raise NotTaken("a stride, a dilation or a window below 1, or a negative `output_padding`")
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [(size - 1) * s + r for size, s, r in zip(x.shape[2:], strides, reach, strict=True)]
    before, result = _crop_sizes(o, full, more, x.shape[2:], strides)
    channels, filters = x.shape[1] // groups, w.shape[1]
    text, inside = o.text(), wide_type(x.dtype)
    image = text.read(x.shaped((x.shape[0], groups, channels, *x.shape[2:])))
    kernels = text.read(w.shaped((groups, channels, *w.shape[1:])))
    y = text.write(x.dtype, (x.shape[0], groups, filters, *result))
    total = text.temp(inside, (x.shape[0], groups, filters, *full))
    at, loops = axes_of(total.shape)
    text.loop(loops, f"{total.at(at)} = 0;")
    pixels, over = axes_of(image.shape, "p")
    taps, inner = axes_of(w.shape[2:], "r")
    (k,), of_filter = axes_of((filters,), "k")
    there = [f"{p}*{s} + {t}*{d}" for p, s, t, d in zip(pixels[3:], strides, taps, dilations, strict=True)]
    left = cast(image.term(pixels), inside).text
    right = cast(kernels.term([pixels[1], pixels[2], k, *taps]), inside).text
    target = total.at([pixels[0], pixels[1], k, *there])
    text.loop({**over, **of_filter, **inner}, f"{target} += {left} * {right};")
    at, loops = axes_of(y.shape)
    index = [*at[:3], *(f"{p} + {b}" for p, b in zip(at[3:], before, strict=True))]
    value = cast(
        TextTerm(total.filled(index_kept(index, total.shape, 3), "0").replace("+ -", "- "), inside), inside
    ).text
    if bias is not None:
        value = f"{value} + {cast(text.read(bias.shaped((groups, filters))).term(at[1:3]), inside).text}"
    text.loop(loops, f"{y.at(at)} = {cast(TextTerm(f'({value})', inside), y.dtype).text};")
    return text.done().shaped((x.shape[0], w.shape[1] * groups, *result))


def _crop_sizes(
    o: Applied, full: Sequence[int], more: Sequence[int], image: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the cropping at the start, and the result sizes, of a transposed convolution."""
    count = len(full)
    kind, output_shape = o.word("auto_pad", "NOTSET"), o.list("output_shape")
    pads = o.list("pads") if kind != "VALID" else None
    pads = pads or (0,) * (2 * count)
    if len(pads) != 2 * count or len(output_shape or full) < count:
        raise NotTaken(f"attributes for another number of dimensions than {count}")
    if output_shape is None and kind in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = tuple(size * s for size, s in zip(image, strides, strict=True))
    if output_shape is None:
        sizes = [f - pads[n] - pads[count + n] + more[n] for n, f in enumerate(full)]
        if min(sizes) < 0:
            raise NotTaken(f"`pads` {list(pads)} that take away more than {full}")
        return list(pads[:count]), sizes
    output_shape = output_shape[-count:]
    totals = [max(0, f + more[n] - output_shape[n]) for n, f in enumerate(full)]
    return [t // 2 if kind == "SAME_UPPER" else t - t // 2 for t in totals], list(output_shape)


CONVOLUTIONS: Mapping[str, Lowered] = {
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
}
