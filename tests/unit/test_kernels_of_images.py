"""Shipped convolutions of bfloat16, and with margins and strides of their own for rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.ir import Kernel, bind, interpret
from isamap.ir.buffers import shape_of
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.syntax import parse_kernel

Array = NDArray[Any]
SIZES = {"N": 2, "C": 3, "K": 4, "H": 7, "W": 8, "R": 3, "S": 2}


def load(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def small_integers(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Of which sums are exact in every type."""
    rng = np.random.default_rng(0)
    operands = bind(kernel, sizes).operands
    return {o.name: rng.integers(-3, 4, shape_of(o)).astype(o.dtype.numpy()) for o in operands}


def convolve(
    x: Array,
    f: Array,
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    margins: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Array:
    """x [n, h, w, c], f [r, s, c, k]; margins above, left, below, right."""
    top, left, bottom, right = margins
    padded = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, columns = (padded.shape[d + 1] - dilation[d] * (f.shape[d] - 1) for d in (0, 1))
    taps = [(r, s) for r in range(f.shape[0]) for s in range(f.shape[1])]
    return np.sum(
        [
            padded[:, r * dilation[0] :][:, : rows : stride[0], s * dilation[1] :][
                :, :, : columns : stride[1]
            ]
            @ f[r, s].astype(np.float64)
            for r, s in taps
        ],
        axis=0,
    )


@pytest.mark.parametrize("first", [True, False], ids=["nchw", "nhwc"])
@pytest.mark.parametrize(("stride", "pad"), [(1, 1), (2, 0), (2, 1)])
def test_a_convolution_of_bfloat16_is_rounded_once(first: bool, stride: int, pad: int) -> None:
    kernel = load("conv2d_nchw_bf16" if first else "conv2d_nhwc_bf16")
    sizes = SIZES | {"stride": stride, "pad": pad}
    arrays = small_integers(kernel, sizes)
    x, f = (
        (arrays["X"].transpose(0, 2, 3, 1), arrays["F"].transpose(2, 3, 1, 0))
        if first
        else (arrays["X"], arrays["F"])
    )
    made = convolve(x, f, (stride, stride), margins=(pad, pad, pad, pad))
    expected = arrays["Y"].astype(np.float64) + (made.transpose(0, 3, 1, 2) if first else made)
    found = interpret(kernel, arrays, sizes)["Y"]
    assert np.array_equal(found, expected.astype(np.float32).astype(found.dtype))


@pytest.mark.parametrize("margins", [(0, 0, 0, 0), (1, 0, 0, 2), (0, 3, 2, 1)])
@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 2)), ((1, 3), (2, 1))])
def test_a_convolution_has_margins_strides_and_dilations_of_its_own_for_each_side(
    stride: tuple[int, int], dilation: tuple[int, int], margins: tuple[int, int, int, int]
) -> None:
    kernel = load("conv2d_nhwc_pads")
    sizes = SIZES | dict(zip(("stride_h", "stride_w"), stride, strict=True))
    sizes |= dict(zip(("dilation_h", "dilation_w"), dilation, strict=True))
    sizes |= dict(zip(("top", "left", "bottom", "right"), margins, strict=True))
    arrays = small_integers(kernel, sizes)
    expected = arrays["Y"] + convolve(arrays["X"], arrays["F"], stride, dilation, margins)
    assert np.array_equal(interpret(kernel, arrays, sizes)["Y"], expected)
