"""Convolutions as cases: the rows of DeepBench and of networks, and their requirements.

    training row 3: 4 images of 1 channel, 161 x 700, 32 filters of 5 x 20  ->  ConvCase(position=3, n=4, …)

The layout of images and filters has channels before pixels (`nchw`, filters [k, c, r, s]) or after them
(`nhwc`, filters [r, s, c, k]). A group's channels follow those of the group before. The result is only
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from isamap.bench.cases import BF16, F32, U8S8, Types, requantising
from isamap.bench.kind import DataMovement
from isamap.bench.paired_timing import TimedContender
from isamap.bench.product_check import check_product
from isamap.bench.ring import Array, Shared, random_values
from isamap.source import Source, dataclass
from isamap.suites import Conv, read_suite

FORMS_OF_DTYPE: dict[str, tuple[Types, ...]] = {"f32": (F32,), "bf16": (BF16,), "int8": (U8S8,)}
NUMBERS = ("n", "c", "h", "w", "k", "r", "s", "stride_h", "stride_w", "pad_h", "pad_w", "groups")


@dataclass(frozen=True, slots=True)
class ConvCase:
    """A row of a convolution suite, with the numbers of its `shape`."""

    position: int
    suite: str
    layout: str
    n: int
    c: int
    h: int
    w: int
    k: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    groups: int

    @property
    def shape(self) -> Conv:
        return Conv(self.position, self.suite, *(getattr(self, name) for name in NUMBERS))

    @property
    def operations(self) -> int:
        """Multiplications and additions, including those of padding."""
        return self.shape.flops

    @property
    def label(self) -> str:
        """The images, the filters, and the stride and padding."""
        pair = f"{self.stride_h}" if self.stride_h == self.stride_w else f"{self.stride_h},{self.stride_w}"
        pads = f"{self.pad_h}" if self.pad_h == self.pad_w else f"{self.pad_h},{self.pad_w}"
        groups = f" g{self.groups}" if self.groups > 1 else ""
        image, filters = f"{self.n}x{self.c}x{self.h}x{self.w}", f"{self.k}x{self.r}x{self.s}"
        return f"{image} * {filters} s{pair} p{pads}{groups} {self.layout}"

    @property
    def class_name(self) -> str:
        """The kind of the row."""
        if self.groups > 1:
            return "depthwise" if self.groups == self.c else "grouped"
        size = f"{self.r}x{self.s}" if self.r * self.s in (1, 9) and self.r == self.s else "other filters"
        return f"{size}, strided" if max(self.stride_h, self.stride_w) > 1 else size

    @property
    def sizes(self) -> Mapping[str, int]:
        return {name: getattr(self, name) for name in NUMBERS}

    @property
    def bindings(self) -> Mapping[str, int]:
        """None, because the kernel's text contains the numbers."""
        return {}


def conv_cases(suite: str, layout: str, parts: Sequence[str] | None = None) -> tuple[ConvCase, ...]:
    """Return the rows of a suite, or of some of its parts."""
    rows = [c for c in read_suite(suite) if isinstance(c, Conv) and (parts is None or c.part in parts)]
    return tuple(
        ConvCase(position, row.part, layout, *(getattr(row, name) for name in NUMBERS))
        for position, row in enumerate(rows)
    )


@dataclass(frozen=True, slots=True)
class Axes:
    """The subscripts of a row's arrays: for each dimension the text in its brackets, and its extent."""

    x: Sequence[tuple[str, int]]
    f: Sequence[tuple[str, int]]
    y: Sequence[tuple[str, int]]
    loops: Sequence[tuple[str, int]]


def axes_of(case: ConvCase) -> Axes:
    """Return the subscripts of X, F and Y, and the loops. Filters of one pixel need no loops over taps."""
    conv, single = case.shape, case.r * case.s == 1
    c, k, g = ("c", conv.c // conv.groups), ("k", conv.k // conv.groups), ("g", conv.groups)
    if conv.groups == 1:
        side, given, made, inner = [], [c], [k], [c]
    elif c[1] == k[1] == 1:  # depthwise: a filter for each channel
        side, given, made, inner = [], [g], [g], []
        k = g
    else:
        side, given, made, inner = [g], [g, c], [g, k], [c]
    n, p, q = ("n", conv.n), ("p", conv.p), ("q", conv.q)
    over = [] if single else [("r", conv.r), ("s", conv.s)]
    image = [(_window("p", conv.stride_h, None if single else "r", conv.pad_h), conv.h),
             (_window("q", conv.stride_w, None if single else "s", conv.pad_w), conv.w)]  # fmt: skip
    loops = [n, *side, k, p, q, *inner, *over]
    if case.layout == "nchw":
        return Axes([n, *given, *image], [*side, k, *inner, *over], [n, *made, p, q], loops)
    return Axes([n, *image, *given], [*side, *over, *inner, k], [n, p, q, *made], loops)


def _window(at: str, stride: int, tap: str | None, pad: int) -> str:
    """Return a subscript such as `p*2 + r - 1`."""
    return (
        (at if stride == 1 else f"{at}*{stride}")
        + (f" + {tap}" if tap else "")
        + (f" - {pad}" if pad else "")
    )


def shapes(case: ConvCase) -> dict[str, tuple[int, ...]]:
    """Return the stored shapes of X, F and Y."""
    axes = axes_of(case)
    return {name: tuple(n for _, n in of) for name, of in (("X", axes.x), ("F", axes.f), ("Y", axes.y))}


def conv_source(case: ConvCase, form: Types, beta: int = 0) -> Source:
    """Return the row in the kernel language. Elements outside an image read as 0."""
    return written_out(case, form, axes_of(case))


def written_out(case: ConvCase, form: Types, axes: Axes) -> Source:
    """Return the row's text with arrays that have these subscripts."""
    every = {"X": axes.x, "F": axes.f, "Y": axes.y}
    at = {name: ", ".join(index for index, _ in of) for name, of in every.items()}
    size = {name: ", ".join(str(extent) for _, extent in of) for name, of in every.items()}
    made = [loop for loop in axes.loops if loop[0] in "ngkpq"]
    filters = _dense_pixels(axes.f)
    image = f"X[{at['X']}]" if case.pad_h == case.pad_w == 0 else f"(X[{at['X']}] else 0)"
    left, right = form.widened("A", image), form.widened("B", f"F[{at['F']}]")
    accumulate = f" accumulate {form.sum}" if form.is_float and form.c != form.sum else ""
    # Sums that leave as bytes have an array of their own.
    sums, temp, end = "Y", "", ""
    if form.requantises:
        depth = case.r * case.s * case.c // case.groups
        sums, temp = "S", f"  temp S: {form.sum}[{size['Y']}];\n"
        scaled = requantising(form, f"Y[{at['Y']}]", f"S[{at['Y']}]", depth)
        end = f"  for {_loops(made)} {{ {scaled} }}\n"
    text = (
        f"kernel convolution() {{\n  in X: {form.a}[{size['X']}];\n  in F: {form.b}[{size['F']}]{filters};\n"
        f"  out Y: {form.c}[{size['Y']}]{accumulate};\n{temp}"
        f"  for {_loops(made)} {{ {sums}[{at['Y']}] = 0; }}\n"
        f"  for {_loops(axes.loops)} {{ {sums}[{at['Y']}] += {left} * {right}; }}\n{end}}}\n"
    )
    return Source("convolution.ir", text)


def _dense_pixels(axes: Sequence[tuple[str, int]]) -> str:
    """Return the condition that a filter's pixels are contiguous if they come last, as libraries require."""
    if [index for index, _ in axes[-2:]] != ["r", "s"]:
        return ""
    *_, (_, r), (_, s) = axes
    return f" strides({'any, ' * (len(axes) - 3)}{r * s}, {s}, 1)"


def _loops(axes: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} in {extent}" for name, extent in axes)


def conv_values(case: ConvCase, form: Types) -> dict[str, tuple[str, Array]]:
    """Return the operands by name, each with its type and random nonzero values."""
    dtypes = {"X": form.a, "F": form.b, "Y": form.c}
    held = shapes(case)
    return {n: (t, random_values(held[n], t, (0, number))) for number, (n, t) in enumerate(dtypes.items())}


def conv_work(case: ConvCase, form: Types, beta: int = 0) -> DataMovement:
    """Return the data movement: each operand once."""
    names = {"X": "A", "F": "B", "Y": "C"}
    size = {n: prod(shape) * form.element_bytes(names[n]) for n, shape in shapes(case).items()}
    held = sum(size.values())
    return DataMovement(held, size["F"], held, held, case.operations)


def is_convolution(contender: TimedContender, case: ConvCase, form: Types, beta: int, shared: Shared) -> bool:
    """Return whether the result of one call is right. Each image and group is checked as a matrix product."""
    shared.refill()
    contender.time(1)
    x, f, y = (as_grouped(case, name, shared.arrays[name][0]) for name in "XFY")
    return all(
        check_product(form, patches(case, x[n, g]), f[g], None, y[n, g]).ok
        for n in range(case.n)
        for g in range(case.groups)
    )


def as_grouped(case: ConvCase, name: str, array: Array) -> Array:
    """Return an operand as X[n, g, h, w, c], F[g, r*s*c, k] or Y[n, g, p*q, k], for any layout."""
    conv, g, first = case.shape, case.groups, case.layout == "nchw"
    c, k = conv.c // g, conv.k // g
    if name == "F":
        if first:
            return array.reshape(g, k, c, conv.r * conv.s).transpose(0, 3, 2, 1).reshape(g, -1, k)
        if c == k == 1:
            array = array.reshape(conv.r * conv.s, g).T
        return array.reshape(g, -1, k)
    channels, rows, columns = (c, conv.h, conv.w) if name == "X" else (k, conv.p, conv.q)
    if first:
        split = array.reshape(conv.n, g, channels, rows, columns).transpose(0, 1, 3, 4, 2)
    else:
        split = array.reshape(conv.n, rows, columns, g, channels).transpose(0, 3, 1, 2, 4)
    return split if name == "X" else split.reshape(conv.n, g, rows * columns, channels)


def patches(case: ConvCase, image: Array) -> Array:
    """Return the image elements under each filter position: [p*q, r*s*c], with zeros outside the image."""
    conv = case.shape
    padded = np.pad(image, ((conv.pad_h, conv.pad_h), (conv.pad_w, conv.pad_w), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (conv.r, conv.s), axis=(0, 1))
    chosen = seen[:: conv.stride_h, :: conv.stride_w][: conv.p, : conv.q]
    return chosen.transpose(0, 1, 3, 4, 2).reshape(conv.p * conv.q, -1)
