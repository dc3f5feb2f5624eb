"""Types of ONNX that the language does not have: their bytes are read by tables, and written by comparisons."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models of ONNX need the package onnx: pip install 'isamap[onnx]'")

from onnx_models import imported, make

from isamap.graph.graph import Array
from isamap.graph.types import CODED, NUMBERS
from isamap.onnx import compile_model
from isamap.source import UsageProblem

MACHINE = "generic-c"
FLOATS = [dtype for dtype in CODED if dtype.startswith("f")]
SIGNED = ["f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1"]


def numbers_of(dtype: str) -> Array:
    """Return all numbers of a type, by their bytes."""
    count = {"f4e2m1": 16, "u2": 4}.get(dtype, 256)
    return np.arange(count, dtype=np.uint8).view(getattr(import_module("ml_dtypes"), CODED[dtype]))


def called(op: str, x: Array, **attributes: Any) -> Array:
    library = compile_model(
        imported(make([(op, ["x"], ["y"], attributes)], {"x": x}, ["y"], opset=25)), MACHINE, jobs=1
    )
    return library({"x": x})["y"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_byte_is_read_as_its_number(dtype: str) -> None:
    numbers = numbers_of(dtype)
    np.testing.assert_array_equal(called("Cast", numbers, to=NUMBERS["f32"]), numbers.astype(np.float32))


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("saturate", [0, 1])
def test_numbers_go_to_the_nearest_one_and_from_the_middle_to_the_even_one(dtype: str, saturate: int) -> None:
    known = np.sort(numbers_of(dtype).astype(np.float32))
    known = known[np.isfinite(known)]
    middles = (known[1:] + known[:-1]) / 2
    near = np.concatenate([known, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    x = np.concatenate([near, [-0.0, np.nan]]).astype(np.float32)
    found = called("Cast", x, to=NUMBERS[dtype], saturate=saturate)
    np.testing.assert_array_equal(found, x.astype(numbers_of(dtype).dtype).view(np.uint8))
    beyond = np.asarray([2 * known[-1], np.inf, -np.inf], np.float32)
    if dtype != "f4e2m1":
        none = [128] * 3
        largest = np.asarray([known[-1], known[-1], known[0]]).astype(numbers_of(dtype).dtype).view(np.uint8)
        found = called("Cast", beyond, to=NUMBERS[dtype], saturate=saturate)
        np.testing.assert_array_equal(found, largest if saturate else none)


@pytest.mark.parametrize("dtype", ["f4e2m1", "i2", "u2"])
def test_numbers_are_quantised_and_back(dtype: str) -> None:
    zero = np.zeros((), numbers_of(dtype).dtype if dtype != "i2" else import_module("ml_dtypes").int2)
    model = make(
        [("QuantizeLinear", ["x", "s", "z"], ["q"], {}), ("DequantizeLinear", ["q", "s", "z"], ["y"], {})],
        {"x": np.zeros(9, np.float32)}, ["y"], {"s": np.asarray(0.5, np.float32), "z": zero}, 25,
    )  # fmt: skip
    x = np.asarray([-9, -1.1, -0.6, -0.2, 0, 0.3, 0.6, 1.4, 9], np.float32)
    found = compile_model(imported(model), MACHINE, jobs=1)({"x": x})["y"]
    wanted = {
        "f4e2m1": [-3, -1, -0.5, -0.25, 0, 0.25, 0.5, 1.5, 3],
        "i2": [-1, -1, -0.5, 0, 0, 0.5, 0.5, 0.5, 0.5],
        "u2": [0, 0, 0, 0, 0, 0.5, 0.5, 1.5, 1.5],
    }
    np.testing.assert_array_equal(found, wanted[dtype])


def test_arithmetic_on_such_numbers_is_refused() -> None:
    x = numbers_of("f4e2m1")
    for op in ("Relu", "Transpose", "Flatten"):
        with pytest.raises(
            UsageProblem, match="no kernel computes with the type of an input, which is only cast"
        ):
            imported(make([(op, ["x"], ["y"], {})], {"x": x}, ["y"], opset=25)).whole()
