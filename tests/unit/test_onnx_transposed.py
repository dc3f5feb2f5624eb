"""Transposed convolutions of ONNX at their edges: paddings, sizes that are asked for, groups and dilations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import imported, interpreted, make

from isamap.graph.graph import Array
from isamap.source import UsageProblem

RNG = np.random.default_rng(3)
Attributes = Mapping[str, Any]


def whole(*sizes: int) -> Array:
    return RNG.integers(-3, 4, sizes).astype(np.float32)


def cropped(full: list[int], more: list[int], image: Array, given: Attributes) -> tuple[list[int], list[int]]:
    """Return where the result begins in the sum of all taps, and its sizes, by the formulas of the standard."""
    count = len(full)
    kind, expected = given.get("auto_pad", "NOTSET"), given.get("output_shape")
    pads = [0] * (2 * count) if kind == "VALID" else given.get("pads", [0] * (2 * count))
    if expected is None and kind.startswith("SAME"):
        expected = [size * stride for size, stride in zip(image.shape[2:], given["strides"], strict=True)]
    if expected is None:
        return pads[:count], [
            f + m - pads[n] - pads[count + n] for n, (f, m) in enumerate(zip(full, more, strict=True))
        ]
    totals = [f + m - size for f, m, size in zip(full, more, expected, strict=True)]
    return [t // 2 if kind == "SAME_UPPER" else t - t // 2 for t in totals], expected


def defined(x: Array, w: Array, bias: Array, given: Attributes) -> Array:
    """Return the result by its definition: each element of the image times each tap, put where it belongs."""
    count, groups = x.ndim - 2, given.get("group", 1)
    strides, dilations, more = (
        given.get(name, [value] * count)
        for name, value in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    window = w.shape[2:]
    full = [(x.shape[2 + n] - 1) * strides[n] + (window[n] - 1) * dilations[n] + 1 for n in range(count)]
    before, sizes = cropped(full, more, x, given)
    channels, filters = x.shape[1] // groups, w.shape[1]
    y = np.zeros((x.shape[0], groups * filters, *sizes), np.float32)
    for group in range(groups):
        own = slice(group * channels, (group + 1) * channels)
        to = slice(group * filters, (group + 1) * filters)
        for pixel in np.ndindex(*x.shape[2:]):
            for tap in np.ndindex(*window):
                at = [pixel[n] * strides[n] + tap[n] * dilations[n] - before[n] for n in range(count)]
                if all(0 <= place < size for place, size in zip(at, sizes, strict=True)):
                    y[(slice(None), to, *at)] += x[(slice(None), own, *pixel)] @ w[(own, slice(None), *tap)]
    return y + bias.reshape(-1, *[1] * count)


EDGES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Attributes]] = {
    "1d": ((2, 2, 4), (2, 3, 3), {}),
    "1d, output_padding": ((1, 2, 4), (2, 1, 3), {"strides": [3], "output_padding": [2], "pads": [1, 0]}),
    "output_padding below a dilation": ((1, 2, 3), (2, 1, 2), {"dilations": [3], "output_padding": [2]}),
    "groups, pads and dilations": (
        (2, 4, 3, 2),
        (4, 3, 2, 3),
        {"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 0, 2], "output_padding": [1, 0]},
    ),
    "each channel by itself": (
        (1, 3, 3, 3),
        (3, 1, 3, 3),
        {"group": 3, "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "3d": (
        (1, 2, 2, 3, 2),
        (2, 1, 2, 1, 3),
        {"strides": [1, 2, 3], "output_padding": [0, 1, 2], "pads": [0, 0, 1, 1, 0, 0]},
    ),
    "3d groups, SAME_LOWER": (
        (1, 2, 2, 3, 2),
        (2, 2, 2, 2, 3),
        {"group": 2, "strides": [1, 2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "SAME_UPPER": ((1, 1, 3, 4), (1, 2, 3, 4), {"strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    "SAME_LOWER": ((1, 1, 3, 4), (1, 2, 4, 3), {"strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    "VALID leaves pads out": ((1, 1, 3), (1, 1, 3), {"auto_pad": "VALID", "pads": [1, 1]}),
    "output_shape": ((1, 1, 3, 3), (1, 2, 3, 4), {"strides": [2, 2], "output_shape": [6, 7]}),
    "output_shape, VALID": ((1, 1, 3), (1, 2, 4), {"strides": [2], "output_shape": [5], "auto_pad": "VALID"}),
    "output_shape, SAME_UPPER": (
        (1, 1, 3),
        (1, 2, 4),
        {"strides": [2], "output_shape": [5], "auto_pad": "SAME_UPPER"},
    ),
    "output_shape and output_padding": (
        (1, 1, 3, 2),
        (1, 1, 3, 2),
        {"strides": [2, 3], "output_shape": [6, 5], "output_padding": [1, 2]},
    ),
    "one element": ((1, 1, 1, 1), (1, 1, 1, 1), {"strides": [3, 3], "output_padding": [2, 1]}),
}


@pytest.mark.parametrize("edge", EDGES)
def test_a_transposed_convolution_is_what_the_standard_defines(edge: str) -> None:
    of_image, of_filters, attributes = EDGES[edge]
    x, w = whole(*of_image), whole(*of_filters)
    bias = whole(of_filters[1] * attributes.get("group", 1))
    nodes = [("ConvTranspose", ["x", "w", "b"], ["y"], attributes)]
    (found,) = interpreted(nodes, {"x": x}, ["y"], w=w, b=bias)
    np.testing.assert_array_equal(found, defined(x, w, bias, attributes))


REFUSED: dict[str, tuple[Attributes, str]] = {
    "pads that leave less than nothing": ({"pads": [3, 3]}, "`pads` .* that take away more than"),
    "a stride of 0": ({"strides": [0]}, "a stride, a dilation or a window below 1"),
    "a dilation below 0": ({"dilations": [-1]}, "a stride, a dilation or a window below 1"),
    "a negative output_padding": ({"output_padding": [-1]}, "a negative `output_padding`"),
    "no group": ({"group": 0}, "in 0 groups"),
    "groups that do not divide the channels": ({"group": 2}, "in 2 groups"),
    "a window that is not that of the filters": ({"kernel_shape": [2]}, "filters .* for an image"),
    "pads of another number of dimensions": ({"pads": [1, 1, 1, 1]}, "another number of dimensions than 1"),
    "a sum that is too large": ({"strides": [1 << 40], "output_shape": [4]}, "elements is too large"),
}


@pytest.mark.parametrize("lie", REFUSED)
def test_a_transposed_convolution_that_is_none_is_refused(lie: str) -> None:
    attributes, said = REFUSED[lie]
    nodes = [("ConvTranspose", ["x", "w"], ["y"], attributes)]
    with pytest.raises(UsageProblem, match=said):
        imported(make(nodes, {"x": whole(1, 1, 3)}, ["y"], {"w": whole(1, 1, 3)})).whole()
