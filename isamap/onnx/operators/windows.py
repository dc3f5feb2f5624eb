"""Convolutions and pooling: what a window that moves over an image is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from isamap.ir import DTYPES
from isamap.models.terms import NotTaken, Term, cast, number, wide
from isamap.onnx.applied import Applied, element, known_value
from isamap.onnx.making import Operand, Text, Value, axes_of
from isamap.onnx.operators.elementwise import Lowered
from isamap.onnx.operators.products import accumulator, finished


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows lie: by axis of the image its size, those of the window, and of the result."""

    image: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """How far each window reaches."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.window, self.dilations, strict=True))

    def places(self, at: Sequence[str], taps: Sequence[str]) -> list[str]:
        """The place in the image of a tap of a window, by axis."""
        return [
            f"{p}*{s} + {t}*{d} - {b}"
            for p, s, t, d, b in zip(at, self.strides, taps, self.dilations, self.before, strict=True)
        ]

    @property
    def is_inside(self) -> bool:
        """Whether all taps of all windows lie in the image."""
        last = (
            (r - 1) * s + k - b
            for r, s, k, b in zip(self.result, self.strides, self.reach, self.before, strict=True)
        )
        return not any(self.before) and all(end <= size for end, size in zip(last, self.image, strict=True))


def windows(o: Applied, image: Sequence[int], window: Sequence[int], *, ceil: bool = False) -> Windows:
    """The windows of a node over an image. Raises: NotTaken."""
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
            wanted = -(-size // strides[n])
            missing = max(0, (wanted - 1) * strides[n] + reach[n] - size)
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


# --- convolutions -----------------------------------------------------------------------------------------


def _conv(o: Applied) -> Value:
    return convolved(o, o[0], o[1], o.optional(2), o[0].dtype)


def convolved(
    o: Applied,
    x: Value,
    w: Value,
    bias: Value | None,
    dtype: str,
    points: tuple[Value | None, Value | None] = (None, None),
) -> Value:
    """A convolution of what is left behind zero points, one of the image and one of each filter or of all."""
    groups = o.integer("group", 1)
    found = windows(o, x.shape[2:], o.list("kernel_shape") or w.shape[2:])
    if x.rank != w.rank or x.rank < 3 or w.shape[2:] != found.window:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)}")
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)} in {groups} groups")
    channels, filters = w.shape[1], w.shape[0] // groups
    text, inside = o.text(), wide(dtype)
    image = text.read(x.shaped((x.shape[0], groups, channels, *found.image)))
    kernels = text.read(w.shaped((groups, filters, *w.shape[1:])))
    result = text.write(dtype, (x.shape[0], groups, filters, *found.result))
    total = accumulator(text, inside, result.shape, result)
    at, loops = axes_of(result.shape)
    taps, inner = axes_of((channels, *found.window), "r")
    n, g, k, *p = at
    start = "0" if bias is None else cast(text.read(bias.shaped((groups, filters))).term([g, k]), inside).text
    text.loop(loops, f"{total.at(at)} = {start};")
    places = found.places(p, taps[1:])
    point = points[0]
    zero = "0" if point is None else element(text, point.shaped(()), ()).text
    index = [n, g, taps[0], *places]
    pixel = Term(
        image.at(index) if found.is_inside else image.filled(_kept(index, image.shape, 3), zero), image.dtype
    )
    left = cast(pixel, inside).text
    left = left if point is None else f"({left} - {cast(Term(zero, image.dtype), inside).text})"
    right = cast(kernels.term([g, k, *taps]), inside).text
    if points[1] is not None:
        other = points[1].shaped(()) if points[1].count == 1 else points[1].shaped((groups, filters))
        right = f"({right} - {cast(element(text, other, [g, k] if other.rank else []), inside).text})"
    text.loop({**loops, **inner}, f"{total.at(at)} += {left} * {right};")
    return finished(text, total, result).shaped((x.shape[0], w.shape[0], *found.result))


def _kept(index: Sequence[str], shape: Sequence[int], first: int) -> list[str]:
    """An index in which places of an image stay, as they may lie beside it."""
    return [
        i if n >= first or size != 1 else "0" for n, (i, size) in enumerate(zip(index, shape, strict=True))
    ]


def _conv_integer(o: Applied) -> Value:
    return convolved(o, o[0], o[1], None, "i32", (o.optional(2), o.optional(3)))


def _conv_transpose(o: Applied) -> Value:
    x, w, bias = o[0], o[1], o.optional(2)
    groups, count = o.integer("group", 1), x.rank - 2
    strides, dilations = o.list("strides") or (1,) * count, o.list("dilations") or (1,) * count
    more = o.list("output_padding") or (0,) * count
    if w.rank != x.rank or x.shape[1] != w.shape[0] or x.shape[1] % groups:
        raise NotTaken(f"filters {list(w.shape)} for an image {list(x.shape)} in {groups} groups")
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [(size - 1) * s + r for size, s, r in zip(x.shape[2:], strides, reach, strict=True)]
    before, result = _cropped(o, full, more, x.shape[2:], strides)
    channels, filters = x.shape[1] // groups, w.shape[1]
    text, inside = o.text(), wide(x.dtype)
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
    target = f"{total.name}[{', '.join(_kept([pixels[0], pixels[1], k, *there], total.shape, 3))}]"
    text.loop({**over, **of_filter, **inner}, f"{target} += {left} * {right};")
    at, loops = axes_of(y.shape)
    index = [*at[:3], *(f"{p} + {b}" for p, b in zip(at[3:], before, strict=True))]
    value = cast(
        Term(total.filled(_kept(index, total.shape, 3), "0").replace("+ -", "- "), inside), inside
    ).text
    if bias is not None:
        value = f"{value} + {cast(text.read(bias.shaped((groups, filters))).term(at[1:3]), inside).text}"
    text.loop(loops, f"{y.at(at)} = {cast(Term(f'({value})', inside), y.dtype).text};")
    return text.done().shaped((x.shape[0], w.shape[1] * groups, *result))


def _cropped(
    o: Applied, full: Sequence[int], more: Sequence[int], image: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How much is left out before, and the sizes of the result, of a transposed convolution."""
    count = len(full)
    kind, wanted = o.word("auto_pad", "NOTSET"), o.list("output_shape")
    pads = o.list("pads") or (0,) * (2 * count)
    if wanted is None and kind in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(size * s for size, s in zip(image, strides, strict=True))
    if wanted is None:
        sizes = [f - pads[n] - pads[count + n] + more[n] for n, f in enumerate(full)]
        return list(pads[:count]), sizes
    wanted = wanted[-count:]
    totals = [max(0, f + more[n] - wanted[n]) for n, f in enumerate(full)]
    before = [-(-t // 2) if kind == "SAME_LOWER" or (kind == "NOTSET") else t // 2 for t in totals]
    if kind == "NOTSET":
        before = [t - t // 2 for t in totals]
    return before, list(wanted)


# --- pooling ----------------------------------------------------------------------------------------------


def _pooled(o: Applied) -> tuple[Value, Windows, tuple[int, ...]]:
    """The image in planes, the windows over it, and the sizes of the result."""
    x = o[0]
    window = o.list("kernel_shape")
    if window is None or x.rank < 3:
        raise NotTaken("no window, or no image")
    found = windows(o, x.shape[2:], window, ceil=bool(o.integer("ceil_mode", 0)))
    planes = x.shaped((x.shape[0] * x.shape[1], *x.shape[2:]))
    return planes, found, (*x.shape[:2], *found.result)


def lowest(dtype: str) -> str:
    """The smallest value of a type as text."""
    return "-inf" if DTYPES[dtype].is_float else cast(number(DTYPES[dtype].low), dtype).text


def _max_pool(o: Applied) -> Value | tuple[Value, ...]:
    x, found, shape = _pooled(o)
    text = o.text()
    image = text.read(x)
    y = text.write(x.dtype, (x.shape[0], *found.result))
    at, loops = axes_of(y.shape)
    taps, inner = axes_of(found.window, "r")
    places = found.places(at[1:], taps)
    index = _kept([at[0], *places], image.shape, 1)
    low = lowest(x.dtype)
    pixel = image.at(index) if found.is_inside else image.filled(index, low)
    text.loop(loops, f"{y.at(at)} = {low};")
    text.loop({**loops, **inner}, f"{y.at(at)} max= {pixel};")
    if o.results < 2:
        return text.done().shaped(shape)
    columns = bool(o.integer("storage_order", 0))
    weights = [
        prod(found.image[:n]) if columns else prod(found.image[n + 1 :]) for n in range(len(found.image))
    ]
    flat = " + ".join(f"i64({p}) * {w}" for p, w in zip(places, weights, strict=True))
    flat = f"{flat} + i64({at[0]}) * {prod(found.image)}"
    inside = " & ".join(
        f"(i64({p}) >= 0) & (i64({p}) < {s})" for p, s in zip(places, found.image, strict=True)
    )
    where = text.write("i64", y.shape)
    most = "0x7fffffffffffffff"
    text.loop(loops, f"{where.at(at)} = {most};")
    text.loop(
        {**loops, **inner}, f"{where.at(at)} min= select({inside} & ({pixel} == {y.at(at)}), {flat}, {most});"
    )
    return tuple(value.shaped(shape) for value in text.all_done())


def _average_pool(o: Applied) -> Value:
    x, found, shape = _pooled(o)
    counts = _counts(found, counts_padding=bool(o.integer("count_include_pad", 0)))
    text, inside = o.text(), wide(x.dtype)
    y = text.write(x.dtype, (x.shape[0], *found.result))
    total = accumulator(text, inside, y.shape, y)
    at, loops, pixel, inner = _tap(text, x, y, found, "0")
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {cast(Term(pixel, x.dtype), inside).text};")
    factors: list[str] = []
    for axis, count in zip(at[1:], counts, strict=True):
        value = known_value(count if len(set(count)) > 1 else count[:1], inside)
        factors.append(element(text, value, [axis]).text)
    text.loop(loops, f"{total.at(at)} = {total.at(at)} / ({' * '.join(factors)});")
    return finished(text, total, y).shaped(shape)


def _tap(
    text: Text, x: Value, y: Operand, found: Windows, fill: str
) -> tuple[list[str], dict[str, int], str, dict[str, int]]:
    image = text.read(x)
    at, loops = axes_of(y.shape)
    taps, inner = axes_of(found.window, "r")
    index = _kept([at[0], *found.places(at[1:], taps)], image.shape, 1)
    return at, loops, image.at(index) if found.is_inside else image.filled(index, fill), inner


def _counts(found: Windows, *, counts_padding: bool) -> list[list[float]]:
    """By how many elements each sum is divided, by axis."""
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
    x, found, shape = _pooled(o)
    p = o.real("p", 2)
    text = o.text()
    y = text.write(x.dtype, (x.shape[0], *found.result))
    total = text.temp("f64", y.shape)
    at, loops, pixel, inner = _tap(text, x, y, found, "0")
    text.loop(loops, f"{total.at(at)} = 0;")
    base = cast(Term(pixel, x.dtype), "f64").text
    text.loop({**loops, **inner}, f"{total.at(at)} += {powered(base, p)};")
    root = {1.0: "{0}", 2.0: "sqrt({0})"}.get(p, f"select({{0}} == 0, 0, exp(log({{0}}) / {p!r}))")
    text.loop(loops, f"{y.at(at)} = {cast(Term(root.format(total.at(at)), 'f64'), y.dtype).text};")
    return text.done().shaped(shape)


def powered(base: str, p: float) -> str:
    """The absolute value of a text in f64 to a power."""
    if p == 1:
        return f"abs({base})"
    if p == int(p) and 0 < p < 8:
        return " * ".join([f"abs({base})"] * int(p))
    return f"select({base} == 0, 0, exp(log(abs({base})) * {p!r}))"


def _global(name: str) -> Lowered:
    def lowered(o: Applied) -> Value:
        x = o[0]
        if x.rank < 3:
            raise NotTaken("no image")
        text, inside = o.text(), wide(x.dtype)
        planes, size = x.shape[0] * x.shape[1], prod(x.shape[2:])
        image = text.read(x.shaped((planes, size)))
        y = text.write(x.dtype, (planes,))
        (n,), loops = axes_of((planes,))
        (k,), inner = axes_of((size,), "k")
        total = accumulator(text, inside if name == "mean" else x.dtype, (planes,), y)
        pixel = cast(image.term([n, k]), total.dtype).text
        text.loop(loops, f"{total.at([n])} = {'0' if name == 'mean' else lowest(x.dtype)};")
        text.loop({**loops, **inner}, f"{total.at([n])} {'+=' if name == 'mean' else 'max='} {pixel};")
        if name == "mean":
            text.loop(loops, f"{total.at([n])} = {total.at([n])} / {size};")
        return finished(text, total, y).shaped((*x.shape[:2], *(1 for _ in x.shape[2:])))

    return lowered


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
    total = text.temp(wide(x.dtype), (x.shape[0], channels, *full))
    at, loops = axes_of(total.shape)
    text.loop(loops, f"{total.at(at)} = 0;")
    from_, over = axes_of(columns.shape, "c")
    taps, places = from_[2 : 2 + len(block)], from_[2 + len(block) :]
    index = [
        f"{p}*{s} + {t}*{d}" for p, s, t, d in zip(places, found.strides, taps, found.dilations, strict=True)
    ]
    text.loop(
        over,
        f"{total.name}[{', '.join([*from_[:2], *index])}] += {cast(columns.term(from_), total.dtype).text};",
    )
    at, loops = axes_of(y.shape)
    inner = [f"{p} + {b}" for p, b in zip(at[2:], found.before, strict=True)]
    value = Term(f"{total.name}[{', '.join([*at[:2], *inner])}]", total.dtype)
    text.loop(loops, f"{y.at(at)} = {cast(value, y.dtype).text};")
    return text.done()


WINDOWS: Mapping[str, Lowered] = {
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"),
    "Col2Im": _col2im,
}
