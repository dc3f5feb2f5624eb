"""Kinds of cases for machines that this computer cannot run: texts, arrays, results, smaller copies.

    LAYER_KINDS["convolution"].is_right(case, S8, {"X": …, "F": …, "Y": …})

Inputs of convolutions are in memory with their margin of zeros. Results are only written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic

import numpy as np

from isamap.bench import convolution_cases
from isamap.bench.cases import Types, scale_of
from isamap.bench.convolution_cases import shapes as conv_shapes
from isamap.bench.kind import C
from isamap.bench.product_cases import GemmCase, product_source, product_values
from isamap.bench.product_cases import shapes as product_shapes
from isamap.bench.product_check import check_product
from isamap.bench.ring import Array
from isamap.source import Source, dataclass, replace


@dataclass(frozen=True, slots=True)
class LayerKind(Generic[C]):
    """A kind of cases for machines that this computer cannot run: text, arrays, results, smaller copies.

    `laid_out` is the case as its arrays lie in memory, `result` the name of the array that it writes,
    `shapes` how much of each array it reads or writes.
    """

    name: str
    heading: str
    result: str
    laid_out: Callable[[C], C]
    source: Callable[[C, Types, int], Source]
    values: Callable[[C, Types], Mapping[str, tuple[str, Array]]]
    is_right: Callable[[C, Types, Mapping[str, Array]], bool]
    shapes: Callable[[C], Mapping[str, tuple[int, ...]]]
    smaller: Callable[[C], C]


# --- products ---------------------------------------------------------------------------------------------


def _is_product(case: GemmCase, form: Types, arrays: Mapping[str, Array]) -> bool:
    a, b, c = (arrays[name] for name in "ABC")
    a, b = (a.swapaxes(-1, -2) if case.b_transposed else a), (b.swapaxes(-1, -2) if case.a_transposed else b)
    if case.batch == 1:
        a, b, c = a[None], b[None], c[None]
    return all(_is_result(form, a[g], b[g], c[g], case.k) for g in range(case.batch))


def _is_result(form: Types, a: Array, b: Array, c: Array, depth: int) -> bool:
    """Return whether every element of C equals A·B, requantised if the form requires it."""
    if not form.requantises:
        return check_product(form, a, b, None, c).ok
    sums = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    low, high = np.iinfo(c.dtype).min, np.iinfo(c.dtype).max
    expected = np.clip(np.rint(sums * np.float32(scale_of(depth))), low, high)
    return bool(np.array_equal(expected.astype(c.dtype), c))


def _smaller_product(case: GemmCase) -> GemmCase:
    """Return the case with the largest of its sizes divided by two."""
    numbers = {"m": case.m, "n": case.n, "k": case.k, "batch": case.batch}
    name = max(numbers, key=lambda n: numbers[n])
    return replace(case, **{name: numbers[name] // 2})


# --- convolutions -----------------------------------------------------------------------------------------


def with_margin(case: convolution_cases.ConvCase) -> convolution_cases.ConvCase:
    """Return the case with images that include their margin of zeros."""
    h, w = case.h + 2 * case.pad_h, case.w + 2 * case.pad_w
    return replace(case, h=h, w=w, pad_h=0, pad_w=0)


def in_rows(case: convolution_cases.ConvCase) -> convolution_cases.Axes:
    """Return the subscripts for images with channels after pixels, where a row of pixels is one dimension.

    The columns of a filter and their channels then follow each other in images and filters alike, and loops
    over both may run as one.
    """
    axes = convolution_cases.axes_of(case)
    if case.layout != "nhwc":
        return axes
    *image, (column, width), (channel, channels) = axes.x
    *taps, (given, _), made = axes.f
    x = [*image, (f"({column})*{channels} + {channel}", width * channels)]
    over = [loop for loop in axes.loops if loop[0] in "rs"]
    loops = [*(loop for loop in axes.loops if loop[0] not in "rsc"), *over]
    if case.groups > 1:
        return replace(axes, x=x)
    f = [*taps[:-1], (f"s*{channels} + {given}", case.s * channels), made] if over else axes.f
    return replace(axes, x=x, f=f, loops=[*loops, (channel, channels)])


def shapes_read(case: convolution_cases.ConvCase) -> dict[str, tuple[int, ...]]:
    """Return the shapes of X, F and Y, with only the part of X that filters read."""
    found = conv_shapes(case)
    met = [
        min(size, out * min(stride, taps))
        for size, out, stride, taps in (
            (case.h, case.shape.p, case.stride_h, case.r),
            (case.w, case.shape.q, case.stride_w, case.s),
        )
    ]
    return {**found, "X": (case.n, case.c, *met)}


def layer_source(case: convolution_cases.ConvCase, form: Types, _: int) -> Source:
    """Return the row's text, with a row of pixels as one dimension."""
    return convolution_cases.written_out(case, form, in_rows(case))


def layer_values(case: convolution_cases.ConvCase, form: Types) -> dict[str, tuple[str, Array]]:
    """Return the operands in the form of the row's text."""
    axes = in_rows(case)
    shape = {"X": axes.x, "F": axes.f, "Y": axes.y}
    values = convolution_cases.conv_values(case, form).items()
    return {n: (t, a.reshape([extent for _, extent in shape[n]])) for n, (t, a) in values}


def _is_convolution(case: convolution_cases.ConvCase, form: Types, arrays: Mapping[str, Array]) -> bool:
    x, f, y = (convolution_cases.as_grouped(case, name, arrays[name]) for name in "XFY")
    depth = case.r * case.s * case.c // case.groups
    return all(
        _is_result(form, convolution_cases.patches(case, x[n, g]), f[g], y[n, g], depth)
        for n in range(case.n)
        for g in range(case.groups)
    )


def _smaller_convolution(case: convolution_cases.ConvCase) -> convolution_cases.ConvCase:
    """Return an image with half of the rows while filters still fit, then with half of the channels."""
    if case.h // 2 >= case.r:
        return replace(case, h=case.h // 2)
    return replace(case, c=case.c // 2, k=case.k // 2)


PRODUCT_LAYERS = LayerKind(
    "product", "m x n x k", "C", lambda case: case, product_source, product_values, _is_product,
    product_shapes, _smaller_product,
)  # fmt: skip
CONVOLUTION_LAYERS = LayerKind(
    "convolution", "images * filters", "Y", with_margin, layer_source, layer_values, _is_convolution,
    shapes_read, _smaller_convolution,
)  # fmt: skip
LAYER_KINDS: Mapping[str, LayerKind[Any]] = {k.name: k for k in (PRODUCT_LAYERS, CONVOLUTION_LAYERS)}
