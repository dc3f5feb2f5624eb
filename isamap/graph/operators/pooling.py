"""Sliding windows over an image, and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.making import WORK_OF_PLACE, KernelText, Operand, Value, axes_of
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.products import accumulator_type, round_sums
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
    low = lowest(x.dtype)
    at, loops, pixel, inner = tap(text, x, y, found, low)
    text.loop(loops, f"{y.at(at)} = {low};")
    text.loop({**loops, **inner}, f"{y.at(at)} max= {pixel};")
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
    def lowered(o: Applied) -> Value:
        x = o[0]
        if x.rank < 3:
            raise NotTaken("no image")
        text, inside = o.text(), wide_type(x.dtype)
        image = text.read(x)
        y = text.write(x.dtype, x.shape[:2])
        at, loops = axes_of(y.shape)
        places, inner = axes_of(x.shape[2:], "k")
        total = accumulator_type(text, inside if name == "mean" else x.dtype, y.shape, y)
        pixel = cast(image.term([*at, *places]), total.dtype).text
        text.loop(loops, f"{total.at(at)} = {'0' if name == 'mean' else lowest(x.dtype)};")
        text.loop({**loops, **inner}, f"{total.at(at)} {'+=' if name == 'mean' else 'max='} {pixel};")
        if name == "mean":
            text.loop(loops, f"{total.at(at)} = {total.at(at)} / {prod(x.shape[2:])};")
        return round_sums(text, total, y).shaped((*x.shape[:2], *(1 for _ in x.shape[2:])))

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
        f"{total.name}[{', '.join([*from_[:2], *index])}] += {cast(columns.term(from_), total.dtype).text};",
    )
    at, loops = axes_of(y.shape)
    inner = [f"{p} + {b}" for p, b in zip(at[2:], found.before, strict=True)]
    value = TextTerm(f"{total.name}[{', '.join([*at[:2], *inner])}]", total.dtype)
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
