"""Normalised rows, products with what follows them, quantised products: the interpreter against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.ir import DTYPES, Kernel, bind, interpret
from isamap.ir.buffers import shape_of
from isamap.kernels import kernel_path
from isamap.source import Source
from isamap.syntax import parse_kernel

Array = NDArray[Any]
Arrays = dict[str, Array]


def load(name: str) -> Kernel:
    return parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8")))


def given(kernel: Kernel, sizes: dict[str, int], factor: float = 1.0) -> Arrays:
    """Random arrays: floats of normal distribution, bytes of all values."""
    rng = np.random.default_rng(0)
    found: Arrays = {}
    for o in bind(kernel, sizes).operands:
        if o.role in ("in", "inout"):
            dtype = o.dtype.numpy()
            made = rng.normal(size=shape_of(o)) * factor
            if o.dtype.is_integer:
                low, high = (0, 255) if o.dtype.kind == "uint" else (-128, 127)
                made = rng.integers(low, high + 1, shape_of(o))
            found[o.name] = np.asarray(made).astype(dtype)
    return found


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_softmax_of_large_and_of_masked_values_is_finite(dtype: str) -> None:
    kernel = load(f"softmax_{dtype}")
    x = np.array([[3e38, -3e38, 0.0], [-np.inf, 1.0, 1.0]]).astype(DTYPES[dtype].numpy())
    found = interpret(kernel, {"x": x}, {"M": 2, "N": 3})["y"].astype(np.float64)
    np.testing.assert_array_equal(found, [[1, 0, 0], [0, 0.5, 0.5]])


def test_a_quantised_product_is_rounded_half_to_even_and_saturated() -> None:
    kernel, sizes = load("gemm_u8s8_requant"), {"M": 1, "N": 5, "K": 1}
    arrays = {
        "A": np.ones((1, 1), np.uint8),
        "B": np.array([[1, 3, 5, 100, -100]], np.int8),
        "offset": np.array([0, 0, 0, 7, 0], np.int32),
        "scale": np.array([0.5, 0.5, 0.5, 10, 1], np.float32),
    }
    found = interpret(kernel, arrays, sizes, {"zero": 10.0})["C"]
    assert found.tolist() == [[10, 12, 12, 255, 0]]


def test_a_quantised_product_is_that_of_what_bytes_stand_for() -> None:
    kernel, sizes = load("gemm_u8s8_requant"), {"M": 4, "N": 6, "K": 9}
    arrays = given(kernel, sizes, 0.01)
    arrays["offset"] = (-130 * arrays["B"].astype(np.int64).sum(axis=0)).astype(np.int32)
    sums = (arrays["A"].astype(np.int64) - 130) @ arrays["B"].astype(np.int64)
    scaled = np.rint((sums.astype(np.float32) * arrays["scale"]).astype(np.float64)) + 128
    found = interpret(kernel, arrays, sizes, {"zero": 128.0})["C"]
    np.testing.assert_array_equal(found, np.clip(scaled, 0, 255))
